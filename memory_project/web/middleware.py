from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import resolve_url
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme

from memories.contract.errors import Degraded, DomainError, LimitReached, from_database_error
from memories.database import connections
from memories.identity.permissions import caller_from_request
from memory_project import audit
from memory_project.models import AuditEvent
from memory_project.portal.error_labels import for_people
from memory_project.web.fair_queue import RequestGate
from memory_project.web.request_limits import is_for_programs

# We show texts that agents wrote: nothing inline runs, and nothing is fetched from or sent to elsewhere.
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)

ONLY_LOOKS = ("diff-memory", "propose-preview")  # POST, as a text is no part of an address; they change nothing

log = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: GetResponse) -> GetResponse:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Cache-Control", "no-store")  # pages are a person's own, and a fragment is no page
        return response

    return middleware


def in_turn(get_response: GetResponse) -> GetResponse:
    """Bounds what one person's requests take: statements by time, requests by number. Waiting holds no connection."""
    gate = RequestGate()

    def middleware(request: HttpRequest) -> HttpResponse:
        is_program = is_for_programs(request.path)
        connections.limit_statements(settings.STATEMENT_TIMEOUT_S if is_program else settings.PAGE_TIMEOUT_S)
        if request.path == "/healthz":
            return get_response(request)
        try:
            user = request.user
            is_signed_in = user.is_authenticated  # asks the database
        except DatabaseError as error:
            away = from_database_error(error) or Degraded("the database did not answer; try again")
            return fault(request, away.message, away.code, away.status)
        person = getattr(user, "email", "") if is_signed_in else request.headers.get("authorization", "")
        if not person:
            return get_response(request)
        connections.close_if_pooled()
        try:
            with gate.turn(person):
                return get_response(request)
        except LimitReached as refused:
            return fault(request, refused.message, refused.code, 429)

    return middleware


def sign_in_again(get_response: GetResponse) -> GetResponse:
    """A session that ended: a fragment's request leads the whole page to sign-in and back to what was asked, instead of
    showing the sign-in page inside of the results."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        sign_in = resolve_url(settings.LOGIN_URL)
        location = response.headers.get("Location", "")
        if request.htmx and response.status_code == 302 and location.split("?")[0] == sign_in:  # type: ignore[attr-defined]
            url = request.headers.get("HX-Current-URL", "")
            page = request.get_full_path() if request.method == "GET" else local_path(url) or "/"
            away = HttpResponse(status=204)
            away["HX-Redirect"] = f"{sign_in}?{urlencode({'next': page})}"
            return away
        if request.method == "POST" and response.status_code == 302 and location.split("?")[0] == sign_in:
            url = request.headers.get("Referer", "")  # an address that takes a POST alone is no page to come back to
            if url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()}):
                return HttpResponseRedirect(f"{sign_in}?{urlencode({'next': local_path(url)})}")
        return response

    return middleware


def local_path(address: str) -> str:
    """Path and query of an address on this site."""
    _, _, rest = address.partition("://")
    _, slash, path = rest.partition("/")
    return slash + path


def audited(get_response: GetResponse) -> GetResponse:
    """Every change in the browser, every download and every call of the REST API is an event of the audit, as every
    call of a tool is."""

    def middleware(request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = get_response(request)
        match = request.resolver_match
        user = getattr(request, "user", None)
        is_signed_in = user is not None and user.is_authenticated
        is_api = request.path.startswith("/api/")
        is_download = response.headers.get("Content-Disposition", "").startswith("attachment")
        is_change = request.method == "POST" and (match is None or match.url_name not in ONLY_LOOKS)
        if match and (is_api or (is_signed_in and (is_change or is_download))):
            try:
                _record(request, response, (time.perf_counter() - started) * 1000)
            except DatabaseError:
                log.exception("%s could not be written to the audit", request.path)
        return response

    return middleware


def _record(request: HttpRequest, response: HttpResponse, duration_ms: float) -> None:
    match, is_api = request.resolver_match, request.path.startswith("/api/")
    assert match is not None  # there was an answer
    channel = "rest" if is_api else "admin" if match.app_name == "admin" else "portal"
    verb = (request.method or "").lower() if is_api else str(match.kwargs.get("act", ""))
    answer = getattr(response, "data", None) if is_api else None
    record_id = str(match.kwargs.get("record_id") or match.kwargs.get("insight_id") or "")
    user = getattr(request, "user", None)  # None for a REST request without a good token
    is_signed_in = user is not None and user.is_authenticated and user.is_active
    is_fault = isinstance(answer, Mapping) and response.status_code >= 400
    audit.record(
        caller=caller_from_request(request, channel=channel) if is_signed_in else None,
        tool=".".join(part for part in (channel, match.url_name or "page", verb) if part),
        outcome=_outcome(response.status_code, is_api),
        code=str(answer.get("code", "")) if is_fault and answer else "",
        duration_ms=duration_ms,
        arguments=_arguments(request, response, match.kwargs),
        answer=_ids(answer) or {"id": record_id},
        request_chars=int(request.headers.get("Content-Length") or 0),
        response_chars=len(response.content) if not response.streaming else 0,
        channel=channel,
        only_read=request.method in ("GET", "HEAD", "OPTIONS"),
    )


def _outcome(status: int, is_api: bool) -> str:
    if status < 400:
        return AuditEvent.Outcome.OK
    return AuditEvent.Outcome.ERROR if is_api and status not in (401, 403) else AuditEvent.Outcome.REFUSED


def _arguments(request: HttpRequest, response: HttpResponse, address: Mapping[str, Any]) -> dict[str, Any]:
    """The address's parts, and of the REST API what was asked, once more redacted by the audit."""
    arguments: dict[str, Any] = {name: str(value) for name, value in address.items() if name != "token"}
    rest = getattr(response, "renderer_context", {}).get("request")
    if rest is not None:
        arguments |= request.GET.dict()
        body = getattr(rest, "_full_data", None)  # as DRF has read it; not read again
        if isinstance(body, Mapping):
            arguments |= dict(body)
    return arguments


def _ids(answer: Any) -> dict[str, Any]:
    """The memories that a REST answer names, so that erasing one finds the event."""
    if not isinstance(answer, Mapping):
        return {}
    inner = [answer.get("memory"), *(answer.get("memories") or []), *(answer.get("records") or [])]
    ids = [memory["id"] for memory in inner if isinstance(memory, Mapping) and "id" in memory]
    return {"ids": ids} if ids else {}


class domain_errors:
    """A refusal by a service becomes a page that says why, or a message beside the form it came from."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        error = exception if isinstance(exception, DomainError) else from_database_error(exception)
        if error is None:
            return None
        page = request.POST.get("next", "") if request.method == "POST" and error.status not in (404, 503) else ""
        if url_has_allowed_host_and_scheme(page, allowed_hosts=None):
            messages.error(request, for_people(error))
            return HttpResponseRedirect(page)
        if error.status == 503 or is_for_programs(request.path):  # a page of the frame would ask the database again
            return fault(request, error.message, error.code, error.status)
        response = TemplateResponse(
            request, "error.html", {"error": error, "says": for_people(error)}, status=error.status
        )
        return response.render()


def fault(request: HttpRequest, message: str, code: str, status: int, title: str = "") -> HttpResponse:
    """A refusal that needs nothing else to work: JSON for programs, a page without navigation for people."""
    if is_for_programs(request.path):
        return JsonResponse({"error": message, "code": code}, status=status)
    context = {"title": title or TITLES.get(status, "That is not possible"), "message": message}
    return HttpResponse(
        render_to_string("fault.html", context), status=status
    )  # without the frame, which asks for more


TITLES = {429: "Too much at once", 500: "Something went wrong here", 503: "Not available right now"}
