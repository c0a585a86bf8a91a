"""Catalog entities of the files that a call of object_list, object_info or object_read is about.

DataHub names a data set of an object store by its path: `urn:li:dataset:(urn:li:dataPlatform:s3,bucket/folder,PROD)`.
A file belongs to the entity with the longest path that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from analysis.storage.declaration import ObjectStore
from analysis.storage.objects import readable_stores
from foundation.operations.fields import UNSTORABLE, URN_LENGTH
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.models import CatalogEntity

TOOLS = ("object_list", "object_info", "object_read")
MAX_LISTED = 200  # maximum number of listed files and folders that are looked up
ENCODED = {",": "%2C", "(": "%28", ")": "%29", "\u241f": "%E2%90%9F"}  # as DataHub writes them in a URN


def of_call(caller: Caller, call: Call) -> tuple[list[str], list[str]]:
    """Return the URNs of the entity that contains the call's key or prefix, if any, and of those that it lists."""
    if call.is_proxied or call.tool not in TOOLS:
        return [], []
    store = readable_stores(caller).get(str(call.data.get("store", "")))
    if store is None:
        return [], []
    key = str(call.arguments.get("key") or call.arguments.get("prefix") or "")
    above = _urns(store, _paths_above(store.path_of(key)))
    listed = _urns(store, (store.path_of(path).rstrip("/") for path in _listed(call.data)))
    known = _in_catalog([*above, *listed])
    longest = next((urn for urn in reversed(above) if urn in known), "")
    return [longest] if longest else [], [urn for urn in listed if urn in known and urn != longest]


def _paths_above(path: str) -> Iterable[str]:
    """Return the path and the folders that contain it, shortest first: a, a/b, a/b/c."""
    return accumulate(path.rstrip("/").split("/"), "{}/{}".format)


def _listed(data: Any) -> list[str]:
    objects = [entry["key"] for entry in data.get("objects") or ()]
    return [*(data.get("folders") or ()), *objects][:MAX_LISTED]


def _urns(store: ObjectStore, paths: Iterable[str]) -> list[str]:
    instance = f"{store.platform_instance}." if store.platform_instance else ""
    urns = (
        f"urn:li:dataset:(urn:li:dataPlatform:{store.platform},{_encoded(instance + path)},{store.environment})"
        for path in paths
    )
    return [urn for urn in urns if len(urn) <= URN_LENGTH and not UNSTORABLE.search(urn)]


def _encoded(path: str) -> str:
    return "".join(ENCODED.get(character, character) for character in path)


def _in_catalog(urns: Sequence[str]) -> set[str]:
    return set(CatalogEntity.objects.filter(urn__in=urns, removed=False).values_list("urn", flat=True))
