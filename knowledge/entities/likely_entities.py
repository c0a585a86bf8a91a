"""The catalog entities that a memory may be about, with reasons.

Four sources are combined: entities that the text names or shares words with, those that the author's last calls were
about, their neighbors in the lineage, and those of the most similar memory. DataHub is not asked: its copy is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext

from foundation.database import prepared_statements
from foundation.database.queryset_sql import condition
from foundation.people.caller import Caller
from knowledge.catalog.mirror import last_copied_at
from knowledge.catalog.neighbors import neighbors_of
from knowledge.entities import recent_entities
from knowledge.entities.catalog_matches import KINDS, CatalogMatch, matches
from knowledge.models import CatalogEntity
from memories.extensions import EntityCandidate
from memories.models import IN_USE, MemoryRecord
from memories.rendering import entity_name
from memories.retrieval.near_duplicates import Similar, nearest_of

# Scores beside those of words, set with bench/entity_candidates.py.
NAMED, RECENT, NEIGHBOR, SIMILAR = 20.0, 4.5, 1.0, 3.0
MIN_SCORE = 2.0  # minimum score of a candidate
MIN_COSINE = 0.5  # minimum cosine of a similar memory
RECENT_CONSIDERED = 3
CONSIDERED = 10  # maximum number of candidates by words that are combined with the other sources


ANY_ENTITY = """
    SELECT EXISTS (SELECT FROM catalog_entities WHERE NOT removed AND entity_type = ANY(%(kinds)s::text[]))"""


def has_entities() -> bool:
    ((found,),) = prepared_statements.rows(ANY_ENTITY, {"kinds": list(KINDS)}, public=True)
    return bool(found)


def likely_entities(caller: Caller, records: Sequence[MemoryRecord]) -> tuple[dict[UUID, list[EntityCandidate]], str]:
    """Return the candidates of each memory, best first, and a note if the catalog's entities are not known here."""
    recent = recent_entities.recent(caller)[:RECENT_CONSIDERED]
    near = neighbors_of(recent) if recent else []
    similar = _similar(caller, [record.pk for record in records])
    found = {
        record.pk: _combined(record, by_words, recent, near, similar.get(record.pk))
        for record, by_words in zip(records, matches([record.content for record in records]), strict=True)
    }
    known = _names({match.urn for row in found.values() for match in row})
    candidates = {
        pk: [_candidate(match, known[match.urn]) for match in row if match.urn in known] for pk, row in found.items()
    }
    return candidates, _note()


def _combined(
    record: MemoryRecord,
    by_words: Sequence[CatalogMatch],
    recent: Sequence[str],
    near: Sequence[str],
    similar: Similar | None,
) -> list[CatalogMatch]:
    found = {match.urn: match for match in by_words[:CONSIDERED]}
    every = {match.urn: match for match in by_words}

    def add(urn: str, score: float, reason: str) -> None:
        match = found.setdefault(urn, every.get(urn) or CatalogMatch(urn, entity_name(urn)))
        match.score += score
        match.reasons.insert(0, reason)

    for urn in near:
        if urn in found:  # lineage alone is no reason
            add(urn, NEIGHBOR, gettext("one step of lineage from what you looked at last"))
    for position, urn in enumerate(recent):
        add(urn, RECENT - 0.2 * position, gettext("your last calls were about it"))
    if similar:
        for urn in similar.record.entity_urns[:2]:
            add(urn, SIMILAR * similar.cosine, gettext("a similar memory is about it"))
    for urn in record.detected_urns:
        add(urn, NAMED, gettext("the text names it"))
    fitting = [match for match in found.values() if match.score >= MIN_SCORE]
    return sorted(fitting, key=lambda match: (-match.score, match.urn))


def _similar(caller: Caller, ids: Sequence[UUID]) -> Mapping[UUID, Similar]:
    """Return for each memory the most similar one that states its entities."""
    facts = MemoryRecord.objects.visible_to(caller).facts()
    stated = facts.filter(status__in=IN_USE).exclude(entity_urns=[])
    return nearest_of(condition(stated), ids, threshold=MIN_COSINE)


def _names(urns: set[str]) -> dict[str, str]:
    """Return the names of those of the entities that the catalog has."""
    rows = CatalogEntity.objects.filter(urn__in=urns, removed=False, entity_type__in=KINDS)
    return {
        urn: qualified_name or name for urn, qualified_name, name in rows.values_list("urn", "qualified_name", "name")
    }


def _candidate(match: CatalogMatch, name: str) -> EntityCandidate:
    return EntityCandidate(match.urn, name, "; ".join(match.reasons), match.column, round(match.score, 2))


def _note() -> str:
    if not settings.DATAHUB_GMS_URL or last_copied_at():
        return ""
    return gettext("DataHub has not been copied yet: only entities of this installation are offered")
