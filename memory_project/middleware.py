from __future__ import annotations

import time
from collections.abc import Callable

from django.contrib import messages
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme

from memories.access import caller_of
from memories.errors import DomainError, Invalid
from memory_project.mcp import audit
from memory_project.models import AuditEvent

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
        response.headers.setdefault("Cache-Control", "no-store")  # pages are a person's own, and a fragment is no page
        return response

    return middleware


def audited(get_response: GetResponse) -> GetResponse:
    """Every change that a person makes in the browser is an event of the audit, as every call of a tool is."""

    def middleware(request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = get_response(request)
        found = request.resolver_match
        user = getattr(request, "user", None)
        if request.method == "POST" and found and user is not None and user.is_authenticated and not _is_api(request):
            door = "admin" if found.app_name == "admin" else "portal"
            parts = [door, found.url_name or "page", str(found.kwargs.get("act", ""))]
            audit.record(
                caller=caller_of(request, door=door) if user.is_active else None,
                tool=".".join(part for part in parts if part),
                outcome=AuditEvent.Outcome.OK if response.status_code < 400 else AuditEvent.Outcome.REFUSED,
                duration_ms=(time.perf_counter() - started) * 1000,
                arguments={name: str(value) for name, value in found.kwargs.items() if name != "token"},
                answer={"id": str(found.kwargs.get("record_id") or found.kwargs.get("insight_id") or "")},
                request_chars=int(request.headers.get("Content-Length") or 0),
                response_chars=len(response.content) if not response.streaming else 0,
            )
        return response

    return middleware


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


class domain_errors:
    """A refusal by a service becomes a page that says why, or a message beside the form it came from."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, DataError | UnicodeError):  # NUL, half a surrogate pair, an odd charset
            exception = Invalid("the request holds characters that can't be stored")
        if not isinstance(exception, DomainError):
            return None
        page = request.POST.get("next", "") if request.method == "POST" and exception.status != 404 else ""
        if url_has_allowed_host_and_scheme(page, allowed_hosts=None):
            messages.error(request, exception.message)
            return HttpResponseRedirect(page)
        response = TemplateResponse(request, "error.html", {"error": exception}, status=exception.status)
        return response.render()
