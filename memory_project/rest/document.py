"""The OpenAPI document of this process."""

from __future__ import annotations

import functools
import re
from typing import Any

from django.http import HttpRequest
from drf_spectacular.generators import SchemaGenerator

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


@functools.cache  # routes don't change while the process runs, and generating takes a quarter of a second
def document() -> dict[str, Any]:
    return dict(SchemaGenerator().get_schema(request=None, public=True))  # type: ignore[no-untyped-call]


def methods_of(request: HttpRequest) -> dict[str, dict[str, Any]]:
    """Return the operations of the request's path by HTTP method in lower case."""
    route = request.resolver_match.route if request.resolver_match else ""
    found: dict[str, dict[str, Any]] = document()["paths"].get("/" + PARAMETER.sub(r"{\1}", route), {})
    return found


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """Return the component that a `$ref` names, or the part itself."""
    found = part
    for key in part.get("$ref", "").split("/")[1:]:
        found = (document() if found is part else found)[key]
    return found
