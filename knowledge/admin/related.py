"""Links and lines of history that this app adds to the admin's pages of memories and changesets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext

from foundation.links import url_for
from foundation.operations.display import show_invisible
from foundation.people.caller import Caller
from knowledge.catalog.entity_view import short_name
from knowledge.models import Changeset, Decision, Insight
from memories.admin.base import moment
from memories.admin.history import HistoryLine
from memories.admin.rows import Link
from memories.models import MemoryRecord

MAX_LINKS = 50


def links_of_record(caller: Caller, record: MemoryRecord) -> Mapping[str, Sequence[Link]]:
    """Return links to the entities, insights and changesets of a memory that the caller may see."""
    proposals = Insight.objects.visible_to(caller).filter(Q(pk=record.pk) | Q(replaces=record.pk))
    return {
        gettext("Entities"): entity_links(record.entity_urns),
        gettext("Insights"): insight_links(list(proposals.select_related("record")[:MAX_LINKS])),
        gettext("Changesets"): changeset_links(changesets_of(caller, record)),
    }


def changesets_of(caller: Caller, record: MemoryRecord) -> list[Changeset]:
    """Return the changesets of a memory that the caller may see. They are read once for the links and the history."""
    found: list[Changeset] | None = getattr(record, "visible_changesets", None)
    if found is None:
        rows = Changeset.objects.visible_to(caller).filter(insight_ids__contains=[record.pk.hex])
        found = record.visible_changesets = list(rows[:MAX_LINKS])  # type: ignore[attr-defined]
    return found


def entity_links(urns: Sequence[str]) -> list[Link]:
    return [Link(short_name(urn), url_for("entity", urn)) for urn in urns[:MAX_LINKS]]


def insight_links(insights: Sequence[Insight]) -> list[Link]:
    return [
        Link(
            show_invisible(str(insight.record)),
            reverse("admin:knowledge_insight_change", args=[insight.pk]),
            insight.get_state_display().lower(),
        )
        for insight in insights
    ]


def changeset_links(changesets: Sequence[Changeset]) -> list[Link]:
    return [
        Link(
            short_name(changeset.entity_urn) if changeset.entity_urn else gettext("No target entity"),
            reverse("admin:knowledge_changeset_change", args=[changeset.pk]),
            f"{changeset.get_state_display().lower()}, {moment(changeset.created_at)}",
        )
        for changeset in changesets
    ]


def review_of_record(caller: Caller, record: MemoryRecord) -> list[HistoryLine]:
    """Return the steps in the review of an insight, and its applications and rollbacks, that the caller may see."""
    visible = Insight.objects.visible_to(caller).filter(pk=record.pk)
    lines = [
        HistoryLine(decision.at, decision.get_kind_display(), decision.by, decision.notes)
        for decision in Decision.objects.filter(insight__in=visible)
    ]
    for changeset in changesets_of(caller, record):
        lines += lines_of_changeset(changeset)
    return lines


def lines_of_changeset(changeset: Changeset) -> list[HistoryLine]:
    lines = [HistoryLine(changeset.created_at, "apply", changeset.applied_by, details=changeset.error)]
    if changeset.rolled_back_at:
        lines.append(HistoryLine(changeset.rolled_back_at, "roll_back", changeset.rolled_back_by))
    return lines
