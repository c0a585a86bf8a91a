"""The questions that an interview of one person could ask: entities that the person may know, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Exists, F, Func, Q, Sum, TextField

from foundation.database import identity
from foundation.people.caller import Caller
from knowledge.context.briefing import likely_contradictions
from knowledge.debt import queries
from knowledge.debt.experts import CORPUSER
from knowledge.models import CatalogAspect, DebtReason, EntityUse
from memories.models import IN_USE, MemoryRecord, Status, Visibility
from memories.models.record import MemoryRecordQuerySet, about_any
from memories.queries import doubted, unresolved_marks
from memories.texts.contradiction import contradiction

MAX_ENTITIES = 300  # entities that a person may know, the most familiar
MAX_COMPARED = 8  # memories of an entity among which contradictions are looked for
MAX_PAIRS = 3  # pairs of them that are compared
OWNED, WRITTEN, USED = 3.0, 2.0, 1.0  # how much a person may know about an entity, by what ties them


@dataclass(frozen=True)
class QuestionCandidate:
    """A question that could be asked. `record_ids` are the memories that it is about, at most two."""

    urn: str
    reason: str
    rank: float
    record_ids: Sequence[UUID] = field(default_factory=tuple)
    since: datetime | None = None


def candidates(caller: Caller, person: Caller, urn: str = "") -> list[QuestionCandidate]:
    """Return what the person could be asked, as far as `caller` may read it, best first.

    With `urn`, the questions are about this entity, whether or not the person is known to know it.
    """
    familiar = {urn: OWNED} if urn else _familiar(caller, person)
    debts = queries.debts_of(caller, list(familiar))
    found = [
        QuestionCandidate(debt.urn, reason, debt.score * familiar[debt.urn] / (1 + place), since=debt.stale_since)
        for debt in debts.values()
        for place, reason in enumerate(debt.reasons)
    ]
    return sorted(found, key=lambda candidate: (-candidate.rank, candidate.urn, candidate.reason))


def _familiar(caller: Caller, person: Caller) -> dict[str, float]:
    """Return how much the person may know about entities, by URN.

    Of another person, only what the caller may know counts: shared memories, owners in the catalog, and calls if the
    installation allows it.
    """
    familiar: dict[str, float] = {}
    for urns, weight in ((_used(caller, person), USED), (_written(caller, person), WRITTEN), (_owned(person), OWNED)):
        familiar |= dict.fromkeys(urns, weight)
    return dict(sorted(familiar.items(), key=lambda item: -item[1])[:MAX_ENTITIES])


def _owned(person: Caller) -> list[str]:
    owner = [{"owner": f"{CORPUSER}{person.email}"}]
    rows = CatalogAspect.objects.filter(aspect="ownership", is_latest=True, value__owners__contains=owner)
    return list(rows.order_by("urn").values_list("urn", flat=True)[:MAX_ENTITIES])


def _written(caller: Caller, person: Caller) -> list[str]:
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(created_by=person.email, status__in=IN_USE)
    if caller.email != person.email:
        rows = rows.exclude(visibility=Visibility.PRIVATE)
    each = Func(F("entity_urns"), F("detected_urns"), function="unnest", arg_joiner=" || ", output_field=TextField())
    counts = rows.order_by().annotate(about=each).values("about").annotate(n=Count("pk")).order_by("-n", "about")
    return [row["about"] for row in counts[:MAX_ENTITIES]]


def _used(caller: Caller, person: Caller) -> list[str]:
    rows = EntityUse.objects.filter(owner=person.email).values("urn").annotate(n=Sum("calls") + Sum("recalled"))
    rows = rows.order_by("-n", "urn")
    if caller.email == person.email:
        return [row["urn"] for row in rows[:MAX_ENTITIES]]
    if not settings.DEBT_FREQUENT_CALLS:
        return []
    with identity.service("debt"):
        return [row["urn"] for row in rows.filter(n__gte=settings.DEBT_FREQUENT_CALLS)[:MAX_ENTITIES]]


def with_memories(caller: Caller, person: Caller, candidate: QuestionCandidate) -> QuestionCandidate:
    """Add the memories that a question is about: those that contradict each other, or the contested or stale one.

    Only shared memories are added, and only those that both the caller and the person may read.
    """
    if candidate.reason not in (DebtReason.CONTESTED, DebtReason.STALE):
        return candidate
    rows = _shared(caller, person).filter(about_any([candidate.urn]))
    if candidate.reason == DebtReason.STALE:
        stale = rows.filter(status=Status.STALE).order_by("stale_at", "pk")
        found: Sequence[UUID] = list(stale.values_list("pk", flat=True)[:1])
    else:
        found = _pair(rows) or _doubted(rows)
    return QuestionCandidate(candidate.urn, candidate.reason, candidate.rank, tuple(found), candidate.since)


def _shared(caller: Caller, person: Caller) -> MemoryRecordQuerySet:
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(status__in=IN_USE)
    both = Q(visibility=Visibility.EVERYONE) | Q(visibility=Visibility.PERSONA, persona__in=sorted(person.personas))
    return rows.filter(both).defer("search")


def _pair(rows: MemoryRecordQuerySet) -> tuple[UUID, ...]:
    records = list(rows.filter(status=Status.ACTIVE).order_by("-updated_at", "pk")[:MAX_COMPARED])
    for first, second in likely_contradictions(records)[:MAX_PAIRS]:
        if contradiction(first.content, second.content):
            return first.pk, second.pk
    return ()


def _doubted(rows: MemoryRecordQuerySet) -> list[UUID]:
    doubtful = rows.filter(Q(Exists(unresolved_marks())) | Q(pk__in=doubted()))
    return list(doubtful.order_by("-updated_at", "pk").values_list("pk", flat=True)[:1])


def penalties(answers: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return factors of the rank by entity, from the states of the person's earlier questions about it."""
    lower = {"skipped": 0.5, "passed": 0.25, "unknown": 0.1}
    return {urn: min((lower.get(state, 1.0) for state in states), default=1.0) for urn, states in answers.items()}
