"""Kinds of notifications and their texts.

A notification stores its kind, not a text, so that everyone reads it in their own language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext_lazy

from foundation.people.caller import Caller, system_caller
from foundation.registry import Registry
from memory_project.accounts.names import name_of
from memory_project.web import locale

DIGEST = "digest"  # the key of the weekly mail in User.notify; it is not a kind of notification
CHOICES: Mapping[str, Promise] = {
    "portal": gettext_lazy("In the portal"),
    "mail": gettext_lazy("In the portal and by mail"),
    "none": gettext_lazy("Not at all"),
}
# Functions that return what notifications of a kind say now, by the id that they are about. Only kinds that are about
# no memory have one. The room of the kind registers it.
TEXTS: Registry[Callable[[Caller], Mapping[UUID, str]]] = Registry("texts of notifications")


@dataclass(frozen=True)
class NotificationKind:
    title: Promise  # label in the account's settings
    text: Any  # from ngettext_lazy, with the placeholders person and total; the singular is about one notification
    page: str = "memory"  # kind of the page that the notification links to; see url_for()


KINDS: Mapping[str, NotificationKind] = {
    "approved": NotificationKind(
        gettext_lazy("An insight of mine was approved"),
        ngettext_lazy("%(person)s approved your insight", "%(person)s approved %(total)s of your insights", "count"),
    ),
    "rejected": NotificationKind(
        gettext_lazy("An insight of mine was rejected"),
        ngettext_lazy("%(person)s rejected your insight", "%(person)s rejected %(total)s of your insights", "count"),
    ),
    "taken_back": NotificationKind(
        gettext_lazy("A decision on an insight or edit of mine was undone"),
        ngettext_lazy(
            "%(person)s undid the decision on your insight; it is waiting for review again",
            "%(person)s undid the decisions on %(total)s of your insights; they are waiting for review again",
            "count",
        ),
    ),
    "applied": NotificationKind(
        gettext_lazy("An insight of mine was applied"),
        ngettext_lazy(
            "%(person)s applied your insight to the catalog",
            "%(person)s applied %(total)s of your insights to the catalog",
            "count",
        ),
    ),
    "rolled_back": NotificationKind(
        gettext_lazy("An insight of mine was rolled back"),
        ngettext_lazy(
            "%(person)s rolled back your insight; it is waiting for review again",
            "%(person)s rolled back %(total)s of your insights; they are waiting for review again",
            "count",
        ),
    ),
    "edit_approved": NotificationKind(
        gettext_lazy("An edit of mine was approved"),
        ngettext_lazy("%(person)s approved your edit", "%(person)s approved %(total)s of your edits", "count"),
    ),
    "edit_rejected": NotificationKind(
        gettext_lazy("An edit of mine was rejected"),
        ngettext_lazy("%(person)s rejected your edit", "%(person)s rejected %(total)s of your edits", "count"),
    ),
    "needs_more": NotificationKind(
        gettext_lazy("A curator asked me a question"),
        ngettext_lazy(
            "%(person)s asked you about your insight", "%(person)s asked you about %(total)s of your insights", "count"
        ),
        "my-insight",
    ),
    "answered": NotificationKind(
        gettext_lazy("An author answered my question"),
        ngettext_lazy("%(person)s answered your question", "%(person)s answered %(total)s of your questions", "count"),
        "insight",
    ),
    "appealed": NotificationKind(
        gettext_lazy("An author appealed a decision of mine"),
        ngettext_lazy("%(person)s appealed your decision", "%(person)s appealed %(total)s of your decisions", "count"),
        "insight",
    ),
    "handed_over": NotificationKind(
        gettext_lazy("An insight was handed over to me"),
        ngettext_lazy(
            "%(person)s handed an insight over to you", "%(person)s handed %(total)s insights over to you", "count"
        ),
        "insight",
    ),
    "overturned": NotificationKind(
        gettext_lazy("A review decision of mine was overturned"),
        ngettext_lazy(
            "%(person)s overturned your decision on an insight",
            "%(person)s overturned your decisions on %(total)s insights",
            "count",
        ),
        "insight",
    ),
    "stale": NotificationKind(
        gettext_lazy("A memory of mine went stale"),
        ngettext_lazy(
            "%(person)s found that your memory may no longer be true",
            "%(person)s found that %(total)s of your memories may no longer be true",
            "count",
        ),
        "stale",
    ),
    "ends_soon": NotificationKind(
        gettext_lazy("A memory of mine, or one in the catalog, ends within a week"),
        ngettext_lazy(
            "%(person)s reminds you that a memory ends within a week: extend it if it stays true",
            "%(person)s reminds you that %(total)s memories end within a week: extend those that stay true",
            "count",
        ),
    ),
    "ended": NotificationKind(
        gettext_lazy("A memory of mine, or one in the catalog, is no longer valid"),
        ngettext_lazy(
            "%(person)s found that a memory is no longer valid: extend it if it is still true",
            "%(person)s found that %(total)s memories are no longer valid: extend those that are still true",
            "count",
        ),
    ),
    "reported": NotificationKind(
        gettext_lazy("A memory of mine was reported as wrong or outdated"),
        ngettext_lazy(
            "%(person)s reported your memory as wrong or outdated",
            "%(person)s reported %(total)s of your memories as wrong or outdated",
            "count",
        ),
    ),
    "rewritten": NotificationKind(
        gettext_lazy("A verified memory of mine, or one that I verified, was changed"),
        ngettext_lazy(
            "%(person)s changed a verified memory", "%(person)s changed %(total)s verified memories", "count"
        ),
    ),
    "cited": NotificationKind(
        gettext_lazy("A memory that a document of mine cites has changed"),
        ngettext_lazy(
            "%(person)s changed memories that a document of yours cites",
            "%(person)s changed memories that %(total)s documents of yours cite",
            "count",
        ),
        "citing-document",
    ),
    "mentioned": NotificationKind(
        gettext_lazy("I was mentioned"),
        ngettext_lazy("%(person)s mentioned you", "%(person)s mentioned you in %(total)s texts", "count"),
    ),
    "second_approval": NotificationKind(
        gettext_lazy("A changeset waits for a second approval, which I may give"),
        ngettext_lazy(
            "%(person)s asks for a second approval of a changeset",
            "%(person)s asks for a second approval of %(total)s changesets",
            "count",
        ),
        "changeset",
    ),
    "changeset_approved": NotificationKind(
        gettext_lazy("A changeset of mine got its second approval"),
        ngettext_lazy(
            "%(person)s approved your changeset", "%(person)s approved %(total)s of your changesets", "count"
        ),
        "changeset",
    ),
    "changeset_declined": NotificationKind(
        gettext_lazy("A changeset of mine was declined"),
        ngettext_lazy(
            "%(person)s declined your changeset", "%(person)s declined %(total)s of your changesets", "count"
        ),
        "changeset",
    ),
    "interviewed": NotificationKind(
        gettext_lazy("A curator asked me what is missing about an entity"),
        ngettext_lazy(
            "%(person)s asked you what is missing about an entity",
            "%(person)s asked you what is missing about %(total)s entities",
            "count",
        ),
        "question",
    ),
    "suggested": NotificationKind(
        gettext_lazy("My sessions have suggestions for me"),
        ngettext_lazy(
            "%(person)s found something in your sessions that you may want to keep",
            "%(person)s found something in your sessions that you may want to keep, on %(total)s occasions",
            "count",
        ),
        "suggestion",
    ),
    "scope_proposed": NotificationKind(
        gettext_lazy("Somebody proposes where alone a memory of mine holds"),
        ngettext_lazy(
            "%(person)s proposes where alone your memory holds",
            "%(person)s proposes where alone %(total)s of your memories hold",
            "count",
        ),
        "contradictions",
    ),
    "webhook_paused": NotificationKind(
        gettext_lazy("A webhook endpoint of mine was paused"),
        ngettext_lazy(
            "%(person)s paused your webhook endpoint", "%(person)s paused %(total)s of your webhook endpoints", "count"
        ),
        "webhook",
    ),
    "tool_waiting": NotificationKind(
        gettext_lazy("Tools of an upstream server wait for me, as an operator"),
        ngettext_lazy(
            "%(person)s holds back tools of an upstream server until an operator has looked",
            "%(person)s holds back tools of %(total)s upstream servers until an operator has looked",
            "count",
        ),
        "upstream-tools",
    ),
}


def sentence(kind: str, by: str, count: int = 1) -> str:
    """Return the text of `count` notifications of one kind that `by` caused: "Cora approved 12 of your insights"."""
    is_person = by and by != system_caller().email
    sender = name_of(by) if is_person else gettext("Commonplace")
    return str(KINDS[kind].text % {"person": sender, "total": locale.number(count), "count": count})
