from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.apps import apps
from django.contrib.admin import site
from django.contrib.admin.utils import quote
from django.urls import reverse

register = template.Library()
# Pages of the portal about one thing: the table of the thing, and the argument or parameter with its key.
PAGES = {
    "memory": ("memories.memoryrecord", "record_id"),
    "review-one": ("knowledge.insight", "insight_id"),
    "changeset": ("knowledge.changeset", "changeset_id"),
    "entity": ("knowledge.catalogentity", "urn"),
    "batch": ("memories.batch", "batch_id"),
}


@register.simple_tag(takes_context=True)
def page_in_admin(context: Mapping[str, Any]) -> str:
    """Return the address of the admin's page about the same thing as this page, if there is one that may be seen."""
    request = context["request"]
    match = request.resolver_match
    if match is None or match.url_name not in PAGES or not request.user.is_staff:
        return ""
    label, name = PAGES[match.url_name]
    key = match.kwargs.get(name) or request.GET.get(name, "")
    model = apps.get_model(label)
    table = site._registry.get(model)
    if not key or table is None or not table.has_view_permission(request):
        return ""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[quote(str(key))])


@register.simple_tag
def saved_filters(views: Iterable[Any], path: str) -> list[dict[str, str]]:
    """Return a person's saved views of the list at this path."""
    pairs = [(view.name, view.address.partition("?")) for view in views or ()]
    return [{"name": name, "query": query} for name, (page, _, query) in pairs if page == path]
