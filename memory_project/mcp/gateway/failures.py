"""Failures of calls on their way to an upstream."""

from __future__ import annotations

from foundation.operations import errors
from memory_project.mcp.gateway.declaration import Upstream


class Lost(errors.Upstream):
    """The connection ended while a call was running, or before it."""


class TimedOut(errors.Upstream):
    """The upstream did not answer in time."""

    def __init__(self, upstream: Upstream) -> None:
        seconds = f"{upstream.timeout_s:g} s"
        super().__init__(
            f"{upstream.name}: did not answer within {seconds}; whether the call was carried out is unknown"
        )
