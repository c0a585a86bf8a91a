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
from django.utils.translation import gettext

from foundation.database import identity, transaction_settings
from foundation.operations.errors import Degraded, DomainError, Forbidden, TooManyRequests, from_database_error
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memory_project import audit
from memory_project.models import AuditEvent
from memory_project.operating.observability import calls, request_context, tracing
from memory_project.operating.observability.calls import OTHER
from memory_project.web.error_labels import message_with_label
from memory_project.web.problems import MEDIA_TYPE, problem
from memory_project.web.refusals import TITLES, is_for_programs
from memory_project.web.typed_texts import page_of_form, typed_texts

PAGE_TIMEOUT_S = 10.0  # seconds for which a statement of a page may run

# Pages show texts that agents wrote. The policy forbids inline scripts, and pages may load
# content only from this host and send forms only to it.
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)

# Names of URLs that only read, but take POST requests, because the texts sent to them do not belong in a URL. They are
# not audited.
READ_ONLY_POSTS = ("diff-memory", "propose-preview")
AUDITED_ELSEWHERE = ("sign-in",)  # by a receiver, which also notes those that fail

log = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: GetResponse) -> GetResponse:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        # pages are personal, and htmx fragments must not be shown as pages by the back button
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return middleware


def own_identity(get_response: GetResponse) -> GetResponse:
    """Give the request a database identity of its own: that of the signed-in user, or of a token that a view checks."""

    def middleware(request: HttpRequest) -> HttpResponse:
        with identity.anonymous():
            try:
                if request.path != "/healthz" and request.user.is_authenticated:
                    caller_from_request(request, channel="portal")
            except DomainError as error:  # the account has just been deactivated
                return error_response(request, error.message, error.code, error.status)
            except DatabaseError as error:
                unavailable = from_database_error(error) or Degraded(gettext("the database did not answer; try again"))
                return error_response(request, unavailable.message, unavailable.code, unavailable.status)
            return get_response(request)

    return middleware


def limit_statements(get_response: GetResponse) -> GetResponse:
    """Limit the time of each SQL statement."""

    def middleware(request: HttpRequest) -> HttpResponse:
        is_program = is_for_programs(request.path)
        transaction_settings.limit_statements(settings.STATEMENT_TIMEOUT_S if is_program else PAGE_TIMEOUT_S)
        return get_response(request)

    return middleware


def sign_in_again(get_response: GetResponse) -> GetResponse:
    """Adapt the redirect to the sign-in page, for requests made after the session has ended.

    After an htmx request, the browser is told to open the sign-in page as a whole page, because htmx would show it
    inside the requested fragment. After a form was submitted, signing in leads back to the page with the form, because
    the URL that the form was sent to accepts only POST.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        sign_in = resolve_url(settings.LOGIN_URL)
        location = response.headers.get("Location", "")
        if request.htmx and response.status_code == 302 and location.split("?")[0] == sign_in:  # type: ignore[attr-defined]
            url = request.headers.get("HX-Current-URL", "")
            page = request.get_full_path() if request.method == "GET" else local_path(url) or "/"
            redirect = HttpResponse(status=204)
            redirect["HX-Redirect"] = f"{sign_in}?{urlencode({'next': page})}"
            return redirect
        if request.method == "POST" and response.status_code == 302 and location.split("?")[0] == sign_in:
            url = request.headers.get("Referer", "")
            if url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()}):
                return HttpResponseRedirect(f"{sign_in}?{urlencode({'next': local_path(url)})}")
        return response

    return middleware


def local_path(url: str) -> str:
    """Return path and query of a URL of this site."""
    _, _, rest = url.partition("://")
    _, slash, path = rest.partition("/")
    return slash + path


def audited(get_response: GetResponse) -> GetResponse:
    """Record each change and download of a signed-in user, and each REST request, in the audit log."""

    def middleware(request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = get_response(request)
        match = request.resolver_match
        user = getattr(request, "user", None)
        is_signed_in = user is not None and user.is_authenticated
        is_api = request.path.startswith("/api/")
        is_download = response.headers.get("Content-Disposition", "").startswith("attachment")
        name = match.url_name if match else None
        is_change = request.method == "POST" and name not in (*READ_ONLY_POSTS, *AUDITED_ELSEWHERE)
        if match and (is_api or (is_signed_in and (is_change or is_download))):
            try:
                _record(request, response, (time.perf_counter() - started) * 1000)
            except DatabaseError:
                log.exception("could not write %s to the audit log", request.path)
        _observe(request, response, time.perf_counter() - started)
        return response

    return middleware


def _observe(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """Count the request, and name its span, by the name and the pattern of its URL."""
    match = request.resolver_match
    method = request.method or ""
    answer = getattr(response, "data", None)
    code = str(answer.get("code", "")) if isinstance(answer, Mapping) else ""
    page = (match.url_name or OTHER) if match else ""
    calls.page_requested(_channel(request), page, method, response.status_code, code, seconds)
    if match:
        tracing.name_route(method, match.route)


def _channel(request: HttpRequest) -> str:
    match = request.resolver_match
    if request.path.startswith("/api/"):
        return "hook" if match and (match.url_name or "").startswith("api-hooks-") else "rest"
    return "admin" if match and match.app_name == "admin" else "portal"


def _record(request: HttpRequest, response: HttpResponse, duration_ms: float) -> None:
    match = request.resolver_match
    is_api = request.path.startswith("/api/")
    assert match is not None  # the calling function has checked it
    channel = _channel(request)
    verb = (request.method or "").lower() if is_api else str(match.kwargs.get("act", ""))
    answer = getattr(response, "data", None) if is_api else None
    record_id = str(match.kwargs.get("record_id") or match.kwargs.get("insight_id") or "")
    user = getattr(request, "user", None)  # None for a REST request without a valid token
    if getattr(response, "unsigned", False):  # as of the call that wiped the caller's data
        user = None
        answer = None
    is_signed_in = user is not None and user.is_authenticated and user.is_active
    brought = answer.get("memory_ids") if isinstance(answer, Mapping) and channel == "hook" else None
    is_error = isinstance(answer, Mapping) and response.status_code >= 400
    audit.record(
        _caller(request, channel) if is_signed_in else None,
        tool=".".join(part for part in (channel, match.url_name or "page", verb) if part),
        outcome=_outcome(response.status_code, is_api),
        code=str(answer.get("code", "")) if is_error and answer else "",
        duration_ms=duration_ms,
        arguments={} if getattr(response, "unsigned", False) else _arguments(request, response, match.kwargs),
        answer=_ids(answer) or {"id": record_id},
        request_chars=int(request.headers.get("Content-Length") or 0),
        response_chars=len(response.content) if not response.streaming else 0,
        channel=channel,
        context_count=len(brought) if isinstance(brought, list) else 0,
        only_read=request.method in ("GET", "HEAD", "OPTIONS"),
    )


def _caller(request: HttpRequest, channel: str) -> Caller:
    """Return who has sent the request. A person who has lost the persona of their token is recorded all the same."""
    try:
        return caller_from_request(request, channel=channel)
    except Forbidden:
        return Caller(email=request.user.get_username(), persona="", personas=frozenset(), channel=channel)


def _outcome(status: int, is_api: bool) -> str:
    if status < 400:
        return AuditEvent.Outcome.OK
    return AuditEvent.Outcome.ERROR if is_api and status not in (401, 403) else AuditEvent.Outcome.REFUSED


def _arguments(request: HttpRequest, response: HttpResponse, url_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in the URL and, for REST requests, query string and body. The audit log redacts them."""
    arguments: dict[str, Any] = {name: str(value) for name, value in url_arguments.items() if name != "token"}
    rest = getattr(response, "renderer_context", {}).get("request")
    if rest is not None:
        arguments |= request.GET.dict()
        body = getattr(rest, "_full_data", None)  # the body as DRF has parsed it; the request can't be read twice
        if isinstance(body, Mapping):
            arguments |= dict(body)
    return arguments


def _ids(answer: Any) -> dict[str, Any]:
    """Return the ids of the memories that a REST request has written or read by id.

    Erasing a memory uses them to find its audit events. The memories of a search or list are left out.
    """
    memory = answer.get("memory") if isinstance(answer, Mapping) else None
    return {"id": memory["id"]} if isinstance(memory, Mapping) and "id" in memory else {}


class domain_errors:
    """Middleware that responds to a DomainError with an error page, or with JSON for API clients.

    If a form names a page in its field `next`, this page is shown with an error message instead.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        error = exception if isinstance(exception, DomainError) else from_database_error(exception)
        if error is None:
            return None
        page = request.POST.get("next", "") if request.method == "POST" and error.status not in (404, 429, 503) else ""
        if url_has_allowed_host_and_scheme(page, allowed_hosts=None):
            messages.error(request, message_with_label(error))
            return HttpResponseRedirect(page)
        if error.status in (429, 503) or is_for_programs(request.path):  # error.html queries the database
            refusal = error_response(request, error.message, error.code, error.status)
            if isinstance(error, TooManyRequests):
                refusal["Retry-After"] = str(error.retry_after_s)
            return refusal
        if error.status == 404 and request.method != "POST":  # its message must not tell whether something exists
            response = TemplateResponse(request, "404.html", status=404)
            return response.render()
        context = {"error": error, "message": message_with_label(error)}
        context |= {"texts": typed_texts(request), "page": page_of_form(request)}
        response = TemplateResponse(request, "error.html", context, status=error.status)
        return response.render()


def error_response(request: HttpRequest, message: str, code: str, status: int, title: str = "") -> HttpResponse:
    """Return JSON for API clients, or a page without navigation, which is rendered without the database."""
    if request.path.startswith("/api/"):
        return JsonResponse(problem(status, message, code), status=status, content_type=MEDIA_TYPE)
    if is_for_programs(request.path):
        return JsonResponse({"error": message, "code": code}, status=status)
    context: dict[str, Any] = {
        "title": title or TITLES.get(status, gettext("This is not possible")),
        "message": message,
    }
    context |= {"texts": typed_texts(request), "page": page_of_form(request) if request.method == "POST" else ""}
    if status >= 500:  # an operator finds the log lines of this request by it
        context["reference"] = request_context.reference()
    return HttpResponse(render_to_string("fault.html", context), status=status)
