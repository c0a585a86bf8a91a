"""Saved views: named sets of filters for a list. The navigation shows them below the section of the list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import Conflict, DomainError, Invalid
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.insights import queries as curation
from knowledge.review.queue import Queue
from memories.retrieval.filters import visible_rows
from memory_project.accounts import saved_views
from memory_project.models import SavedView
from memory_project.portal.memory_list import Browse
from memory_project.portal.pages import default_views
from memory_project.portal.redirects import local_page
from memory_project.web.error_labels import message_with_label


def _memories(caller: Caller, params: dict[str, str]) -> QuerySet[Any]:
    # The search text of a saved view is ignored. Otherwise every page would run the search to count its hits.
    return visible_rows(caller, Browse.of(caller, params).filters)


def _insights(caller: Caller, params: dict[str, str]) -> QuerySet[Any]:
    return Queue.of(caller, params).rows if curation.may_curate(caller) else Queue.of(caller, params).rows.none()


# Pages whose saved views the navigation shows with their number of rows → a function that returns these rows.
PAGES: dict[str, Callable[[Caller, dict[str, str]], QuerySet[Any]]] = {
    "my-knowledge": _memories,
    "review-list": _insights,
}


def rows_of(caller: Caller, view: SavedView) -> QuerySet[Any]:
    return PAGES[view.page](caller, dict(parse_qsl(view.query)))


def address_of(view: SavedView) -> str:
    return f"{reverse(view.page)}?{view.query}"


@require_POST
@login_required
def save_view(request: HttpRequest) -> HttpResponse:
    back = local_page(request.POST.get("back_to", "")) or reverse("my-knowledge")
    try:
        name = request.POST.get("name", "")
        page = request.POST.get("page", "")
        view = saved_views.save(
            caller_from_request(request, channel="portal"), name=name, page=page, query=back.partition("?")[2]
        )
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(
            request,
            gettext("Saved. “%(name)s” is now in the navigation, below the list’s section.") % {"name": view.name},
        )
    return HttpResponseRedirect(back)


@require_POST
@login_required
def remove_view(request: HttpRequest, view_id: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    if saved_views.remove(caller, view_id=view_id):
        messages.success(request, gettext("Saved view deleted. Its items are not affected."))
    return HttpResponseRedirect(local_page(request.POST.get("back_to", "")) or reverse("my-knowledge"))


@require_safe
@login_required
def view_list(request: HttpRequest) -> HttpResponse:
    """Show the caller's views, to rename and delete them, and to choose the one that My Knowledge opens with."""
    default = default_views.default_view(caller_from_request(request, channel="portal"), "my-knowledge")
    return render(request, "portal/saved_views.html", {"default": default})


@require_POST
@login_required
def rename_view(request: HttpRequest, view_id: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    try:
        view = saved_views.rename(caller, view_id=view_id, name=request.POST.get("name", ""))
    except (Invalid, Conflict) as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Renamed to “%(name)s”.") % {"name": view.name})
    return redirect("saved-views")


@require_POST
@login_required
def set_default_view(request: HttpRequest, view_id: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    is_default = request.POST.get("is_default") == "1"
    view = default_views.set_default(caller, view_id=view_id, is_default=is_default)
    if is_default:
        messages.success(request, gettext("My Knowledge now opens with “%(name)s”.") % {"name": view.name})
    else:
        messages.success(request, gettext("My Knowledge now opens without filters."))
    return redirect("saved-views")
