"""The owner of the credential that a call of an upstream uses."""

from __future__ import annotations

from foundation.people.caller import Caller
from memory_project.mcp.gateway.declaration import Upstream

SERVICE = ""  # the owner of what goes upstream for everybody

NOBODY = Caller(email="", persona="", personas=frozenset(), channel="gateway")  # lists tools without a person


def owner(upstream: Upstream, caller: Caller) -> str:
    """Return whose credential the caller's calls use: SERVICE, or the caller's address."""
    return SERVICE if upstream.credentials == "service" else caller.email


def is_stored(upstream: Upstream) -> bool:
    return upstream.wants_secret or upstream.wants_sign_in
