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
    text: Any  # from ngettext_lazy, with the placeholders person and total; the singular is about one notification
    page: str = "memory"  # kind of the page that the notification links to; see url_for()


KINDS: Mapping[str, NotificationKind] = {
    "approved": NotificationKind(
        ngettext_lazy("%(person)s approved your insight", "%(person)s approved %(total)s of your insights", "count"),
    ),
    "rejected": NotificationKind(
        ngettext_lazy("%(person)s rejected your insight", "%(person)s rejected %(total)s of your insights", "count"),
    ),
    "taken_back": NotificationKind(
        ngettext_lazy(
            "%(person)s undid the decision on your insight; it is waiting for review again",
            "%(person)s undid the decisions on %(total)s of your insights; they are waiting for review again",
            "count",
        ),
    ),
    "applied": NotificationKind(
        ngettext_lazy(
            "%(person)s applied your insight to the catalog",
            "%(person)s applied %(total)s of your insights to the catalog",
            "count",
        ),
    ),
    "rolled_back": NotificationKind(
        ngettext_lazy(
            "%(person)s rolled back your insight; it is waiting for review again",
            "%(person)s rolled back %(total)s of your insights; they are waiting for review again",
            "count",
        ),
    ),
    "edit_approved": NotificationKind(
        ngettext_lazy("%(person)s approved your edit", "%(person)s approved %(total)s of your edits", "count"),
    ),
    "edit_rejected": NotificationKind(
        ngettext_lazy("%(person)s rejected your edit", "%(person)s rejected %(total)s of your edits", "count"),
    ),
    "needs_more": NotificationKind(
        ngettext_lazy(
            "%(person)s asked you about your insight", "%(person)s asked you about %(total)s of your insights", "count"
        ),
        "my-insight",
    ),
    "answered": NotificationKind(
        ngettext_lazy("%(person)s answered your question", "%(person)s answered %(total)s of your questions", "count"),
        "insight",
    ),
    "appealed": NotificationKind(
        ngettext_lazy("%(person)s appealed your decision", "%(person)s appealed %(total)s of your decisions", "count"),
        "insight",
    ),
    "handed_over": NotificationKind(
        ngettext_lazy(
            "%(person)s handed an insight over to you", "%(person)s handed %(total)s insights over to you", "count"
        ),
        "insight",
    ),
    "overturned": NotificationKind(
        ngettext_lazy(
            "%(person)s overturned your decision on an insight",
            "%(person)s overturned your decisions on %(total)s insights",
            "count",
        ),
        "insight",
    ),
    "stale": NotificationKind(
        ngettext_lazy(
            "%(person)s found that your memory may no longer be true",
            "%(person)s found that %(total)s of your memories may no longer be true",
            "count",
        ),
        "stale",
    ),
    "ends_soon": NotificationKind(
        ngettext_lazy(
            "%(person)s reminds you that a memory ends within a week: extend it if it stays true",
            "%(person)s reminds you that %(total)s memories end within a week: extend those that stay true",
            "count",
        ),
    ),
    "ended": NotificationKind(
        ngettext_lazy(
            "%(person)s found that a memory is no longer valid: extend it if it is still true",
            "%(person)s found that %(total)s memories are no longer valid: extend those that are still true",
            "count",
        ),
    ),
    "reported": NotificationKind(
        ngettext_lazy(
            "%(person)s reported your memory as wrong or outdated",
            "%(person)s reported %(total)s of your memories as wrong or outdated",
            "count",
        ),
    ),
    "rewritten": NotificationKind(
        ngettext_lazy(
            "%(person)s changed a verified memory", "%(person)s changed %(total)s verified memories", "count"
        ),
    ),
    "cited": NotificationKind(
        ngettext_lazy(
            "%(person)s changed memories that a document of yours cites",
            "%(person)s changed memories that %(total)s documents of yours cite",
            "count",
        ),
        "citing-document",
    ),
    "mentioned": NotificationKind(
        ngettext_lazy("%(person)s mentioned you", "%(person)s mentioned you in %(total)s texts", "count"),
    ),
    "second_approval": NotificationKind(
        ngettext_lazy(
            "%(person)s asks for a second approval of a changeset",
            "%(person)s asks for a second approval of %(total)s changesets",
            "count",
        ),
        "changeset",
    ),
    "changeset_approved": NotificationKind(
        ngettext_lazy(
            "%(person)s approved your changeset", "%(person)s approved %(total)s of your changesets", "count"
        ),
        "changeset",
    ),
    "changeset_declined": NotificationKind(
        ngettext_lazy(
            "%(person)s declined your changeset", "%(person)s declined %(total)s of your changesets", "count"
        ),
        "changeset",
    ),
    "interviewed": NotificationKind(
        ngettext_lazy(
            "%(person)s asked you what is missing about an entity",
            "%(person)s asked you what is missing about %(total)s entities",
            "count",
        ),
        "question",
    ),
    "suggested": NotificationKind(
        ngettext_lazy(
            "%(person)s found something in your sessions that you may want to keep",
            "%(person)s found something in your sessions that you may want to keep, on %(total)s occasions",
            "count",
        ),
        "suggestion",
    ),
    "scope_proposed": NotificationKind(
        ngettext_lazy(
            "%(person)s proposes a scope for your memory",
            "%(person)s proposes scopes for %(total)s of your memories",
            "count",
        ),
        "contradictions",
    ),
    "webhook_paused": NotificationKind(
        ngettext_lazy(
            "%(person)s paused your webhook endpoint", "%(person)s paused %(total)s of your webhook endpoints", "count"
        ),
        "webhook",
    ),
    "tool_waiting": NotificationKind(
        ngettext_lazy(
            "%(person)s holds back tools of an upstream server until an operator has looked",
            "%(person)s holds back tools of %(total)s upstream servers until an operator has looked",
            "count",
        ),
        "upstream-tools",
    ),
}


@dataclass(frozen=True)
class Topic:
    """Kinds of notifications that a person switches on and off together."""

    title: Promise
    help: Promise
    kinds: tuple[str, ...]


TOPICS: Mapping[str, Topic] = {
    "insights": Topic(
        gettext_lazy("My insights"),
        gettext_lazy("approved, rejected, applied, rolled back, and decisions that were undone"),
        ("approved", "rejected", "taken_back", "applied", "rolled_back", "edit_approved", "edit_rejected"),
    ),
    "memories": Topic(
        gettext_lazy("My memories"),
        gettext_lazy("stale, about to end, reported as wrong, changed after I verified them, cited"),
        ("stale", "ends_soon", "ended", "reported", "rewritten", "cited", "scope_proposed"),
    ),
    "questions": Topic(
        gettext_lazy("Questions and mentions"),
        gettext_lazy("curators who ask me, colleagues who mention me, suggestions from my sessions"),
        ("needs_more", "mentioned", "interviewed", "suggested"),
    ),
    "review": Topic(
        gettext_lazy("Review"),
        gettext_lazy("answers, appeals, insights handed over to me, changesets that wait for a second approval"),
        (
            "answered",
            "appealed",
            "handed_over",
            "overturned",
            "second_approval",
            "changeset_approved",
            "changeset_declined",
        ),
    ),
    "systems": Topic(
        gettext_lazy("Connected systems"),
        gettext_lazy("webhook endpoints that were paused, tools of upstream servers that wait for an operator"),
        ("webhook_paused", "tool_waiting"),
    ),
}


def sentence(kind: str, by: str, count: int = 1) -> str:
    """Return the text of `count` notifications of one kind that `by` caused: "Cora approved 12 of your insights"."""
    is_person = by and by != system_caller().email
    sender = name_of(by) if is_person else gettext("Commonplace")
    return str(KINDS[kind].text % {"person": sender, "total": locale.number(count), "count": count})
