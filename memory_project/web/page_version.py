"""The version of the pages, which fragments carry, so that a page that stayed open during an upgrade notices it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.contrib.staticfiles.storage import staticfiles_storage
from django.http import HttpRequest, HttpResponse

from memory_project import __version__

HEADER = "X-Page-Version"


@cache
def page_version() -> str:
    """Return the version of the package and the digest of its static files, if they were collected."""
    return f"{__version__}-{getattr(staticfiles_storage, 'manifest_hash', '')}"


def tell_version(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that adds the version to fragments."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.headers.get("HX-Request"):
            response[HEADER] = page_version()
        return response

    return middleware
