"""Saved views: a list under filters by a name of one's own, in the navigation with its count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from knowledge.insights import queries as curation
from knowledge.review.queue import Queue
from memories.contract.errors import DomainError, Invalid
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.retrieval.scope import in_scope
from memory_project.accounts import saved_views
from memory_project.models import SavedView
from memory_project.portal.error_labels import for_people
from memory_project.portal.memory_list import Browse
from memory_project.portal.views.redirects import local_page


def _memories(caller: Caller, params: dict[str, str]) -> QuerySet[Any]:
    return in_scope(caller, Browse.of(caller, params).filters)


def _insights(caller: Caller, params: dict[str, str]) -> QuerySet[Any]:
    return Queue.of(caller, params).rows if curation.may_curate(caller) else Queue.of(caller, params).rows.none()


# The lists of which views are saved; how their rows are counted.
PAGES: dict[str, Callable[[Caller, dict[str, str]], QuerySet[Any]]] = {
    "my-knowledge": _memories,
    "review-list": _insights,
}
# Lists of the admin whose views are saved without a count.
ADMIN_PAGES = (
    "admin:memories_memoryrecord_changelist",
    "admin:memories_stalememory_changelist",
    "admin:memories_correction_changelist",
    "admin:knowledge_insight_changelist",
    "admin:knowledge_changeset_changelist",
)


def rows_of(caller: Caller, view: SavedView) -> QuerySet[Any]:
    """What a view shows; of one with words to search for, what it searches in."""
    return PAGES[view.page](caller, dict(parse_qsl(view.query)))


def address_of(view: SavedView) -> str:
    return f"{reverse(view.page)}?{view.query}"


@require_POST
@login_required
def save_view(request: HttpRequest) -> HttpResponse:
    back = local_page(request.POST.get("back_to", "")) or reverse("my-knowledge")
    try:
        name, page = request.POST.get("name", ""), request.POST.get("page", "")
        if page not in (*PAGES, *ADMIN_PAGES):
            raise Invalid(f"{page[:40]!r} has no views", field="page", allowed=", ".join((*PAGES, *ADMIN_PAGES)))
        view = saved_views.save(
            caller=caller_from_request(request, channel="portal"), name=name, page=page, query=back.partition("?")[2]
        )
    except DomainError as error:
        messages.error(request, for_people(error))
    else:
        messages.success(request, f"Saved: “{view.name}” is in the navigation.")
    return HttpResponseRedirect(back)


@require_POST
@login_required
def remove_view(request: HttpRequest, view_id: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    if saved_views.remove(caller=caller, view_id=view_id):
        messages.success(request, "The view is removed; what it showed is as it was.")
    return HttpResponseRedirect(local_page(request.POST.get("back_to", "")) or reverse("my-knowledge"))
