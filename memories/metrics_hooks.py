"""Events of recall and attached context. The composition root registers an observer that counts them."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    def recalled(self, *, candidates: int, is_degraded: bool) -> None:
        """Count a recall that has compared so many memories."""

    def context_attached(self, memories: int) -> None:
        """Count the memories that are attached to a response."""

    def context_skipped(self, reason: str) -> None:
        """Count a response without attached memories. `reason` is one of a few fixed words."""


class Silent:
    """The observer of processes without metrics."""

    def recalled(self, *, candidates: int, is_degraded: bool) -> None:
        pass

    def context_attached(self, memories: int) -> None:
        pass

    def context_skipped(self, reason: str) -> None:
        pass


observer: Observer = Silent()


def observe_with(other: Observer) -> None:
    global observer
    observer = other
