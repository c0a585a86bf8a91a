"""URLs of the pages of domain objects.

The app that has the pages registers functions for their URLs, so that the apps below it need not know its routes.
"""

from __future__ import annotations

from collections.abc import Callable

from foundation.registry import Registry

LINKS: Registry[Callable[[str], str]] = Registry("links")


def url_for(kind: str, key: str) -> str:
    """Return the path of an object's page, or "" if no app has registered pages of this kind."""
    provider = LINKS.get(kind)
    return provider(key) if provider else ""
