"""What every page shows of the person and of what waits for them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.http import HttpRequest

from knowledge import queries as curation
from knowledge.models import Insight
from memories import queries
from memories.access import Caller, caller_of


class Navigation:
    """Counted when a page shows them, not before: fragments don't."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    @cached_property
    def may_curate(self) -> bool:
        return curation.may_curate(self.caller)

    @cached_property
    def _counts(self) -> dict[str, int]:
        waiting = curation.waiting(self.caller) if self.may_curate else Insight.objects.none()
        return queries.capped_counts(waiting=waiting, stale=queries.mine_to_review(self.caller))

    @property
    def waiting(self) -> int:
        return self._counts["waiting"]

    @property
    def stale(self) -> int:
        return self._counts["stale"]


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Nothing before sign-in."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    caller = caller_of(request, door="portal")
    return {"caller": caller, "nav": Navigation(caller)}
