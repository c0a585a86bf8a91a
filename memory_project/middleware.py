from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme

from memories.errors import DomainError

# We show texts that agents wrote: nothing inline runs, and nothing is fetched from or sent to elsewhere.
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)

GetResponse = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: GetResponse) -> GetResponse:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return middleware


class domain_errors:
    """A refusal by a service becomes a page that says why, or a message beside the form it came from."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, DomainError):
            return None
        page = request.POST.get("next", "") if request.method == "POST" and exception.status != 404 else ""
        if url_has_allowed_host_and_scheme(page, allowed_hosts=None):
            messages.error(request, exception.message)
            return HttpResponseRedirect(page)
        response = TemplateResponse(request, "error.html", {"error": exception}, status=exception.status)
        return response.render()
