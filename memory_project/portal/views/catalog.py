"""Knowledge pages: the changes that insights made in the catalog, and the page of one entity."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable, entity_type
from knowledge.catalog.search import search
from knowledge.changesets import promoted
from knowledge.context import memory_context, timeline
from knowledge.context.call_subject import Subject
from knowledge.graph import catalog_links
from knowledge.insights import queries
from knowledge.review import evidence
from memories.contract.fields import UNSTORABLE, Urn
from memories.contract.operations import validate
from memories.contract.paging import page
from memories.identity.permissions import caller_from_request
from memories.retrieval import impressions

MAX_FOUND = 30  # maximum number of search results
MAX_ATTACHED = 5  # maximum number of memories shown that a tool response about the entity would include


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


@require_safe
@login_required
def entity(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    urn = validate(Urn, request.GET.get("urn", ""), "urn")
    facts, note = {}, ""
    try:
        catalog = get_readable_catalog()
        facts = evidence.entity_evidence(catalog, urn)
        note = copy_note(catalog)
    except (CatalogUnavailable, CatalogRefused) as error:
        note = error.message
    memories, pending = promoted.about(caller, urn)
    current_page = page(memories, request.GET.get("after", ""))
    lineage = [urn, *facts.get("upstream", []), *facts.get("downstream", [])]
    stories = timeline.of_columns(caller, urn)
    attachable = memory_context.memories_for_entities(caller, Subject([urn]), limit=MAX_ATTACHED)
    context = {
        "urn": urn,
        "kind": entity_type(urn),
        "entity": facts,
        "columns": [(column, stories.get(column["column"])) for column in facts.get("columns", [])],
        "note": note,
        "page": current_page,
        "told": [*attachable.entries, *attachable.neighbors][:MAX_ATTACHED],
        "nodes": catalog_links.graph_entities_for(caller, urn),
        "shown": impressions.impression_counts([record.pk for record in current_page.rows]),
        "waiting": pending.order_by("record__created_at")[:10],
        "events": timeline.entity_timeline(caller, urn),
        "counts": timeline.memory_counts(caller, lineage),
        "may_curate": queries.may_curate(caller),
    }
    return render(request, "knowledge/entity.html", context)
