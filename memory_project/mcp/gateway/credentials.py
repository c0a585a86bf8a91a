"""Whose credential goes upstream: that of the declaration, a person's own, or one exchanged for the caller.

The caller's token for Commonplace never goes upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from memories.contract.errors import Degraded
from memories.identity.caller import Caller
from memory_project.mcp.gateway.declaration import Upstream

SERVICE = ""  # the owner of a declaration's credential
NOBODY = Caller(email="", persona="", personas=frozenset(), channel="gateway")  # lists tools without a person


def owner(upstream: Upstream, caller: Caller) -> str:
    """Return whose credential the caller's calls use: SERVICE, or the caller's address."""
    return SERVICE if upstream.credentials == "service" else caller.email


def for_connection(upstream: Upstream, caller: Caller) -> tuple[Mapping[str, str], httpx2.Auth | None]:
    """Return the headers and the authentication of a new connection.

    Raises Degraded if the caller, or the operator, has to provide a credential first.
    """
    headers = upstream.filled(upstream.headers)
    if upstream.credentials != "service":
        raise Degraded(f"{upstream.name}: needs a credential of {caller.email or 'a person'}")
    return headers, None
