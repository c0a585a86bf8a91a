"""LangGraph's long-term store, on memories."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from commonplace_client._sync.client import Commonplace
from commonplace_client.types import Memory, Status

STORE = "langgraph-store"  # the tag of all items
IN_FORCE: tuple[Status, ...] = ("active", "stale")  # an item stays when an entity that its text mentions changes
MAX_FOUND = 50  # results of one recall
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
Namespace = tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """A memory that is an item of a store. A person can edit its text and tags, so both are read with care."""

    memory: Memory
    namespace: Namespace
    key: str

    @classmethod
    def read(cls, memory: Memory) -> Stored | None:
        match memory["metadata"].get(STORE):
            case {"namespace": [*labels], "key": str(key)}:
                return cls(memory, tuple(map(str, labels)), key)
        return None

    def fields(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": _value(self.memory["content"]),
            "created_at": datetime.fromisoformat(self.memory["created_at"]),
            "updated_at": datetime.fromisoformat(self.memory["updated_at"]),
        }


class CommonplaceStore(BaseStore):
    """A store whose items are private memories of the token's owner, who can read and correct them in the portal.

    An item is the memory's text: namespace and key in the first line, the value as JSON in the last one. The text has
    at most 4,000 characters. Deleting an item archives its memory, with its history.

    A search with a query finds what is relevant to it, and ends after the 50 best results, before `filter` is applied.
    `list_namespaces`, and a search without a query, read all items of the prefix. There is no TTL, and every value is
    searchable as a whole: `ttl` and `index` are refused.
    """

    __slots__ = ("_client", "_owner")

    def __init__(self, client: Commonplace) -> None:
        self._client = client
        self._owner = client.account()["email"]

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._perform(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _perform(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            stored = next(self._stored(op.namespace, op.key), None)
            return Item(**stored.fields()) if stored else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"{type(op).__name__} is not an operation of this store")

    def _put(self, op: PutOp) -> None:
        if op.index is not None or op.ttl is not None:
            raise NotImplementedError("`index` and `ttl` are not supported: every value is searchable, none expires")
        stored = self._stored(op.namespace, op.key)
        if op.value is None:
            for item in stored:
                self._client.forget(item.memory["id"], reason="Deleted from the store.")
            return
        content = f"{'.'.join(op.namespace)} {op.key}\n{json.dumps(op.value, ensure_ascii=False, allow_nan=False)}"
        current = next(stored, None)
        if current is None:
            address = {"namespace": list(op.namespace), "key": op.key}
            prefixes = [_prefix_tag(op.namespace[:depth]) for depth in range(len(op.namespace) + 1)]
            tags = [*prefixes, _tag(*op.namespace, key=op.key)]
            self._client.remember(content, tags=tags, visibility="private", metadata={STORE: address})
        elif current.memory["content"] != content:
            self._client.update(
                current.memory["id"], etag="*", content=content
            )  # the last writer wins, as in other stores

    def _search(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        if op.query and end > MAX_FOUND:
            raise ValueError(f"offset + limit is {end}: a search with a query returns at most {MAX_FOUND} items")
        found = self._ranked(op.namespace_prefix, op.query) if op.query else self._listed(op.namespace_prefix)
        items = (SearchItem(**stored.fields(), score=score) for stored, score in found)
        return list(itertools.islice((item for item in items if _matches(item.value, op.filter)), op.offset, end))

    def _ranked(self, prefix: Namespace, query: str) -> Iterator[tuple[Stored, float | None]]:
        tags = [_prefix_tag(prefix)]
        hits = self._client.recall(query, tags=tags, include_stale=True, limit=MAX_FOUND, explain=True)["memories"]
        for hit in hits:
            if hit["created_by"] == self._owner:
                stored = Stored.read(self._client.get(hit["id"])["memory"])
                if stored and stored.namespace[: len(prefix)] == prefix:
                    yield stored, hit.get("score")

    def _listed(self, prefix: Namespace) -> Iterator[tuple[Stored, None]]:
        for stored in self._tagged(_prefix_tag(prefix)):
            if stored.namespace[: len(prefix)] == prefix:
                yield stored, None

    def _stored(self, namespace: Namespace, key: str) -> Iterator[Stored]:
        for stored in self._tagged(_tag(*namespace, key=key)):
            if (stored.namespace, stored.key) == (namespace, key):
                yield stored

    def _tagged(self, tag: str) -> Iterator[Stored]:
        for status in IN_FORCE:
            for memory in self._client.memories(tag=tag, status=status, created_by=self._owner):
                if stored := Stored.read(memory):
                    yield stored

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        namespaces = {stored.namespace for stored in self._tagged(STORE)}
        kept = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if all(_satisfies(namespace, condition) for condition in op.match_conditions or ())
        }
        return sorted(kept)[op.offset : op.offset + op.limit]


def _tag(*namespace: str, key: str = "") -> str:
    """Return the tag of a namespace or item: readable, and exact because of the hash. Tags have 80 characters."""
    digest = hashlib.sha256(json.dumps([namespace, key]).encode()).hexdigest()[:16]
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", ".".join([*namespace, key]).rstrip("."))
    return f"{readable[:50]} {digest}"


def _prefix_tag(prefix: Namespace) -> str:
    return _tag(*prefix) if prefix else STORE


def _value(content: str) -> dict[str, Any]:
    """Return the value in a memory's text, or {"text": …} if a person has rewritten the text without the JSON."""
    try:
        value = json.loads(content.rpartition("\n")[2])
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"text": content}


def _matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    return all(_holds(value.get(name), wanted) for name, wanted in (conditions or {}).items())


def _holds(actual: Any, wanted: Any) -> bool:
    if not (isinstance(wanted, Mapping) and any(str(name).startswith("$") for name in wanted)):
        return bool(actual == wanted)
    if unknown := set(wanted) - set(OPERATORS):
        raise ValueError(f"{sorted(unknown)} are not operators of a filter; allowed: {', '.join(OPERATORS)}")
    try:
        return all(OPERATORS[name](actual, operand) for name, operand in wanted.items())
    except TypeError:  # values of types that have no order
        return False


def _satisfies(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
