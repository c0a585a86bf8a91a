"""Extension points of the knowledge app; see memories/extensions.py for how apps register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string

from knowledge.models import Decision, Insight
from memories.identity.caller import Caller


@dataclass(frozen=True)
class Origin:
    """A text that an insight can be captured from, the entities it is about, and where it came from."""

    text: str
    entity_urns: list[str]
    provenance: dict[str, Any]


class KnowledgeExtension:
    """Hooks run inside the transaction of the change."""

    def observation(self, caller: Caller, number: int) -> Origin | None:
        """Return an observation of the caller's graph by its number, or None where there is none."""
        return None

    def insight_reviewed(self, kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
        """Called after somebody decided on, applied or asked about an insight.

        `kind` is a DecisionKind, APPLIED or ROLLED_BACK; `people` are the addresses of those it concerns, without `by`.
        """

    def approval_overturned(self, insight: Insight, decision: Decision) -> None:
        """Called after a curator rejected what another one had approved."""


_extensions: dict[str, KnowledgeExtension] = {}


def register(path: str) -> None:
    """Import and register the extension class with this dotted path; registering it again replaces it."""
    _extensions[path] = import_string(path)()


def registered() -> Sequence[KnowledgeExtension]:
    return tuple(_extensions.values())
