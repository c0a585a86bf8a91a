"""Django's error handlers (400, 403, 404, 500, CSRF, lockout). API clients get JSON, and browsers get a page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext, ngettext

from memory_project.web.middleware import error_response
from memory_project.web.refusals import is_for_programs
from memory_project.web.typed_texts import page_of_form, typed_texts


def bad_request(request: HttpRequest, exception: Any = None) -> HttpResponse:
    message = gettext("The server could not understand the request.")
    return error_response(request, message, "invalid", 400, gettext("Bad request"))


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    message = gettext("You don’t have access to this page. Ask an admin, or sign in with another account.")
    return error_response(request, message, "forbidden", 403, gettext("No access"))


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if is_for_programs(request.path):
        return error_response(request, "there is no such address", "not_found", 404)
    return render(request, "404.html", {"texts": typed_texts(request)}, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    message = gettext("The details are in the server’s log. Trying again may help.")
    return error_response(request, message, "internal", 500)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Show the text of the form. It is not offered to be sent again from there: another site may have written it."""
    if is_for_programs(request.path):
        return error_response(request, "the CSRF token is missing or has expired", "forbidden", 403)
    context = {"page": page_of_form(request), "texts": typed_texts(request)}
    return HttpResponse(render_to_string("csrf_failed.html", context), status=403)


def locked_out(request: HttpRequest, credentials: Any = None, *args: Any, **kwargs: Any) -> HttpResponse:
    minutes = round(settings.AXES_COOLOFF_TIME.total_seconds() / 60)
    message = ngettext(
        "Too many wrong passwords. Try again in %(n)d minute, or ask an admin for a new password link.",
        "Too many wrong passwords. Try again in %(n)d minutes, or ask an admin for a new password link.",
        minutes,
    ) % {"n": minutes}
    return error_response(request, message, "limit", 429, gettext("Sign-in is paused"))
