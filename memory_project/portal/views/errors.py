"""Django's error handlers (400, 403, 404, 500, CSRF, lockout). API clients get JSON, and browsers get a page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, ngettext

from memory_project.web.middleware import error_response
from memory_project.web.refusals import is_for_programs


def bad_request(request: HttpRequest, exception: Any = None) -> HttpResponse:
    return error_response(
        request, gettext("The server could not understand the request."), "invalid", 400, gettext("Bad request")
    )


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    return error_response(
        request, gettext("You don’t have access to this page."), "forbidden", 403, gettext("No access")
    )


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if is_for_programs(request.path):
        return error_response(request, "there is no such address", "not_found", 404)
    return render(request, "404.html", status=404)


def failed(request: HttpRequest) -> HttpResponse:
    return error_response(
        request, gettext("The details are in the server’s log. Going back and trying again may help."), "internal", 500
    )


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    message = gettext(
        "This page was open for too long and has expired, or your browser blocks cookies. "
        "Go back, reload the page and try again. Nothing was changed."
    )
    return error_response(request, message, "forbidden", 403, gettext("The form has expired"))


def locked_out(request: HttpRequest, credentials: Any = None, *args: Any, **kwargs: Any) -> HttpResponse:
    minutes = round(settings.AXES_COOLOFF_TIME.total_seconds() / 60)
    message = ngettext(
        "Too many wrong passwords. Try again in %(count)s minute, or ask an admin for a new password link.",
        "Too many wrong passwords. Try again in %(count)s minutes, or ask an admin for a new password link.",
        minutes,
    ) % {"count": minutes}
    return error_response(request, message, "limit", 429, gettext("Sign-in is paused"))
