"""Content of a briefing on entities or a repository: extracted from memories, reviews and the catalog.

A briefing may reach an agent that did not ask for it. So the texts of others in it follow the rule for attached
memories (attachable.py). A text that no longer holds is quoted only if the caller wrote it, the active persona
shares it, or it was attached to a call of the caller.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from foundation.people.caller import Caller
from knowledge.context.attachable import allowed_automatically, attachable
from knowledge.context.caveats import caveats_for
from knowledge.entities.call_subject import words_of
from knowledge.insights import queries
from knowledge.insights.waiting_edits import IN_FORCE
from knowledge.models import Insight, InsightState
from knowledge.news.analyst import CatalogChange, catalog_changes, decided, questions
from knowledge.news.period import NewsPeriod
from memories.models import IN_USE, Impression, MemoryRecord, Status, Verification, Visibility
from memories.models.record import MemoryRecordQuerySet, about_any
from memories.queries import stale_memories, unresolved_marks
from memories.texts.contradiction import contradiction

MAX_LISTED = 12  # maximum number of points of each kind
MAX_ASKED = 5  # maximum number of questions, of one's own stale memories, and of decisions on one's proposals
MAX_COMPARED = 20  # maximum number of memories among which contradictions are looked for
MAX_PAIRS = 15  # maximum number of pairs of them that are compared
MIN_SHARED_WORDS = 2  # minimum number of words that such a pair shares
ASKED, DECIDED, CHANGED, CONTESTED = "asked", "decided", "changed", "contested"
UPSTREAM, CERTAIN, REPOSITORY, NEW = "upstream", "certain", "repository", "new"
REPOSITORY_TAG = "repo:"  # a memory with the tag repo:github.com/owner/name is about that repository


@dataclass(frozen=True)
class BriefingPoint:
    """One memory in a briefing. `note` has our own words; `quote` has a text of others that explains them."""

    record: MemoryRecord
    note: str
    quote: str = ""
    other: MemoryRecord | None = None  # the correction, or the memory that contradicts


@dataclass(frozen=True)
class BriefingSubject:
    """Subject of a briefing. Without entities and a repository, it is everything that the caller may read."""

    urns: Sequence[str] = ()
    repository: str = ""  # host/owner/name
    persona: str = ""  # only memories of this persona and those for everyone, or "" for no restriction

    @property
    def tags(self) -> list[str]:
        """Return the tags of memories about the repository, which people may have written in lower case."""
        return list(dict.fromkeys([f"{REPOSITORY_TAG}{self.repository}", f"{REPOSITORY_TAG}{self.repository.lower()}"]))

    def narrow(self, rows: MemoryRecordQuerySet) -> MemoryRecordQuerySet:
        if self.persona:
            rows = rows.filter(Q(persona=self.persona) | Q(visibility=Visibility.EVERYONE))
        return rows.defer("search")

    def about(self) -> Q:
        rule = about_any(self.urns) if self.urns else Q()
        return rule | Q(tags__overlap=self.tags) if self.repository else rule


@dataclass(frozen=True)
class Briefing:
    """The points by kind, each kind best first. No memory occurs twice."""

    points: dict[str, list[BriefingPoint]] = field(default_factory=dict)
    catalog: Sequence[CatalogChange] = ()
    waiting: int = 0  # insights that wait for the caller's review


def brief(caller: Caller, subject: BriefingSubject, since: datetime) -> Briefing:
    kinds: list[tuple[str, Iterable[BriefingPoint]]] = [
        (ASKED, [*_questions(caller), *_own_stale(caller)]),
        (CHANGED, [*_corrected(caller, subject, since), *_stale(caller, subject, since)]),
        (CONTESTED, _contested(caller, subject)),
        (UPSTREAM, _upstream(caller, subject)),
        (CERTAIN, _certain(caller, subject, since)),
        (REPOSITORY, _of_repository(caller, subject)),
        (NEW, _new(caller, subject, since)),
        (
            DECIDED,
            _decided(caller, subject, since),
        ),  # last, because each memory is told once, and the other kinds say more about it
    ]
    points: dict[str, list[BriefingPoint]] = {}
    seen: set[Any] = set()
    for kind, found in kinds:
        for point in found:
            if not _keys(point.record) & seen:
                points.setdefault(kind, []).append(point)
                seen |= _keys(point.record) | (_keys(point.other) if point.other else set())
    changes = catalog_changes(subject.urns, NewsPeriod(since, timezone.now())) if subject.urns else []
    return Briefing(points, changes, queries.waiting(caller).order_by().count() if caller.is_curator else 0)


def _keys(record: MemoryRecord) -> set[Any]:
    # An applied insight has the same text as its author's memory.
    return {record.pk, (record.created_by, record.content_key)}


def _questions(caller: Caller) -> Iterator[BriefingPoint]:
    for asked in sorted(questions(caller), key=lambda asked: asked.at, reverse=True)[:MAX_ASKED]:
        yield BriefingPoint(asked.insight.record, f"{asked.by} asks before deciding on your insight", asked.notes)


def _decided(caller: Caller, subject: BriefingSubject, since: datetime) -> Iterator[BriefingPoint]:
    """Yield what others decided on the caller's proposals, as far as it still stands."""
    stands = Q(state=InsightState.REJECTED) | Q(state__in=IN_FORCE, record__status__in=IN_USE)
    rows = decided(caller, NewsPeriod(since, timezone.now())).filter(stands).exclude(reviewed_by=caller.email)
    if subject.persona:
        rows = rows.filter(record__persona=subject.persona)
    for insight in rows.select_related("record")[:MAX_ASKED]:
        if insight.state == InsightState.APPLIED:
            yield BriefingPoint(insight.record, f"applied to the catalog by {insight.applied_by}")
        else:
            yield BriefingPoint(insight.record, f"{insight.state} by {insight.reviewed_by}", insight.review_notes)


def _own_stale(caller: Caller) -> Iterator[BriefingPoint]:
    for record in stale_memories(caller).filter(created_by=caller.email).order_by("-stale_at", "id")[:MAX_ASKED]:
        yield BriefingPoint(record, "may no longer be true", record.stale_reason)


def _ended(caller: Caller, subject: BriefingSubject, **conditions: Any) -> MemoryRecordQuerySet:
    told = Q(created_by=caller.email) | Q(visibility=Visibility.PERSONA, persona=caller.persona)
    told |= Q(pk__in=Impression.objects.filter(to=caller.email).values("record"))
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(subject.about(), told, **conditions)
    return subject.narrow(rows)


def _corrected(caller: Caller, subject: BriefingSubject, since: datetime) -> Iterator[BriefingPoint]:
    rows = _ended(caller, subject, status=Status.SUPERSEDED, superseded_at__gt=since)
    ended = list(rows.order_by("-superseded_at", "pk")[:MAX_LISTED])
    corrections = allowed_automatically(caller).defer("search").in_bulk([row.superseded_by for row in ended])
    for record in ended:
        correction = corrections.get(record.superseded_by) if record.superseded_by else None
        yield BriefingPoint(record, f"no longer holds since {record.superseded_at:%Y-%m-%d}", other=correction)


def _stale(caller: Caller, subject: BriefingSubject, since: datetime) -> Iterator[BriefingPoint]:
    rows = _ended(caller, subject, status=Status.STALE, stale_at__gt=since).exclude(created_by=caller.email)
    for record in rows.order_by("-stale_at", "pk")[:MAX_LISTED]:
        yield BriefingPoint(record, f"may no longer be true since {record.stale_at:%Y-%m-%d}", record.stale_reason)


def _allowed(caller: Caller, subject: BriefingSubject) -> MemoryRecordQuerySet:
    """Return the memories about the subject that may reach an agent unasked."""
    parts = []
    if subject.urns:
        parts.append(allowed_automatically(caller, subject.urns).filter(about_any(subject.urns)))
    if subject.repository:
        parts.append(allowed_automatically(caller).filter(tags__overlap=subject.tags))
    if len(parts) > 1:
        rule = Q(pk__in=parts[0].order_by().values("pk")) | Q(pk__in=parts[1].order_by().values("pk"))
        parts = [MemoryRecord.objects.visible_to(caller).filter(rule)]
    return subject.narrow((parts or [allowed_automatically(caller)])[0].facts())


def _contested(caller: Caller, subject: BriefingSubject) -> Iterator[BriefingPoint]:
    allowed = _allowed(caller, subject)
    for record in allowed.filter(Exists(unresolved_marks())).order_by("-updated_at", "pk")[:MAX_LISTED]:
        yield BriefingPoint(record, "a reader has marked it as wrong")
    proposals = Insight.objects.visible_to(caller).filter(
        state=InsightState.PENDING, record__status__in=IN_USE, replaces__in=allowed.order_by().values("pk")
    )
    for insight in proposals.select_related("replaces").order_by("-record__created_at", "pk")[:MAX_LISTED]:
        if insight.replaces is not None:
            yield BriefingPoint(insight.replaces, f"a correction waits for review, insight {insight.pk.hex}")
    for first, second in likely_contradictions(list(allowed.order_by("-updated_at", "pk")[:MAX_COMPARED])):
        if conflict := contradiction(first.content, second.content):
            yield BriefingPoint(first, "contradicts another memory", conflict, second)


def _upstream(caller: Caller, subject: BriefingSubject) -> Iterator[BriefingPoint]:
    def visible(sources: Sequence[str]) -> MemoryRecordQuerySet:
        return subject.narrow(attachable(caller, sources).facts())

    for caveat in caveats_for(subject.urns, visible)[:MAX_LISTED]:
        yield BriefingPoint(caveat.record, caveat.path.reason)


def likely_contradictions(records: Sequence[MemoryRecord]) -> list[tuple[MemoryRecord, MemoryRecord]]:
    """Return the pairs about the same entity that share most words. Comparing a pair takes some milliseconds."""
    words = {record.pk: words_of(record.content) for record in records}
    shared = {
        (first, second): len(words[first.pk] & words[second.pk])
        for first, second in itertools.combinations(records, 2)
        if _share_an_entity(first, second)
    }
    likely = [pair for pair in shared if shared[pair] >= MIN_SHARED_WORDS]
    return sorted(likely, key=lambda pair: -shared[pair])[:MAX_PAIRS]


def _share_an_entity(first: MemoryRecord, second: MemoryRecord) -> bool:
    return not {*first.entity_urns, *first.detected_urns}.isdisjoint([*second.entity_urns, *second.detected_urns])


def _certain(caller: Caller, subject: BriefingSubject, since: datetime) -> Iterator[BriefingPoint]:
    applied = Insight.objects.filter(pk=OuterRef("pk"), state=InsightState.APPLIED)
    verified = Verification.objects.filter(record=OuterRef("pk")).current()
    rows = _allowed(caller, subject).filter(Q(Exists(applied)) | Q(Exists(verified)))
    records = list(rows.order_by("-updated_at", "pk")[: 2 * MAX_LISTED])
    ids = [record.pk for record in records]
    notes = _verifications(ids)
    for insight in Insight.objects.filter(pk__in=ids, state=InsightState.APPLIED):
        is_new = insight.applied_at is not None and insight.applied_at > since
        when = f" on {insight.applied_at:%Y-%m-%d}" if insight.applied_at else ""
        notes[insight.pk] = f"{'new: ' if is_new else ''}applied to the catalog{when} by {insight.applied_by}"
    # A stable sort: what was applied comes first.
    for record in sorted(records, key=lambda record: "applied" not in notes.get(record.pk, ""))[:MAX_LISTED]:
        yield BriefingPoint(record, notes.get(record.pk, "verified"))


def _verifications(ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return who verified each memory as it is now; the latest verification counts, those by second people first."""
    rows = Verification.objects.filter(record__in=ids).current().order_by("-is_own", "at", "pk")
    return {row.record_id: f"verified on {row.at:%Y-%m-%d} by {'its author' if row.is_own else row.by}" for row in rows}


def _of_repository(caller: Caller, subject: BriefingSubject) -> Iterator[BriefingPoint]:
    if subject.repository:
        rows = _allowed(caller, subject).filter(tags__overlap=subject.tags)
        yield from (BriefingPoint(record, "") for record in rows.order_by("-updated_at", "pk")[:MAX_LISTED])


def _new(caller: Caller, subject: BriefingSubject, since: datetime) -> Iterator[BriefingPoint]:
    rows = _allowed(caller, subject).filter(created_at__gt=since).exclude(created_by=caller.email)
    yield from (BriefingPoint(record, "") for record in rows.order_by("-created_at", "pk")[:MAX_LISTED])
