from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template

register = template.Library()


@register.simple_tag
def saved_filters(views: Iterable[Any], path: str) -> list[dict[str, str]]:
    """Return a person's saved views of the list at this path."""
    pairs = [(view.name, view.address.partition("?")) for view in views or ()]
    return [{"name": name, "query": query} for name, (page, _, query) in pairs if page == path]
