"""Python client of Commonplace's REST API."""

from __future__ import annotations

from commonplace_client._async.client import AsyncCommonplace
from commonplace_client._sync.client import Commonplace
from commonplace_client._version import __version__
from commonplace_client.errors import (
    CommonplaceError,
    Conflict,
    ConnectionLost,
    Degraded,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    StaleEdit,
    Upstream,
)

__all__ = [
    "AsyncCommonplace",
    "Commonplace",
    "CommonplaceError",
    "Conflict",
    "ConnectionLost",
    "Degraded",
    "Forbidden",
    "Invalid",
    "LimitReached",
    "NotFound",
    "StaleEdit",
    "Upstream",
    "__version__",
]
