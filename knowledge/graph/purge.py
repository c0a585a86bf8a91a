"""What leaves a graph for good."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from knowledge.graph.models import Entity, Observation, Relation


def purge(before: datetime) -> int:
    """Removes entities and observations that were deleted before; superseded observations and ended relations of living
    entities stay, as history."""
    with transaction.atomic():
        observations = Observation.objects.filter(ended_at__lt=before, superseded_at=None).delete()[0]
        Relation.objects.filter(ended_at__lt=before, source__deleted_at__lt=before).delete()
        Relation.objects.filter(ended_at__lt=before, target__deleted_at__lt=before).delete()
        return observations + Entity.objects.filter(deleted_at__lt=before).delete()[0]
