"""The limbic score: entities that are accessed often, recently and together rank higher.

score = base · (1 + importance_weight · importance) · temporal · (1 + pairs_weight · pairs) · status and kind factors
base = max(0, cosine), or .2 + .6 · rrf for entities found by words only
importance = log2(1 + uses) / log2(1 + most uses) · (1 + degree_weight · min(degree, 15) / 15) · (1 + days_weight · C)
C = log2(1 + days) / log2(1 + most days) if most days > 1, else 0
temporal = max(least, exp(−decay · hours since the last access, or since creation if there was no access))
pairs = Σ over the other candidates: log2(1 + times together) · temporal of the last time

Uses are accesses, and days are the days with an access. The constants are in settings.GRAPH_LIMBIC. Maxima are taken
over all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from knowledge.graph.models import CoOccurrence, Entity, Relation


@dataclass(frozen=True)
class Limbic:
    score: float
    importance: float
    temporal: float
    pairs: float


def scores(
    bases: Mapping[UUID, float], entities: Sequence[Entity], metadata_shares: Mapping[UUID, float]
) -> dict[UUID, Limbic]:
    """Return the score of each candidate.

    `bases` are the relevances, and `metadata_shares` the shares of observations of the kind metadata, both from 0 to 1.
    """
    constants, now = settings.GRAPH_LIMBIC, timezone.now()
    most_uses = max((entity.access_count for entity in entities), default=0)
    most_days = max((entity.access_days for entity in entities), default=0)
    degrees, pair_sums = _degrees(bases), _pair_sums(bases, now)
    result = {}
    for entity in entities:
        uses = math.log2(1 + entity.access_count) / math.log2(1 + most_uses) if most_uses else 0.0
        degree = min(degrees.get(entity.pk, 0), constants["degree_most"]) / constants["degree_most"]
        days = math.log2(1 + entity.access_days) / math.log2(1 + most_days) if most_days > 1 else 0.0
        importance = uses * (1 + constants["degree"] * degree) * (1 + constants["days"] * days)
        temporal = decay(entity.last_access or entity.created_at, now)
        pairs = pair_sums.get(entity.pk, 0.0)
        factor = settings.GRAPH_STATUS_FACTORS.get(entity.status, 1.0)
        factor *= settings.GRAPH_METADATA_FACTOR if metadata_shares.get(entity.pk, 0.0) > 0.5 else 1.0
        score = bases[entity.pk] * (1 + constants["importance"] * importance) * temporal
        score *= (1 + constants["pairs"] * pairs) * factor
        result[entity.pk] = Limbic(score, importance, temporal, pairs)
    return result


def decay(moment: datetime, now: datetime) -> float:
    constants = settings.GRAPH_LIMBIC
    hours = max((now - moment).total_seconds() / 3_600, 0.0)
    return max(constants["least_decay"], math.exp(-constants["decay_per_hour"] * hours))


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
