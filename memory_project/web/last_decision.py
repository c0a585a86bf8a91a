"""The last decision of a person on a page: for some seconds, the next page reports it and offers to undo it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest


@dataclass(frozen=True)
class LastDecision:
    """The place of one kind of page in the session of a person."""

    key: str  # of the session

    def keep(self, request: HttpRequest, message: str, **values: Any) -> None:
        request.session[self.key] = {**values, "message": message, "at": time.time()}

    def offered(self, request: HttpRequest) -> Mapping[str, Any] | None:
        """Return the decision with the `seconds` for which it is still offered. None after these."""
        last = self.stored(request)
        seconds = settings.UNDO_OFFERED_S - (time.time() - last.get("at", 0))
        return {**last, "seconds": max(round(seconds), 1)} if seconds > 0 else None

    def stored(self, request: HttpRequest) -> Mapping[str, Any]:
        """Return the decision, however old it is. Empty if there is none."""
        return request.session.get(self.key) or {}

    def forget(self, request: HttpRequest) -> None:
        request.session.pop(self.key, None)
