"""Addresses of pages. Whoever has pages registers how to find them; an app below knows no routes."""

from __future__ import annotations

from collections.abc import Callable

from memories.contract.registry import Registry

LINKS: Registry[Callable[[str], str]] = Registry("links")


def url_for(kind: str, key: str) -> str:
    """The path of the page of this thing, or "" where nobody has pages."""
    provider = LINKS.get(kind)
    return provider(key) if provider else ""
