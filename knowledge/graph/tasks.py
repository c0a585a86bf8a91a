from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from knowledge.graph.maintenance import proposals
from knowledge.graph.models import Graph
from knowledge.graph.purge import purge as purge_deleted
from knowledge.graph.search import access_counts

CHANGED_WITHIN = timedelta(hours=25)  # maximum age of changes that the daily run looks at; an hour more than a day


def count_accesses(entity_ids: list[str]) -> None:
    access_counts.count([UUID(pk) for pk in entity_ids])


def propose_maintenance() -> int:
    since = timezone.now() - CHANGED_WITHIN
    return sum(proposals.create_proposals(graph, since) for graph in Graph.objects.filter(changed_at__gte=since))


def propose_maintenance_of(graph_id: str) -> int:
    graph = Graph.objects.filter(pk=graph_id).first()
    return proposals.create_proposals(graph) if graph else 0


def purge() -> int:
    return purge_deleted(timezone.now() - timedelta(days=settings.SOFT_DELETE_PURGE_DAYS))
