"""Consolidation report of a graph (read-only).

The code calls entities idle if they weren't accessed for long. Only the names that the tool's contract fixes, such as
`stale_days` and `stale_entities`, call them stale. Elsewhere, stale is a status of memories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Count, F, Q
from django.utils import timezone

from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.entities import live
from knowledge.graph.maintenance.splits import Analysis, split_candidates, threshold_of
from knowledge.graph.models import Entity, Observation
from knowledge.graph.operations import Report

MAX_LISTED = 100  # maximum number of entries in each list of the response
MAX_USES = 2  # maximum access_count of an idle entity
DONE = ("archived", "archivado")  # statuses of entities that are never reported as idle


@dataclass
class Findings:
    entities: int = 0
    observations: int = 0
    splits: list[Analysis] = field(default_factory=list)
    flagged: list[Observation] = field(default_factory=list)
    idle: list[Entity] = field(default_factory=list)  # annotated with observation_count
    large: list[Entity] = field(default_factory=list)  # annotated with observation_count
    collisions: list[list[Entity]] = field(default_factory=list)  # entities with the same name in other spellings


def report(caller: Caller, operation: Report) -> Findings:
    graph = graphs.graph_of(caller)
    if graph is None:
        return Findings()
    observations = Observation.objects.filter(graph=graph, ended_at=None)
    entities = live(graph).filter(is_placeholder=False).defer("folded", "grams")
    counted = entities.annotate(observation_count=Count("observations", filter=Q(observations__ended_at=None)))
    counted = counted.filter(observation_count__gt=0)
    since = timezone.now() - timedelta(days=operation.stale_days)
    not_accessed = Q(last_access__isnull=False, last_access__lt=since) | Q(last_access=None, created_at__lt=since)
    idle = counted.filter(not_accessed, access_count__lte=MAX_USES).exclude(status__in=DONE)
    splits = split_candidates(graph)
    split_pks = {analysis.entity.pk for analysis in splits}
    full = [entity for entity in counted if entity.observation_count > threshold_of(entity.entity_type)]
    return Findings(
        entities=entities.count(),
        observations=observations.count(),
        splits=splits,
        flagged=list(observations.filter(similarity_flag=True).select_related("entity").order_by("number")),
        idle=list(idle.order_by(F("last_access").asc(nulls_first=True), "number")),
        large=[entity for entity in full if entity.pk not in split_pks],
        collisions=names.collisions(graph),
    )
