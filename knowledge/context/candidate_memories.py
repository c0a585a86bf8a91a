"""The memories for one call, read in one prepared statement (candidate_memories.sql).

The statement is compiled once per process: the rules that decide which memories may be attached are querysets
(attachable.py), and their SQL becomes a part of it. tests/knowledge/test_candidate_memories.py compares both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db.models import Exists, OuterRef, Q

from foundation import embedding
from foundation.database import prepared_statements, sql_files
from foundation.database.queryset_sql import fragment
from foundation.database.transaction_settings import planned_once
from foundation.lazy_numpy import np
from foundation.people.caller import Caller
from knowledge.catalog.neighbors import MAX_EDGES, MAX_URNS
from knowledge.context import caveats
from knowledge.context.attachable import allowed_automatically
from knowledge.context.caveats import Path
from knowledge.freshness.detected_hints import ARE_GONE
from knowledge.models import EntityBaseline, Insight, InsightState
from memories.models import IN_USE, MemoryRecord, Status
from memories.models.fields import search_vector_sql, text_search_config
from memories.models.record import ATTACHED, about_any
from memories.models.validity import is_over, outside
from memories.retrieval.term_statistics import CANDIDATE_ROWS, READABLE, reader_values

SQL = sql_files.statements(__file__)
FOR_ENTITY, FOR_MATCH, FOR_NEIGHBOR = 1, 2, 4  # what a word of the call is compared with; a sum of these
ENTITY_ROWS = 30  # maximum number of memories about the requested entities
MATCH_ROWS = 60  # maximum number of memories whose words are compared with the call one by one
NEIGHBOR_ROWS = 30
ROWS_MEASURED = 150  # maximum number of those with the most words whose meanings are compared
ROWS_COMPARED = 2_000  # maximum number of memories that the rarest words of a call find
MAX_WORDS = 120
LEFT_OUT, NEAR, PATHS = "left out", "near", "paths"  # kinds of rows without a memory
# Columns of memories that nobody needs here.
NOT_READ = ("search", "embedding_model", "embedding_text_hash", "summary", "dismissed_urns", "access_count")


@dataclass(frozen=True)
class Criteria:
    """Search criteria of a call. `words` has the sum of FOR_… for each word. `vector` compares meanings, if given."""

    urns: Sequence[str] = ()  # of the entities that the call asks about
    answered: Sequence[str] = ()  # of those that only its answer mentions
    words: Mapping[str, int] = field(default_factory=dict)
    vector: Sequence[float] | None = None
    model: str = ""  # that has computed the vector, which is compared with those of the same model
    with_neighbors: bool = True
    learned: Sequence[str] = ()  # neighbors that are known from DataHub only
    columns: Sequence[str] = ()  # the columns whose caveats count; if empty, those of all columns do
    shown: Sequence[Any] = ()  # ids of memories that the connection has had
    on_request: bool = False  # also memories that are attached on request only
    limit: int = ENTITY_ROWS


@dataclass(frozen=True)
class FoundMemory:
    """One memory. `cosine` compares it with the vector of the call; None if there is none."""

    record: MemoryRecord
    is_applied: bool
    has_hint: bool  # whether there may be a reason to verify it
    cosine: float | None
    detail: Any = None


@dataclass(frozen=True)
class MemoriesForCall:
    """Each list is ordered, best first. Counts are of memories about the requested entities that are left out."""

    entity: list[FoundMemory] = field(default_factory=list)
    match: list[FoundMemory] = field(default_factory=list)  # stale ones among them
    neighbor: list[FoundMemory] = field(default_factory=list)  # `detail`: whether it is about a neighbor in lineage
    caveat: list[FoundMemory] = field(default_factory=list)  # newest first
    ended: list[FoundMemory] = field(default_factory=list)  # of those shown before: stale now, or no longer valid
    stale: int = 0
    waiting: int = 0
    not_valid: int = 0
    quiet: int = 0
    near: Sequence[str] = ()  # URNs one step of lineage away
    paths: Sequence[Path] = ()  # of lineage, from the sources of the caveats to the requested entities


def find(caller: Caller, criteria: Criteria) -> MemoriesForCall:
    """Return the memories for a call. Raises OperationalError if the statement exceeds the limit of the context."""
    sql, build = _statement(caller.is_admin, text_search_config())
    rows_of: dict[str, list[FoundMemory]] = {}
    extra: dict[str, Any] = {}
    with planned_once():
        rows = prepared_statements.rows(sql, _values(caller, criteria))
    for kind, detail, is_applied, has_hint, cosine, *cells in rows:
        value = json.loads(detail) if detail else None
        if kind in (LEFT_OUT, NEAR, PATHS):
            extra[kind] = value
        else:
            rows_of.setdefault(kind, []).append(FoundMemory(build(cells), is_applied, has_hint, cosine, value))
    return MemoriesForCall(
        entity=rows_of.get("entity", []),
        match=rows_of.get("match", []),
        neighbor=rows_of.get("neighbor", []),
        caveat=rows_of.get("caveat", []),
        ended=rows_of.get("ended", []),
        near=extra[NEAR],
        paths=[Path(urns, columns, is_of_columns=bool(columns[0])) for urns, columns in extra[PATHS] or ()],
        **extra[LEFT_OUT],
    )


def _values(caller: Caller, criteria: Criteria) -> dict[str, Any]:
    words = dict(list(criteria.words.items())[:MAX_WORDS])
    return {
        **reader_values(caller),
        "persona": caller.persona,
        "words": list(words),
        "uses": list(words.values()),
        "for_entity": FOR_ENTITY,
        "for_match": FOR_MATCH,
        "for_neighbor": FOR_NEIGHBOR,
        "urns": list(criteria.urns),
        "answered": list(criteria.answered),
        "learned": list(criteria.learned),
        "with_neighbors": criteria.with_neighbors,
        "edges": MAX_EDGES,
        "neighbors": MAX_URNS,
        "on_request": criteria.on_request,
        "rows_found": CANDIDATE_ROWS,
        "rows_compared": ROWS_COMPARED,
        "rows_measured": ROWS_MEASURED,
        "entity_rows": criteria.limit,
        "match_rows": MATCH_ROWS,
        "neighbor_rows": NEIGHBOR_ROWS,
        "caveats": caveats.MAX_CAVEATS,
        "steps": caveats.MAX_STEPS,
        "limit": caveats.MAX_PATHS,
        "columns": caveats.column_names(criteria.columns),
        "shown": list(criteria.shown),
        "question_slope": embedding.question_slope(),
        "model": criteria.model,
        "vector": None if criteria.vector is None else np.asarray(criteria.vector, np.float32),
    }


# Values that differ between calls, in the querysets that are compiled.
EMAIL, PERSONA, PERSONAS, URNS = "\x01email", "\x01persona", "\x01personas", "\x01urns"
OF_CALLER = {
    EMAIL: "%(email)s",
    PERSONA: "%(persona)s",
    PERSONAS: "SELECT unnest(%(personas)s::text[])",  # in the brackets of IN
}
REQUESTED, REACHED, SOURCES = "%(urns)s", "(SELECT urns FROM reached)", "(SELECT urns FROM sources)"


@cache
def _statement(is_admin: bool, configuration: str) -> tuple[str, Callable[[Sequence[Any]], MemoryRecord]]:
    """Return the SQL, and what makes a memory of the columns that follow the first five of a row."""
    caller = Caller(email=EMAIL, persona=PERSONA, personas=frozenset({PERSONAS}), is_admin=is_admin)
    everything = MemoryRecord.objects.all()

    def sql(rows: Any, urns: str = REQUESTED) -> str:
        return fragment(rows, {**OF_CALLER, URNS: urns})

    def rule(condition: Q, urns: str = REQUESTED) -> str:
        return sql(everything.filter(condition), urns)

    about = about_any([URNS])
    allowed = allowed_automatically(caller, [URNS])
    of_insight = Insight.objects.filter(pk=OuterRef("pk"))
    hints = EntityBaseline.objects.filter(record=OuterRef("pk")).exclude(hint="")
    columns, build = prepared_statements.columns_of(MemoryRecord, NOT_READ)
    fragments = {
        "stems": search_vector_sql("word", configuration),
        "counted": READABLE,
        "about": rule(about),
        "about_reached": rule(about, REACHED),
        "about_sources": rule(about, SOURCES),
        "readable": sql(MemoryRecord.objects.visible_to(caller).lasting()),
        "attachable": sql(allowed),
        "attachable_from_reached": sql(allowed, REACHED),
        "attachable_from_sources": sql(allowed, SOURCES),
        "attachable_by_words": sql(allowed_automatically(caller, statuses=IN_USE)),
        "attached": rule(ATTACHED),
        "stale": rule(Q(status=Status.STALE)),
        "waiting": rule(Q(Exists(of_insight.filter(state=InsightState.PENDING)), status=Status.ACTIVE)),
        "not_valid": rule(Q(status=Status.ACTIVE) & outside()),
        "quiet": rule(Q(status=Status.ACTIVE) & ~ATTACHED),
        "ended": rule(Q(status=Status.STALE) | Q(status=Status.ACTIVE) & is_over()),
        "caveat": rule(caveats.is_caveat()),
        "paths": caveats.PATHS,
        "waived": fragment(caveats.with_details(everything), OF_CALLER, "waived"),
        "catalog": fragment(caveats.with_details(everything), OF_CALLER, "catalog"),
        "applied": rule(Q(Exists(of_insight.filter(state=InsightState.APPLIED)))),
        "hinted": f"({rule(Q(Exists(hints)))} OR {ARE_GONE})",
        "columns": columns,
    }
    return SQL["candidate_memories"].format(**fragments), build
