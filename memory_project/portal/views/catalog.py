"""Knowledge page: what insights have changed, the whole catalog, and a search of it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from foundation.operations.fields import UNSTORABLE
from foundation.people.permissions import caller_from_request
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.catalog.search import search
from knowledge.changesets import promoted
from knowledge.models import CatalogEntity

MAX_FOUND = 30  # maximum number of search results
SHOWN = 40  # entities on a page of the whole catalog
CATALOG = "catalog"


@require_safe
@login_required
def knowledge(request: HttpRequest) -> HttpResponse:
    """Search the catalog for `q`. Without `q`, list what insights have changed, or the whole catalog."""
    caller = caller_from_request(request, channel="portal")
    q = UNSTORABLE.sub("", request.GET.get("q", "")).strip()[:500]
    kind = request.GET.get("kind", "")
    kind = kind if kind in (*promoted.KINDS, CATALOG) else "entities"
    context: dict[str, Any] = {"q": q, "kind": kind}
    if q:
        context |= _search(q)
    else:
        counts = promoted.counts()
        whole = CatalogEntity.objects.filter(removed=False)
        context["kinds"] = [
            *((name, title, counts[name]) for name, title in promoted.KINDS.items()),
            (CATALOG, gettext("Whole catalog"), whole.count()),
        ]
        context |= _page_of(whole, request) if kind == CATALOG else {"rows": promoted.newest(caller, kind)}
    is_fragment = request.htmx and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    return render(request, "knowledge/_rows.html" if is_fragment else "knowledge/list.html", context)


def _page_of(whole: QuerySet[CatalogEntity], request: HttpRequest) -> dict[str, Any]:
    text = request.GET.get("from", "")
    start = int(text) if text.isdecimal() and len(text) < 7 else 0
    found = list(whole.defer("search", "columns").order_by("qualified_name", "name", "urn")[start : start + SHOWN + 1])
    return {
        "rows": found[:SHOWN],
        "previous": max(start - SHOWN, 0) if start else None,
        "next": start + SHOWN if len(found) > SHOWN else None,
    }


def _search(q: str) -> dict[str, Any]:
    try:
        catalog = get_readable_catalog()
        found = search(catalog, q, limit=MAX_FOUND)
        return {"matches": found.entities, "note": copy_note(catalog) or found.note}
    except (CatalogUnavailable, CatalogRefused) as error:
        return {"matches": [], "note": error.message}
