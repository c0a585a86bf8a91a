"""Addresses of memories in a text: `commonplace://memory/ID`, and the memory's page in this installation."""

from __future__ import annotations

import re
from functools import cache
from uuid import UUID, uuid4

from django.conf import settings

from foundation.links import url_for

RESOURCE = "commonplace://memory/"  # the address of a memory as an MCP resource
# An id behind a slash. Whether an address of a memory precedes it is checked apart from the pattern, which thereby has
# a fixed length and takes linear time.
ID = re.compile(r"/([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?![0-9a-fA-F-])")


def cited_ids(text: str) -> list[UUID]:
    """Return the ids of the memories whose addresses the text contains, without repeats, in the order of the text."""
    prefixes = (RESOURCE, *_pages(settings.COMMONPLACE_URL))
    found: dict[UUID, None] = {}
    for match in ID.finditer(text):
        start = match.start(1)
        if any(text.endswith(prefix, 0, start) for prefix in prefixes):
            found[UUID(match[1])] = None
    return list(found)


@cache
def _pages(base: str) -> tuple[str, ...]:
    """Return what precedes the id in the address of a memory's page, or nothing if there are no such pages."""
    before = ID.split(url_for("memory", uuid4().hex))[0]
    return (f"{base}{before}/",) if before else ()
