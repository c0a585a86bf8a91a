from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from foundation.operations.display import show_invisible
from foundation.people.caller import Caller
from memories.admin.actions import AdminAction
from memories.admin.base import AdminsOnly, admin_caller, age, badge, stacked
from memories.models import SameWords, SameWordsDecision
from memories.writing import same_words

EXCERPT = 200  # maximum number of characters of a text in the list


def preview(caller: Caller, entries: Sequence[SameWords]) -> list[SafeString]:
    lines = []
    for entry in entries:
        found = same_words.look(caller, entry)
        lines.append(format_html("{} of {}: “{}”", entry.place, found.owner or "nobody", excerpt(found)))
    return lines


def excerpt(found: same_words.FoundWords) -> str:
    if not found.text:
        return gettext("The text is gone.")
    text = show_invisible(found.text)
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def _seen(entry: SameWords) -> same_words.FoundWords:
    return cast("same_words.FoundWords", entry.seen)  # type: ignore[attr-defined]  # set when the row was read


@admin.register(SameWords)
class SameWordsAdmin(AdminsOnly):
    """Texts with the words of an erased memory. Admins read each as it is now, and decide about it."""

    list_filter = ["decision", "place"]
    list_select_related = ["tombstone"]
    date_hierarchy = "found_at"
    search_fields = ["tombstone__created_by", "tombstone__erased_by"]
    search_help_text = gettext_lazy("Search by the owner of the erased memory, or by the person who erased it.")
    fields = ["place", "whole_text", "owner", "erased", "found_at", "badge", "decided_by", "decided_at"]
    readonly_fields = ["whole_text", "owner", "erased", "badge"]
    actions = [AdminAction(name, preview).for_menu() for name in ("erase_same_words", "leave_same_words")]
    presets = ((gettext_lazy("Open"), "decision__exact=open"),)

    def usual_columns(self, request: HttpRequest) -> list[Any]:
        caller = admin_caller(request)

        @admin.display(description=gettext_lazy("text"))
        def text(entry: SameWords) -> SafeString:
            found = entry.seen = same_words.look(caller, entry)  # type: ignore[attr-defined]  # for the column owner
            note = gettext("changed since it was found") if found.text and found.has_changed else entry.place
            return stacked(excerpt(found), note)

        return [text, "owner", "erased", "found", "badge", "decided_by"]

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> SameWords | None:
        entry: SameWords | None = super().get_object(request, *args, **kwargs)
        if entry is not None:
            entry.seen = same_words.look(admin_caller(request), entry)  # type: ignore[attr-defined]
        return entry

    @admin.display(description=gettext_lazy("text"))
    def whole_text(self, entry: SameWords) -> str:
        return show_invisible(_seen(entry).text) or gettext("The text is gone.")

    @admin.display(description=gettext_lazy("owner"))
    def owner(self, entry: SameWords) -> str:
        return _seen(entry).owner or "–"

    @admin.display(description=gettext_lazy("erased memory"))
    def erased(self, entry: SameWords) -> Any:
        return stacked(
            gettext("of %(person)s") % {"person": entry.tombstone.created_by},
            gettext("erased by %(person)s") % {"person": entry.tombstone.erased_by},
        )

    @admin.display(description=gettext_lazy("found"), ordering="found_at")
    def found(self, entry: SameWords) -> str:
        return age(entry.found_at)

    @admin.display(description=gettext_lazy("decision"), ordering="decision")
    def badge(self, entry: SameWords) -> SafeString:
        is_open = entry.decision == SameWordsDecision.OPEN
        return badge("pending" if is_open else "", str(SameWordsDecision(entry.decision).label))
