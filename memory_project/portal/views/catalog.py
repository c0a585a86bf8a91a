"""Knowledge page: the entities that insights have changed, and a search of the catalog."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.catalog.search import search
from knowledge.changesets import promoted
from memories.contract.fields import UNSTORABLE
from memories.identity.permissions import caller_from_request

MAX_FOUND = 30  # maximum number of search results


@require_safe
@login_required
def knowledge(request: HttpRequest) -> HttpResponse:
    """Search the catalog for `q`. Without `q`, list the entities that insights have changed."""
    caller = caller_from_request(request, channel="portal")
    q = UNSTORABLE.sub("", request.GET.get("q", "")).strip()[:500]
    kind = request.GET.get("kind", "")
    kind = kind if kind in promoted.KINDS else "entities"
    context: dict[str, Any] = {"q": q, "kind": kind}
    if q:
        context |= _search(q)
    else:
        counts = promoted.counts()
        context["kinds"] = [(name, title, counts[name]) for name, title in promoted.KINDS.items()]
        context["rows"] = promoted.newest(caller, kind)
    is_fragment = request.htmx and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    return render(request, "knowledge/_rows.html" if is_fragment else "knowledge/list.html", context)


def _search(q: str) -> dict[str, Any]:
    try:
        catalog = get_readable_catalog()
        found = search(catalog, q, limit=MAX_FOUND)
        return {"matches": found.entities, "note": copy_note(catalog) or found.note}
    except (CatalogUnavailable, CatalogRefused) as error:
        return {"matches": [], "note": error.message}
