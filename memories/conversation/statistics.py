"""Counts of a user's conversation memories and cache use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from foundation.people.caller import Caller
from memories.conversation.acting_user import acting_as
from memories.conversation.models import CachedAnswer, CacheUse
from memories.conversation.operations import TIERS, ShowHealth
from memories.conversation.turns import COMPLETED, PENDING
from memories.models import MemoryRecord, Status


@dataclass(frozen=True)
class CacheRate:
    entries: int
    hits: int  # number of hits in the last EXPIRED_DAYS days (cache.py)
    misses: int  # number of misses in the same days

    @property
    def share(self) -> float:
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0


def living(owner: str) -> QuerySet[MemoryRecord]:
    """Return the owner's conversation memories that are neither archived nor expired."""
    rows = MemoryRecord.objects.filter(created_by=owner, tier__in=TIERS).exclude(status=Status.ARCHIVED)
    return rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()))


def show_health(caller: Caller, operation: ShowHealth) -> dict[str, Any]:
    user = acting_as(caller, operation.user_id)
    rows = living(user.email).order_by()
    tiers = dict(rows.values_list("tier").annotate(n=Count("pk")))
    states = dict(
        rows.exclude(enrichment_status="").filter(tier="ltm").values_list("enrichment_status").annotate(n=Count("pk"))
    )
    return {
        "total_memories": sum(tiers.values()),
        "tier_stats": {tier: tiers.get(tier, 0) for tier in TIERS},
        "enrichment_stats": {state: states.get(state, 0) for state in (COMPLETED, PENDING)}
        | {state: n for state, n in states.items() if state not in (COMPLETED, PENDING)},
    }


def cache_rate(owner: str) -> CacheRate:
    entries = CachedAnswer.objects.filter(created_by=owner, expires_at__gt=timezone.now()).count()
    sums = CacheUse.objects.filter(created_by=owner).aggregate(hits=Sum("hits"), misses=Sum("misses"))
    return CacheRate(entries, sums["hits"] or 0, sums["misses"] or 0)
