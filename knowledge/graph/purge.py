"""Permanent deletion of graph rows."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from knowledge.graph.models import Entity, Observation, Relation


def purge(before: datetime) -> int:
    """Delete permanently the entities and relations that were deleted, and observations that ended, before this time.

    Superseded observations and ended relations of existing entities are kept as history.
    """
    with transaction.atomic():
        observations = Observation.objects.filter(ended_at__lt=before, superseded_at=None).delete()[0]
        Relation.objects.filter(deleted_at__lt=before).delete()
        Relation.objects.filter(ended_at__lt=before, source__deleted_at__lt=before).delete()
        Relation.objects.filter(ended_at__lt=before, target__deleted_at__lt=before).delete()
        return observations + Entity.objects.filter(deleted_at__lt=before).delete()[0]
