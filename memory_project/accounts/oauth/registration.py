"""Registration of OAuth clients: by themselves (RFC 7591), or by the document at their client_id."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
from django.http import HttpRequest, HttpResponse, JsonResponse
from oauth2_provider import cimd
from oauth2_provider.settings import oauth2_settings
from oauth2_provider.views import DynamicClientRegistrationManagementView, DynamicClientRegistrationView

from foundation.operations.errors import TooManyRequests
from foundation.outbound import bounded_http
from foundation.outbound.public_http import PublicTransport
from memory_project.accounts.oauth.redirects import ALLOWED, is_safe
from memory_project.accounts.oauth.validator import granted_scopes
from memory_project.web import rate_limits
from memory_project.web.client_address import sender_of

MAX_REDIRECTS, MAX_CHARS = 10, 2_000  # redirect addresses of a client, and characters of each
MAX_NAME = 120
GRANTS = ({"authorization_code"}, {"authorization_code", "refresh_token"})
MAX_DOCUMENT_BYTES = 16_384
FETCH_S = 5.0


def problem(data: Any) -> tuple[str, str] | None:
    """Return the RFC 7591 error code and description of the first problem in a client's metadata."""
    if not isinstance(data, dict):
        return None  # django-oauth-toolkit refuses it
    name = data.get("client_name", "")
    redirects = data.get("redirect_uris")
    grants = data.get("grant_types", ["authorization_code"])
    if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
        return "invalid_client_metadata", f"client_name must be printable text of at most {MAX_NAME} characters"
    if not isinstance(grants, list) or not all(isinstance(one, str) for one in grants) or set(grants) not in GRANTS:
        return "invalid_client_metadata", "grant_types must be authorization_code, with or without refresh_token"
    if not isinstance(redirects, list) or not 1 <= len(redirects) <= MAX_REDIRECTS:
        return "invalid_redirect_uri", f"redirect_uris must contain 1 to {MAX_REDIRECTS} addresses"
    for address in redirects:
        if not isinstance(address, str) or len(address) > MAX_CHARS or address.split() != [address]:
            return "invalid_redirect_uri", "a redirect_uri is not an address"
        if not is_safe(address):
            return "invalid_redirect_uri", f"{address[:200]} is not allowed. Allowed: {ALLOWED}"
    return None


def refuse_metadata(request: HttpRequest) -> HttpResponse | None:
    try:
        found = problem(json.loads(request.body))
    except (ValueError, RecursionError):
        found = "invalid_client_metadata", "the body must be a JSON object"
    if found:
        return JsonResponse({"error": found[0], "error_description": found[1]}, status=400)
    return None


def with_scope(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Add the registered scopes to the metadata in a response (RFC 7591, 3.2.1). Unknown ones were left out."""
    if response.status_code not in (200, 201):
        return response
    asked = json.loads(request.body).get("scope")
    scopes = granted_scopes(asked.split()) if isinstance(asked, str) else list(oauth2_settings.SCOPES)
    body = {**json.loads(response.content), "scope": " ".join(scopes)}
    return JsonResponse(body, status=response.status_code)


class Register(DynamicClientRegistrationView):  # type: ignore[misc]  # untyped
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            rate_limits.check_registration(sender_of(request.META.get("REMOTE_ADDR", "")))
        except TooManyRequests as error:
            body = {"error": "temporarily_unavailable", "error_description": error.message}
            return JsonResponse(body, status=429, headers={"Retry-After": str(error.retry_after_s)})
        response: HttpResponse = refuse_metadata(request) or super().post(request, *args, **kwargs)
        return with_scope(request, response)


class ManageRegistration(DynamicClientRegistrationManagementView):  # type: ignore[misc]  # untyped
    def put(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = refuse_metadata(request) or super().put(request, *args, **kwargs)
        return with_scope(request, response)


class LimitFetches:
    """Counts look-ups of client-ID documents like registrations, because each may store a client."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        try:
            rate_limits.check_registration(sender_of(request.headers.get("REMOTE_ADDR", "")))
        except TooManyRequests:
            return False
        return True


class PublicFetcher:
    """Fetches client-ID documents from public hosts only, and follows no redirects."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        cimd._validate_client_id_url(client_id)
        deadline = time.monotonic() + FETCH_S
        headers = {"Accept": "application/json, application/*+json"}
        try:
            with (
                httpx.Client(transport=PublicTransport(), timeout=FETCH_S) as client,
                client.stream("GET", client_id, headers=headers) as response,
            ):
                if response.status_code != 200:
                    raise cimd.CIMDError(f"the document returned HTTP {response.status_code}")
                data = json.loads(bounded_http.read(response, MAX_DOCUMENT_BYTES, deadline))
        except (httpx.HTTPError, bounded_http.AnswerTooLarge, ValueError, RecursionError) as error:
            raise cimd.CIMDError(f"could not fetch the document: {error}") from None
        if not isinstance(data, dict):
            raise cimd.CIMDError("the document is not a JSON object")
        if found := problem(data):
            raise cimd.CIMDError(found[1])
        return data, cimd._effective_max_age(response.headers.get("cache-control"))
