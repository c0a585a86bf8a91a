"""Names and addresses under which clients see what upstreams offer."""

from __future__ import annotations

import hashlib
import re

MAX_NAME = 64  # characters that clients accept in the name of a tool
RESOURCE_SCHEME = "upstream://"


def offered_name(upstream: str, tool: str) -> str:
    """Return the name of an upstream's tool for clients: NAME_tool.

    A name with characters that clients refuse, or that is too long, gets a part of its hash, so that it stays unique.
    """
    name = f"{upstream}_{tool}"
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if plain == name and len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(tool.encode()).hexdigest()[:8]
    return f"{plain[: MAX_NAME - 9]}_{digest}"


def offered_uri(upstream: str, uri: str) -> str:
    """Return the address of an upstream's resource, or the template of one, for clients."""
    return f"{RESOURCE_SCHEME}{upstream}/{uri}"


def upstream_uri(uri: str) -> tuple[str, str]:
    """Return the upstream and the address there. Both are "" if the address belongs to no upstream."""
    if not uri.startswith(RESOURCE_SCHEME):
        return "", ""
    upstream, _, inner = uri.removeprefix(RESOURCE_SCHEME).partition("/")
    return upstream, inner
