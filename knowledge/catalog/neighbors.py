"""Entities one lineage step away, fast enough for attaching memories to every tool response.

With the embedded catalog or a copy of DataHub, only local tables are read. Without a copy, background threads ask
DataHub and cache the result. A caller that stops waiting continues without the result, and a later call finds it in the
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from hashlib import sha256

from django.conf import settings
from django.core.cache import caches
from django.db.models import Q

from foundation.database import connections
from knowledge.catalog import mirror
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.models import LineageEdge

MAX_URNS = 40
MAX_EDGES = 4 * MAX_URNS  # maximum number of edges that are read for the neighbors of several entities
CACHE_S = 600  # seconds that neighbors are cached; lineage changes from day to day, not by the minute
RETRY_S = 30  # seconds until DataHub is asked again after a failed request

_threads = ThreadPoolExecutor(4, thread_name_prefix="lineage")


def neighbors_of(urns: Sequence[str]) -> list[str]:
    """Return at most MAX_URNS locally known entities one step upstream or downstream. Sends no request to DataHub."""
    edges = LineageEdge.objects.filter(Q(upstream__in=urns) | Q(downstream__in=urns))
    pairs = edges.values_list("upstream", "downstream")[:MAX_EDGES]
    neighbors = [urn for pair in pairs for urn in pair]
    return [urn for urn in dict.fromkeys([*neighbors, *learned_neighbors(urns)]) if urn not in urns][:MAX_URNS]


def learned_neighbors(urns: Sequence[str]) -> list[str]:
    """Return the neighbors that DataHub was asked for in the last minutes. Without a DataHub there are none."""
    if not settings.DATAHUB_GMS_URL:
        return []
    return [urn for group in caches["calls"].get_many([_key(urn) for urn in urns]).values() for urn in group]


def is_known(urns: Sequence[str]) -> bool:
    """Return whether `neighbors_of` is complete for these URNs."""
    if not settings.DATAHUB_GMS_URL or mirror.last_copied_at():
        return True
    return all(
        caches["calls"].get(_key(urn)) is not None and not caches["calls"].get(_failure_key(urn)) for urn in urns
    )


def learn(urns: Sequence[str], patience_s: float) -> bool:
    """Ask DataHub for unknown neighbors, and wait at most `patience_s` seconds. Return whether all are known now.

    Don't call it inside a transaction, which would keep its database connection while waiting.
    """
    unknown = [urn for urn in urns if caches["calls"].get(_key(urn)) is None]
    if unknown:
        connections.close_if_pooled()  # don't hold a database connection while waiting
        wait([_threads.submit(_fetch, urn) for urn in unknown], timeout=max(patience_s, 0.0))
    return is_known(urns)


def _fetch(urn: str) -> None:
    from knowledge.catalog.datahub import DataHubCatalog  # noqa: PLC0415 - only needed with DataHub

    catalog = DataHubCatalog.configured()
    try:
        nodes = [
            node
            for direction in ("upstream", "downstream")
            for node in catalog.lineage(urn, direction=direction, hops=1, limit=MAX_URNS)
        ]
    except (CatalogUnavailable, CatalogRefused):
        # Remember the failure for a while, so that not every call waits for DataHub.
        caches["calls"].set_many({_key(urn): [], _failure_key(urn): True}, RETRY_S)
    else:
        caches["calls"].set(_key(urn), [node.urn for node in nodes], CACHE_S)


def _key(urn: str) -> str:
    return f"near-{sha256(urn.encode()).hexdigest()}"


def _failure_key(urn: str) -> str:
    return f"unknown-{_key(urn)}"
