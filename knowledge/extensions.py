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
    """A text to capture an insight from, with its entities and its provenance."""

    text: str
    entity_urns: list[str]
    provenance: dict[str, Any]


class KnowledgeExtension:
    """Hooks that another app implements. They run inside the transaction of the change."""

    def observation(self, caller: Caller, number: int) -> Origin | None:
        """Return the observation with this number in the caller's graph, or None."""
        return None

    def insight_reviewed(self, kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
        """Called after an insight was decided on, questioned, applied or rolled back.

        `kind` is a DecisionKind, APPLIED or ROLLED_BACK. `people` are the addresses of the people concerned, without
        `by`.
        """

    def approval_overturned(self, insight: Insight, decision: Decision) -> None:
        """Called after a curator rejected an insight that another curator had approved."""


_extensions: dict[str, KnowledgeExtension] = {}


def register(path: str) -> None:
    """Import and register the extension class with this dotted path; registering it again replaces it."""
    _extensions[path] = import_string(path)()


def registered() -> Sequence[KnowledgeExtension]:
    return tuple(_extensions.values())
