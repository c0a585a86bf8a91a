"""What is one step of lineage away from an entity, fast enough to be asked unprompted.

Our own tables say it at once: the embedded catalog, or the copy of a DataHub. A DataHub of which there is no copy is
asked beside the call; who does not want to wait goes on, and the next call has the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from hashlib import sha256

from django.conf import settings
from django.core.cache import cache
from django.db.models import Q

from knowledge.catalog import mirror
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.models import LineageEdge
from memories.database import connections

MAX_NEAR = 40
KEPT_S = 600  # lineage changes by the day
RETRIED_S = 30  # after DataHub did not answer

_threads = ThreadPoolExecutor(4, thread_name_prefix="lineage")


def neighbours_of(urns: Sequence[str]) -> list[str]:
    """The entities made from these, or these from them, as far as it is known here; no other system is asked."""
    edges = LineageEdge.objects.filter(Q(upstream__in=urns) | Q(downstream__in=urns))
    pairs = edges.values_list("upstream", "downstream")[: 4 * MAX_NEAR]
    neighbours = [urn for pair in pairs for urn in pair]
    learned_urns = [urn for near in cache.get_many([_key(urn) for urn in urns]).values() for urn in near]
    return [urn for urn in dict.fromkeys([*neighbours, *learned_urns]) if urn not in urns][:MAX_NEAR]


def is_known(urns: Sequence[str]) -> bool:
    """Whether `of` knows all about these, without another system."""
    if not settings.DATAHUB_GMS_URL or mirror.age():
        return True
    return all(cache.get(_key(urn)) is not None and not cache.get(_away(urn)) for urn in urns)


def learn(urns: Sequence[str], patience_s: float) -> bool:
    """Asks DataHub what is near these, and waits so long at most, outside of any transaction. False where it is not
    known yet."""
    unknown = [urn for urn in urns if cache.get(_key(urn)) is None]
    if unknown:
        connections.close_if_pooled()
        wait([_threads.submit(_ask, urn) for urn in unknown], timeout=max(patience_s, 0.0))
    return is_known(urns)


def _ask(urn: str) -> None:
    from knowledge.catalog.datahub import DataHubCatalog  # noqa: PLC0415 - a second of SDK, only where configured

    catalog = DataHubCatalog.configured()
    try:
        nodes = [
            node
            for direction in ("upstream", "downstream")
            for node in catalog.lineage(urn, direction=direction, hops=1, limit=MAX_NEAR)
        ]
    except (CatalogUnavailable, CatalogRefused):
        cache.set_many({_key(urn): [], _away(urn): True}, RETRIED_S)
    else:
        cache.set(_key(urn), [node.urn for node in nodes], KEPT_S)


def _key(urn: str) -> str:
    return f"near-{sha256(urn.encode()).hexdigest()}"


def _away(urn: str) -> str:
    return f"unknown-{_key(urn)}"
