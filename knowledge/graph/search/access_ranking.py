"""The limbic score of entities. Entities that are accessed often, recently, and together with others rank higher.

    score = base · (1 + IMPORTANCE · I) · T · (1 + PAIRS · P)
    I = log2(1 + uses) / log2(1 + most uses) · (1 + DEGREE · min(relations, DEGREE_MOST) / DEGREE_MOST) · (1 + DAYS · D)
    D = log2(1 + access days) / log2(1 + most access days), or 0 if no candidate has more than one access day
    T = decay(hours since the last access, or since creation if there was no access)
    P = Σ over the other candidates: log2(1 + responses with both) · decay(hours since the last such response)
    decay(hours) = max(LEAST_DECAY, exp(−DECAY_PER_HOUR · hours))

- The base is the relevance from semantic.py: max(0, cosine), or 0.2 + 0.6 · rrf / best rrf for an entity that was
  found by words only. The rrf is the score of reciprocal rank fusion.
- Uses are accesses, and access days are days with at least one access. Maxima are taken over all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from knowledge.graph.models import CoOccurrence, Entity, Relation

IMPORTANCE = 0.5
DEGREE = 0.15
DEGREE_MOST = 15.0
DAYS = 0.2
PAIRS = 0.01
DECAY_PER_HOUR = 0.0001  # a half-life of 289 days
LEAST_DECAY = 0.1


@dataclass(frozen=True)
class Limbic:
    score: float
    importance: float
    temporal: float
    pairs: float


def scores(bases: Mapping[UUID, float], entities: Sequence[Entity]) -> dict[UUID, Limbic]:
    """Return the score of each candidate, by entity id. `bases` has the relevance of each candidate, from 0 to 1."""
    now = timezone.now()
    most_uses = max((entity.access_count for entity in entities), default=0)
    most_days = max((entity.access_days for entity in entities), default=0)
    degrees = _degrees(bases)
    pair_sums = _pair_sums(bases, now)
    result = {}
    for entity in entities:
        uses = math.log2(1 + entity.access_count) / math.log2(1 + most_uses) if most_uses else 0.0
        degree = min(degrees.get(entity.pk, 0), DEGREE_MOST) / DEGREE_MOST
        days = math.log2(1 + entity.access_days) / math.log2(1 + most_days) if most_days > 1 else 0.0
        importance = uses * (1 + DEGREE * degree) * (1 + DAYS * days)
        temporal = decay(entity.last_access or entity.created_at, now)
        pairs = pair_sums.get(entity.pk, 0.0)
        score = bases[entity.pk] * (1 + IMPORTANCE * importance) * temporal
        score *= 1 + PAIRS * pairs
        result[entity.pk] = Limbic(score, importance, temporal, pairs)
    return result


def decay(moment: datetime, now: datetime) -> float:
    hours = max((now - moment).total_seconds() / 3_600, 0.0)
    return max(LEAST_DECAY, math.exp(-DECAY_PER_HOUR * hours))


def _degrees(pks: Mapping[UUID, float]) -> dict[UUID, int]:
    counts: dict[UUID, int] = {}
    for column in ("source", "target"):
        for pk in Relation.objects.filter(**{f"{column}__in": list(pks)}, ended_at=None).values_list(column, flat=True):
            counts[pk] = counts.get(pk, 0) + 1
    return counts


def _pair_sums(pks: Mapping[UUID, float], now: datetime) -> dict[UUID, float]:
    sums: dict[UUID, float] = {}
    rows = CoOccurrence.objects.filter(first__in=list(pks), second__in=list(pks))
    for first, second, count, last_at in rows.values_list("first", "second", "count", "last_at"):
        value = math.log2(1 + count) * decay(last_at, now)
        for pk in (first, second):
            sums[pk] = sums.get(pk, 0.0) + value
    return sums
