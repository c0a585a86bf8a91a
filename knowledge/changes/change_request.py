"""A requested change, what a plan for it may look at, and the steps it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from knowledge.catalog.facts import Facts
from knowledge.catalog.port import Write, make_urn
from memories.contract.errors import Invalid

DETAIL_MAX = 10_000
TARGET_MAX = 500


@dataclass(frozen=True)
class Request:
    """One requested change, as the tools take it."""

    change_type: str
    target: str = ""
    detail: str = ""
    query_sql: str = ""
    query_description: str = ""


@dataclass(frozen=True)
class Context:
    """What a plan may look at: the entity, what the catalog says of it now, who asks, and in which changeset."""

    urn: str
    facts: Facts | None
    actor: str
    changeset: str
    find_term: Callable[[str], str]  # the URN of a glossary term with this name, or ""
    exists: Callable[[str], bool]  # whether the catalog has an entity with this URN
    authors: tuple[str, ...] = ()  # who wrote the insights that the changes come from

    @property
    def stamp(self) -> dict[str, Any]:
        return {"time": int(timezone.now().timestamp() * 1000), "actor": make_urn("corpuser", self.actor)}


@dataclass(frozen=True)
class Step:
    """A write, and whether it makes an entity that was not there."""

    write: Write
    creates: bool = False


def add(urn: str, aspect: str, path: tuple[str, ...], value: Any) -> Step:
    return Step(Write(urn, aspect, path, "add", value))


def remove(urn: str, aspect: str, path: tuple[str, ...]) -> Step:
    return Step(Write(urn, aspect, path, "remove"))


def detail_of(request: Request, what: str) -> str:
    if not request.detail.strip():
        raise Invalid("is missing", field="detail", allowed=what)
    return request.detail.strip()
