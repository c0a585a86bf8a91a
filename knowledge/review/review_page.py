"""Review cases: the evidence, catalog changes and related memories that a curator sees while deciding on an insight."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.queryset_sql import condition
from foundation.embedding import Vectors
from foundation.operations.errors import DomainError
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.catalog import entity_view
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable
from knowledge.catalog.snapshot import CatalogSnapshot
from knowledge.changesets.change_request import CHANGE_TYPES, Request
from knowledge.changesets.diff import Readable, of_planned
from knowledge.changesets.planning import plan
from knowledge.entities.call_subject import MAX_QUERY
from knowledge.freshness.baselines import urns_of
from knowledge.insights import queries
from knowledge.insights.similar_claims import ClosestMemory, closest_memories
from knowledge.models import ChangeOutcome, Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from knowledge.review.evidence import evidence_for
from memories.history import chain
from memories.models import IN_USE, MemoryRecord
from memories.retrieval import term_statistics
from memories.retrieval.near_duplicates import similar_records, vectors_of
from memories.retrieval.ranking import RecallQuestion, candidates
from memories.texts.comparison import is_same_fact
from memories.writing.correction_chains import active_correction

NEIGHBOURS = 6
MAX_ALIKE = 20  # maximum number of near-duplicates shown with an insight
# Preset reasons for a rejection, and preset questions to the author: the stored text, and the label on pages.
REASONS = {
    "Not true": gettext_lazy("Not true"),
    "Known already": gettext_lazy("Known already"),
    "Too vague to use": gettext_lazy("Too vague to use"),
    "Not for the catalog": gettext_lazy("Not for the catalog"),
}
QUESTIONS = {
    "Since when?": gettext_lazy("Since when?"),
    "For which tables does it hold?": gettext_lazy("For which tables does it hold?"),
    "Where does this come from?": gettext_lazy("Where does this come from?"),
    "What should it say instead?": gettext_lazy("What should it say instead?"),
}
MIN_SIMILARITY = 0.5  # minimum cosine similarity of the neighbors of an insight that names no entity


def decided_today(caller: Caller) -> InsightQuerySet:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    return Insight.objects.filter(reviewed_by=caller.email, reviewed_at__gte=midnight)


def also_waiting(caller: Caller, insight: Insight) -> InsightQuerySet:
    """Return other insights of the queue that share an entity with this one, to be decided together."""
    rows = queries.waiting(caller).filter(record__entity_urns__overlap=insight.record.entity_urns or [""])
    return rows.exclude(pk=insight.pk)


def _near_duplicates(caller: Caller, insight: Insight, vectors: Vectors | None) -> list[Insight]:
    rows = queries.waiting(caller).exclude(pk=insight.pk)
    if not caller.is_admin:  # only admins can decide on their own insights
        rows = rows.exclude(record__created_by=caller.email)
    if vectors is None or insight.state != InsightState.PENDING:
        return []
    records = MemoryRecord.objects.filter(pk__in=rows.order_by().values("pk"))
    similar = similar_records(condition(records), vectors, settings.NEAR_DUPLICATE_COSINE)
    matches = [match for match in similar if is_same_fact(insight.record.content, match.record.content)][:MAX_ALIKE]
    insights = rows.in_bulk([match.record.pk for match in matches])
    return [insights[match.record.pk] for match in matches if match.record.pk in insights]


@dataclass(frozen=True)
class CatalogEffect:
    """The catalog changes that applying an insight would make. `error` explains why it can't be applied."""

    entity_urn: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    readable: list[Readable] = field(default_factory=list)
    error: str = ""
    refusal: DomainError | None = None  # the exception behind `error`, if any; pages reword it

    @property
    def is_possible(self) -> bool:
        return bool(self.readable) and not self.error

    @property
    def writes(self) -> int:
        """Return the number of changes that write something, because the catalog does not have the value yet."""
        return sum(change.outcome != ChangeOutcome.NOOP for change in self.readable)


@dataclass(frozen=True)
class ReviewCase:
    insight: Insight
    evidence: dict[str, Any]
    effect: CatalogEffect
    replaced: MemoryRecord | None
    hides_replaced: bool  # the insight replaces a memory that this curator may not see
    other_correction: MemoryRecord | None  # that has replaced this memory already
    line: Sequence[MemoryRecord]  # the correction chain, oldest first
    neighbors: Sequence[MemoryRecord]
    nearest: ClosestMemory | None  # the existing memory closest in meaning, if one is close enough
    alike: Sequence[Insight]  # near-duplicates in the review queue


def build_case(caller: Caller, insight: Insight) -> ReviewCase:
    record = insight.record
    replaced = None
    if insight.replaces_id:
        replaced = MemoryRecord.objects.visible_to(caller).filter(pk=insight.replaces_id).first()
    vectors = vectors_of([record.pk]).get(record.pk)
    catalog = CatalogSnapshot(get_readable_catalog())
    with contextlib.suppress(CatalogUnavailable, CatalogRefused):  # evidence_for reports the outage
        catalog.read(urns_of(record), entity_view.ASPECTS)
    return ReviewCase(
        insight=insight,
        evidence=evidence_for(insight, catalog=catalog),
        effect=effect_of(insight, catalog),
        replaced=replaced,
        hides_replaced=bool(insight.replaces_id) and replaced is None,
        other_correction=_other_correction(caller, insight, replaced),
        line=chain(caller, replaced or record),
        neighbors=_neighbors(caller, insight, vectors, skip=[record.pk, insight.replaces_id]),
        nearest=closest_memories(caller, [insight]).get(insight.pk),
        alike=_near_duplicates(caller, insight, vectors),
    )


def _other_correction(caller: Caller, insight: Insight, replaced: MemoryRecord | None) -> MemoryRecord | None:
    """Return the correction in force of the memory that the insight replaces, if it is another that may be read."""
    if replaced is None or replaced.status in IN_USE:
        return None
    correction = active_correction(replaced)
    if correction is None or correction.pk == insight.pk:
        return None
    return MemoryRecord.objects.visible_to(caller).filter(pk=correction.pk).first()


def effect_of(insight: Insight, catalog: Catalog) -> CatalogEffect:
    """Plan the changes that the insight suggests, without writing anything."""
    changes = queries.proposals([insight])
    urn = next(iter(insight.record.entity_urns), "")
    try:
        requests = [validate(Request, change, "changes") for change in changes]
        if not urn and any(CHANGE_TYPES[request.change_type].kinds for request in requests):
            return CatalogEffect(
                changes=changes, error="the insight names no catalog entity, so there is nothing to change"
            )
        planned = plan(catalog, urn, requests, "preview", "preview")
        entities = {}
        if urn:
            read = catalog.read([urn], entity_view.ASPECTS)[urn]
            entities[urn] = entity_view.parse_entity(
                urn, {name: a.value for name, a in read.items() if a.value is not None}
            )
    except DomainError as error:
        return CatalogEffect(urn, changes, error=error.message, refusal=error)
    return CatalogEffect(urn, changes, of_planned(planned, entities))


def effect_of_draft(caller: Caller, claim: Mapping[str, Any], actions: Sequence[Mapping[str, str]]) -> CatalogEffect:
    """Return the catalog changes of a proposal that hasn't been saved."""
    record = MemoryRecord(content=claim.get("content") or "…", created_by=caller.email, persona=caller.persona)
    record.category = claim.get("category") or ""
    record.entity_urns = list(claim.get("entity_urns") or [])
    insight = Insight(record=record, suggested_actions=[dict(action) for action in actions])
    return effect_of(insight, CatalogSnapshot(get_readable_catalog()))


def problems_of(insight: Insight) -> list[str]:
    """Return an error message for each suggested action that can't be applied. The author sees the messages."""
    urn = next(iter(insight.record.entity_urns), "")
    problems = []
    catalog = CatalogSnapshot(get_readable_catalog())
    for index, action in enumerate(insight.suggested_actions):
        try:
            request = validate(Request, action, "")
            if urn or not CHANGE_TYPES[request.change_type].kinds:
                plan(catalog, urn, [request], "preview", "preview")
            else:
                problems.append(f"suggested_actions[{index}]: the insight names no catalog entity to change")
        except (CatalogUnavailable, CatalogRefused):
            return []  # nothing can be checked without the catalog
        except DomainError as error:
            problems.append(f"suggested_actions[{index}]: {error.message}")
    return problems


def _neighbors(
    caller: Caller, insight: Insight, vectors: Vectors | None, skip: Sequence[UUID | None]
) -> list[MemoryRecord]:
    """Return other memories about the same entities, or the most similar memories if the insight names no entity."""
    record = insight.record
    rejected = Insight.objects.filter(pk=OuterRef("pk"), state=InsightState.REJECTED)
    rows = MemoryRecord.objects.visible_to(caller).facts().exclude(Exists(rejected))
    rows = rows.filter(status__in=IN_USE).exclude(pk__in=[pk for pk in skip if pk])
    if record.entity_urns:
        about = rows.filter(entity_urns__overlap=record.entity_urns)
        distances = dict.fromkeys(record.entity_urns, 0)
        vector = None if vectors is None else vectors[0].tolist()
        terms = term_statistics.query_terms(record.content[:MAX_QUERY], caller)
        question = RecallQuestion(vector=vector, terms=terms, distances=distances)
        best, _ = candidates(condition(about), question, NEIGHBOURS)
        records = about.defer("search").in_bulk([candidate.id for candidate in best])
        return [records[candidate.id] for candidate in best if candidate.id in records]
    if vectors is None:
        return []
    return [match.record for match in similar_records(condition(rows), vectors, MIN_SIMILARITY)[:NEIGHBOURS]]
