"""Page of a catalog entity: about, columns, memories, lineage and history, each on a tab of its own.

A tab runs only its own queries. Its link works without scripts; htmx replaces only the tab.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from foundation.operations.fields import UNSTORABLE, Urn
from foundation.operations.operation import validate
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.catalog import entity_view
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.entity_view import CatalogColumn, EntityView
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable, entity_type
from knowledge.changesets import promoted
from knowledge.context.attachable import attachable
from knowledge.graph import catalog_links
from knowledge.insights import queries as curation
from knowledge.news import timeline
from knowledge.review import evidence
from memories import queries
from memories.use import attachments
from memory_project.portal.views import caveats

COLUMNS_SHOWN = 50  # columns on one page
MIN_SEARCHED = 12  # minimum number of columns that get a search field
MAX_NEIGHBORS = 100  # maximum number of entities listed in each direction of the lineage
MAX_PROPOSED = 10
MAX_EVENTS = 500  # maximum number of events in the history


@dataclass(frozen=True)
class PageSubject:
    """The entity of the page, as the catalog describes it. `view` is None if the catalog can't be read."""

    caller: Caller
    urn: str
    params: QueryDict
    catalog: Catalog | None
    view: EntityView | None
    note: str

    @classmethod
    def read(cls, caller: Caller, urn: str, params: QueryDict) -> PageSubject:
        try:
            catalog = get_readable_catalog()
            view = entity_view.load_entity(catalog, urn)
            return cls(caller, urn, params, catalog, view, copy_note(catalog))
        except (CatalogUnavailable, CatalogRefused) as error:
            return cls(caller, urn, params, None, None, error.message)

    @cached_property
    def memories(self) -> Any:
        return promoted.about(self.caller, self.urn)[0]

    def number(self, name: str, default: int, most: int) -> int:
        text = self.params.get(name, "")
        return min(int(text), most) if text.isdecimal() and len(text) < 10 else default

    def names(self, **urns: Any) -> dict[str, str]:
        """Return display names by URN. Names that the catalog doesn't have, or can't give now, are missing."""
        if self.catalog is None:
            return {}
        try:
            return evidence.names_behind(self.catalog, {"columns": [], **urns})
        except (CatalogUnavailable, CatalogRefused):
            return {}


def about(subject: PageSubject) -> dict[str, Any]:
    view = subject.view
    _, waiting = promoted.about(subject.caller, subject.urn)
    proposed = list(waiting.order_by("record__created_at")[: MAX_PROPOSED + 1])
    names = subject.names(
        glossary_terms=view.terms, domains=view.domains, owners=view.owners, tags=view.tags,
        structured_properties=view.properties,
    ) if view else {}  # fmt: skip
    return {
        "names": names,
        "proposed": proposed[:MAX_PROPOSED],
        "proposed_most": MAX_PROPOSED if len(proposed) > MAX_PROPOSED else None,
        "nodes": catalog_links.graph_entities_for(subject.caller, subject.urn),
        "may_curate": curation.may_curate(subject.caller),
    }


def columns(subject: PageSubject) -> dict[str, Any]:
    q = UNSTORABLE.sub("", subject.params.get("column", "")).strip()[:200]
    rows = [column for column in subject.view.columns if _has_words(column, q)] if subject.view else []
    start = subject.number("from", 0, len(rows))
    start = start if start < len(rows) else 0
    shown = rows[start : start + COLUMNS_SHOWN]
    stories = timeline.of_columns(subject.caller, subject.urn)
    return {
        "column_query": q,
        "total": len(rows),
        "is_searched": bool(q) or bool(subject.view and len(subject.view.columns) >= MIN_SEARCHED),
        "rows": [(column, stories.get(column.simple_path)) for column in shown],
        "first": start + 1,
        "last": start + len(shown),
        "previous": max(start - COLUMNS_SHOWN, 0) if start else None,
        "next": start + COLUMNS_SHOWN if start + COLUMNS_SHOWN < len(rows) else None,
        "names": subject.names(columns=[{"tags": column.tags, "terms": column.terms} for column in shown]),
    }


def _has_words(column: CatalogColumn, q: str) -> bool:
    text = f"{column.simple_path} {column.native_type} {column.description}".casefold()
    return all(word in text for word in q.casefold().split())


def memories(subject: PageSubject) -> dict[str, Any]:
    current = page(subject.memories, subject.params.get("after", ""))
    pks = [record.pk for record in current.rows]
    allowed = attachable(subject.caller, [subject.urn])
    return {
        "page": current,
        "attachable": set(allowed.filter(pk__in=pks).values_list("pk", flat=True)),
        "shown": attachments.impression_counts(pks),
        "caveats": caveats.upstream_caveats(subject.caller, subject.urn),
        "waivers": caveats.waivers(subject.caller, subject.urn),
    }


def lineage(subject: PageSubject) -> dict[str, Any]:
    found: dict[str, list[str]] = {"upstream": [], "downstream": []}
    note = ""
    try:
        if subject.catalog:
            for direction in found:
                nodes = subject.catalog.lineage(subject.urn, direction=direction, hops=1, limit=MAX_NEIGHBORS + 1)
                found[direction] = [node.urn for node in nodes]
    except (CatalogUnavailable, CatalogRefused) as error:
        note = error.message
    is_cut = any(len(urns) > MAX_NEIGHBORS for urns in found.values())
    sides = {direction: urns[:MAX_NEIGHBORS] for direction, urns in found.items()}
    counts = timeline.memory_counts(subject.caller, [subject.urn, *sides["upstream"], *sides["downstream"]])
    return {**sides, "counts": counts, "is_cut": is_cut, "max_neighbors": MAX_NEIGHBORS, "lineage_note": note}


def history(subject: PageSubject) -> dict[str, Any]:
    kind = subject.params.get("kind", "")
    kind = kind if kind in timeline.KINDS else ""
    limit = max(subject.number("events", timeline.EVENTS, MAX_EVENTS), 1)
    events = timeline.entity_timeline(subject.caller, subject.urn, limit + 1, kind=kind)
    more = min(limit + 2 * timeline.EVENTS, MAX_EVENTS) if len(events) > limit else 0
    return {
        "events": events[:limit],
        "kind": kind,
        "kinds": KINDS,
        "more": more if more > limit else 0,
        "is_cut": len(events) > limit == MAX_EVENTS,
        "max_events": MAX_EVENTS,
    }


KINDS: dict[str, Promise] = {
    "": gettext_lazy("Everything"),
    "catalog": gettext_lazy("Catalog changes"),
    "changesets": gettext_lazy("Changesets"),
    "corrections": gettext_lazy("Corrections"),
    "claims": gettext_lazy("New memories"),
}
# Name of the tab in the address → its title, and a function that returns what its template needs.
TABS: dict[str, tuple[Promise, Callable[[PageSubject], dict[str, Any]]]] = {
    "about": (gettext_lazy("About"), about),
    "columns": (gettext_lazy("Columns"), columns),
    "memories": (gettext_lazy("Memories"), memories),
    "lineage": (gettext_lazy("Lineage"), lineage),
    "history": (gettext_lazy("History"), history),
}


@require_safe
@login_required
def entity(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    urn = validate(Urn, request.GET.get("urn", ""), "urn")
    subject = PageSubject.read(caller, urn, request.GET)
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else "about"
    counts: dict[str, int | None] = queries.capped_counts(memories=subject.memories)  # type: ignore[assignment]
    counts["columns"] = len(subject.view.columns) if subject.view else None
    context = {
        "urn": urn,
        "entity_kind": entity_type(urn),
        "entity": subject.view,
        "note": subject.note,
        "tab": tab,
        "tabs": [(name, title, counts.get(name)) for name, (title, _) in TABS.items()],
        "tab_template": f"knowledge/entity/_{tab}.html",
        **TABS[tab][1](subject),
    }
    is_fragment = request.htmx and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    return render(request, "knowledge/entity/_tab.html" if is_fragment else "knowledge/entity.html", context)
