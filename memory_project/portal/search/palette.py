"""Ctrl-K palette: quick search for pages, saved views, actions, memories, catalog entities and people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from knowledge.catalog.name_resolution import entities_like
from knowledge.insights import queries as curation
from memories.contract.errors import DomainError
from memories.contract.fields import UNSTORABLE
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.operations import RecallMemories
from memories.retrieval.recall import recall
from memories.retrieval.scope import Filters
from memory_project.models import SavedView
from memory_project.portal.search import autocomplete
from memory_project.portal.search.saved_views import address_of

MAX_PER_GROUP = 5
# title, name of the route, and group of users who may open the page
PAGES = (
    ("My Knowledge", "my-knowledge", "everyone"),
    ("My Insights", "my-insights", "everyone"),
    ("Knowledge: the data catalog", "knowledge", "everyone"),
    ("Analyses", "analyses", "everyone"),
    ("Stale review", "stale-review", "everyone"),
    ("Notifications", "news", "everyone"),
    ("Activity", "activity", "everyone"),
    ("Connect an agent", "connect", "everyone"),
    ("Account and notification settings", "account", "everyone"),
    ("Bulk actions", "start-batch", "everyone"),
    ("Review", "review", "curators"),
    ("All insights", "review-list", "curators"),
    ("Changesets", "changesets", "curators"),
    ("Corrections", "chains", "curators"),
    ("Dashboard", "admin:index", "staff"),
    ("Indexing", "admin:indexing", "operators"),
    ("Tables", "admin:tables", "staff"),
    ("System: health, sources, webhooks, work, storage", "admin:system", "operators"),
    ("Audit", "admin:audit", "admins"),
    ("People", "admin:people", "admins"),
)
ACTIONS = (
    ("New memory", "create-memory"),
    ("Propose an insight", "propose"),
    ("Import memories from a file", "import-memories"),
    ("Export your memories", "exports"),
)


@dataclass(frozen=True)
class Match:
    label: str
    link: str
    hint: str = ""


@require_safe
@login_required
def search_everything(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    text = UNSTORABLE.sub("", request.GET.get("q", "")).strip()[:200]
    groups = [(title, matches) for title, matches in _groups(caller, request, text) if matches]
    return render(request, "portal/_palette.html", {"groups": groups, "q": text})


def _groups(caller: Caller, request: HttpRequest, text: str) -> Iterator[tuple[str, list[Match]]]:
    yield "Pages", _pages(caller, bool(request.user.is_staff), text)
    views = SavedView.objects.filter(person__email=caller.email, name__icontains=text)[:MAX_PER_GROUP]
    yield "Saved views", [Match(view.name, address_of(view)) for view in views]
    actions = [Match(label, reverse(route)) for label, route in ACTIONS if _is_in(text, label)]
    if text:
        actions.append(Match(f"Remember “{text}”", f"{reverse('create-memory')}?{urlencode({'content': text})}"))
    yield "Actions", actions
    if not text:
        return
    yield "Memories", _memories(caller, text)
    rows = entities_like(text)[:MAX_PER_GROUP]
    entity_page = reverse("entity")
    yield "Catalog", [Match(str(row), f"{entity_page}?{urlencode({'urn': row.urn})}", row.entity_type) for row in rows]
    people = autocomplete.people(caller, text, "")[:MAX_PER_GROUP] if len(text) > 1 else []
    knowledge = reverse("my-knowledge")
    yield "People", [Match(row.label, f"{knowledge}?{urlencode({'by': row.value})}", row.hint) for row in people]


def _pages(caller: Caller, is_staff: bool, text: str) -> list[Match]:
    allowed = {
        "everyone": True, "curators": curation.may_curate(caller), "staff": is_staff,
        "operators": is_staff and caller.is_operator, "admins": is_staff and caller.is_admin,
    }  # fmt: skip
    pages = [Match(title, reverse(route)) for title, route, group in PAGES if allowed[group] and _is_in(text, title)]
    return pages if text else pages[:MAX_PER_GROUP]


def _is_in(text: str, title: str) -> bool:
    return all(word in title.lower() for word in text.lower().split())


def _memories(caller: Caller, text: str) -> list[Match]:
    try:
        operation = RecallMemories.read({"query": text, "limit": MAX_PER_GROUP})
        hits = recall(operation, caller=caller, filters=Filters()).hits
    except DomainError:
        return []  # without memories, the palette still shows its other groups
    return [Match(str(hit.record), reverse("memory", args=[hit.record.pk]), hit.record.created_by) for hit in hits]
