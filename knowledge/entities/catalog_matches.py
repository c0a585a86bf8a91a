"""Catalog entities whose names, columns or descriptions share words with a text.

Only the local tables of the catalog are read. PostgreSQL finds the entities with any word of a text, and the words that
few of these have count most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.translation import gettext

from foundation.database import prepared_statements
from knowledge.catalog.entity_view import simple_path
from knowledge.entities import matching_words
from knowledge.models import CatalogAspect
from memories.models.fields import search_vector_sql

KINDS = ("dataset", "glossaryTerm", "dashboard", "chart", "dataJob", "dataFlow", "container", "dataProduct")
FOUND = 40  # maximum number of entities that are compared with a text
DESCRIBED = 12  # maximum number of entities whose columns' descriptions are read for a text
MAX_DESCRIPTION = 2_000  # maximum number of characters that are read of a description
WORDS_SHOWN = 3
# Weights of a shared word by where the entity has it, set with bench/entity_candidates.py.
IN_NAME, IN_COLUMN, IN_DESCRIPTION, IN_COLUMN_DESCRIPTION, IN_PATH = 2.4, 1.3, 1.2, 0.9, 0.6
WHOLE_NAME, WHOLE_COLUMN, IDENTIFIER, DEPRECATED = 1.5, 1.0, 4.0, -0.5
FIRST_WORD, LAST_WORD = 1.3, 0.8  # a sentence usually begins with its subject
REFERENCES = ("_id", "_key", "_at", "_on")  # endings of columns that are named after something else
# The lexemes are quoted as text, and those with other characters than letters and digits are left out.
ANY_WORD = """
    SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery
    FROM unnest(tsvector_to_array({vector})) AS lexeme WHERE lexeme ~ '^[[:alnum:]]+$'"""
MATCHES = """
    SELECT asked.number, urn, entity_type, name, qualified_name, description, columns, deprecated
    FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS asked(text, number)
    CROSS JOIN LATERAL ({any_word}) AS sought(words)
    CROSS JOIN LATERAL (
        SELECT entity.* FROM catalog_entities AS entity
        WHERE search @@ sought.words AND NOT removed AND entity_type = ANY(%(kinds)s::text[])
        ORDER BY ts_rank(search, sought.words, 1) DESC, urn LIMIT %(most)s
    ) AS found"""


@dataclass
class CatalogMatch:
    """An entity that shares words with a text, with the score and the reasons in words."""

    urn: str
    name: str
    score: float = 0.0
    column: str = ""
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sought:
    """The words of a text: those that may tell its subject, by stem, and how much each counts."""

    written: Mapping[str, str]  # stem → the word as it is written
    weights: Mapping[str, float]
    stems: Set[str]  # of all of its words
    identifiers: Set[str]

    def quoted(self, keys: Sequence[str]) -> str:
        return ", ".join(f"“{self.written[key]}”" for key in keys[:WORDS_SHOWN])


@dataclass(frozen=True)
class MatchedEntity:
    """The words of a catalog entity, as stems."""

    urn: str
    name: str
    of_name: frozenset[str]
    of_path: frozenset[str]
    of_description: frozenset[str]
    columns: Mapping[str, frozenset[str]]  # simple path → stems
    deprecated: bool = False
    of_columns: frozenset[str] = frozenset()  # of the descriptions of its columns

    @property
    def stems(self) -> set[str]:
        return set().union(self.of_name, self.of_path, self.of_description, *self.columns.values())


def matches(texts: Sequence[str]) -> list[list[CatalogMatch]]:
    """Return for each text the entities that share words with it, best first."""
    if not texts:
        return []
    any_word = ANY_WORD.format(vector=search_vector_sql("asked.text"))
    sql = MATCHES.format(any_word=any_word)
    telling = [matching_words.telling(text) for text in texts]
    asked = [" ".join(found.values()) for found in telling]
    rows = prepared_statements.rows(sql, {"texts": asked, "kinds": list(KINDS), "most": FOUND})
    found: list[list[MatchedEntity]] = [[] for _ in texts]
    for number, *row in rows:
        found[number - 1].append(_entity(row))
    ranked = [_ranked(text, shared, row) for text, shared, row in zip(texts, telling, found, strict=True)]
    described = _descriptions([match.urn for row in ranked for match in row[:DESCRIBED]])
    return [
        _ranked(text, shared, [replace(e, of_columns=described.get(e.urn, frozenset())) for e in row])
        for text, shared, row in zip(texts, telling, found, strict=True)
    ]


def _entity(row: Sequence[Any]) -> MatchedEntity:
    urn, kind, name, qualified_name, description, columns, deprecated = row
    *path, last = (name if kind == "glossaryTerm" else qualified_name or name).split(".")
    return MatchedEntity(
        urn,
        qualified_name or name,
        frozenset(matching_words.stems(last)),
        frozenset(matching_words.stems(" ".join(path[1:] or path))),  # the first part is usually the company's
        frozenset(matching_words.telling(description[:MAX_DESCRIPTION])),
        {simple_path(column): frozenset(matching_words.stems(simple_path(column))) for column in columns.split()},
        deprecated,
    )


def _descriptions(urns: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the stems of the descriptions of the entities' columns, by URN."""
    aspects = CatalogAspect.objects.filter(
        urn__in=set(urns), aspect__in=("schemaMetadata", "editableSchemaMetadata"), is_latest=True
    )
    described: dict[str, set[str]] = {}
    for urn, value in aspects.values_list("urn", "value"):
        for column in [*((value or {}).get("fields") or ()), *((value or {}).get("editableSchemaFieldInfo") or ())]:
            text = str(column.get("description") or "")[:MAX_DESCRIPTION]
            described.setdefault(urn, set()).update(matching_words.telling(text))
    return {urn: frozenset(found) for urn, found in described.items()}


def _ranked(text: str, written: Mapping[str, str], entities: Sequence[MatchedEntity]) -> list[CatalogMatch]:
    counts = {key: sum(key in entity.stems for entity in entities) for key in written}
    step = (FIRST_WORD - LAST_WORD) / max(len(counts), 1)
    weights = {
        key: math.log((FOUND + 10) / (count + 0.5)) * (FIRST_WORD - step * position)
        for position, (key, count) in enumerate(counts.items())
    }
    sought = Sought(written, weights, matching_words.stems(text).keys(), matching_words.identifiers(text))
    scored = [_match(entity, sought) for entity in entities]
    return sorted((match for match in scored if match.score > 0), key=lambda match: (-match.score, match.urn))


def _match(entity: MatchedEntity, sought: Sought) -> CatalogMatch:
    in_name = [key for key in sought.written if key in entity.of_name]
    coverage = len(in_name) / len(entity.of_name) if entity.of_name else 0.0
    column, bonus = _best_column(entity, sought)
    in_column = entity.columns.get(column, frozenset())
    # Each word counts once, at the best place.
    places = [
        (entity.of_path, IN_PATH),
        (entity.of_columns, IN_COLUMN_DESCRIPTION),
        (entity.of_description, IN_DESCRIPTION),
        (in_column, IN_COLUMN),
        (entity.of_name, IN_NAME * math.sqrt(coverage)),
    ]
    found = {key: max((weight for place, weight in places if key in place), default=0.0) for key in sought.written}
    score = sum(weight * sought.weights[key] for key, weight in found.items())
    score += WHOLE_NAME * (coverage == 1.0) + bonus + DEPRECATED * entity.deprecated
    named = column if bonus else ""
    return CatalogMatch(entity.urn, entity.name, score, named, _reasons(entity, named, sought))


def _best_column(entity: MatchedEntity, sought: Sought) -> tuple[str, float]:
    """Return the column that shares most with the text, and the score for being named; 0 if it only shares words."""
    best = ""
    best_rank = 0.0
    best_bonus = 0.0
    for path, parts in entity.columns.items():
        common = [key for key in parts if key in sought.written]
        # All its words are in the text, and one of them is telling.
        is_whole = bool(common) and parts <= sought.stems and parts != entity.of_name
        is_whole = is_whole and not path.lower().endswith(REFERENCES)
        bonus = WHOLE_COLUMN if is_whole else 0.0
        if path.lower() in sought.identifiers:
            bonus = IDENTIFIER
        rank = bonus + sum(sought.weights[key] for key in common) * len(common) / max(len(parts), 1)
        if rank > best_rank:
            best = path
            best_rank = rank
            best_bonus = bonus
    return best, best_bonus


def _reasons(entity: MatchedEntity, column: str, sought: Sought) -> list[str]:
    reasons = []
    in_name = [key for key in sought.written if key in entity.of_name]
    if in_name:
        reasons.append(gettext("its name is in the text: %(words)s") % {"words": sought.quoted(in_name)})
    if column:
        reasons.append(gettext("the text names its column %(column)s") % {"column": column})
    in_description = [key for key in sought.written if key in entity.of_description and key not in in_name]
    if in_description:
        reasons.append(gettext("its description says %(words)s") % {"words": sought.quoted(in_description)})
    known = {*in_name, *in_description}
    in_columns = {key for parts in entity.columns.values() for key in parts} | entity.of_columns
    rest = [key for key in sought.written if key in in_columns and key not in known]
    if rest and not column:
        reasons.append(gettext("its columns say %(words)s") % {"words": sought.quoted(rest)})
    if not reasons:
        in_path = [key for key in sought.written if key in entity.of_path]
        reasons.append(gettext("its path is in the text: %(words)s") % {"words": sought.quoted(in_path)})
    return reasons
