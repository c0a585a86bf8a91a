"""The consent page, and the metadata of /mcp as a protected resource."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from oauth2_provider.exceptions import OAuthToolkitError
from oauth2_provider.models import Application
from oauth2_provider.views import AuthorizationView, OAuthProtectedResourceMetadataView, TokenView
from oauthlib.oauth2.rfc6749.errors import OAuth2Error

from foundation.operations.errors import NotFound
from foundation.people.permissions import caller_from_request
from memory_project import audit
from memory_project.accounts import connected_apps
from memory_project.accounts.oauth.redirects import source_of
from memory_project.accounts.oauth.validator import check_resources
from memory_project.models import AuditEvent
from memory_project.web.middleware import POLICY


class ConsentPage(AuthorizationView):  # type: ignore[misc]  # untyped
    template_name = "oauth/consent.html"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        # with approval_prompt=auto, a client could skip this page after the first time
        values = QueryDict(mutable=True)
        values.update(request.GET)
        values["approval_prompt"] = "force"
        request.GET = values  # type: ignore[assignment]
        response: HttpResponse = super().get(request, *args, **kwargs)
        return response

    def form_valid(self, form: Any) -> HttpResponse:
        # the form may have been changed, or the client may have been deleted since the page was opened
        if not Application.objects.filter(client_id=form.cleaned_data["client_id"]).exists():
            raise NotFound("there is no such client", field="client_id")
        response: HttpResponse = super().form_valid(form)
        return response

    def validate_authorization_request(self, request: HttpRequest) -> Any:
        scopes, credentials = super().validate_authorization_request(request)
        try:
            check_resources(None, request.GET.getlist("resource"))
        except OAuth2Error as error:
            error.state = credentials.get("state")
            raise OAuthToolkitError(error=error, redirect_uri=credentials["redirect_uri"]) from None
        return scopes, credentials

    def create_authorization_response(self, request: HttpRequest, scopes: Any, credentials: Any, allow: bool) -> Any:
        started = time.perf_counter()
        if allow:
            credentials["consent"] = connected_apps.check_consent(
                request.user,  # type: ignore[arg-type]  # somebody is signed in here
                persona=request.POST.get("persona", ""),
                toolsets=request.POST.getlist("toolsets"),
                read_only="read_only" in request.POST,
                days=request.POST.get("days", ""),
            )
        answer = super().create_authorization_response(request, scopes, credentials, allow)
        _record(request, "oauth.allow", credentials, started)
        return answer

    def error_response(self, error: Any, application: Any, **kwargs: Any) -> HttpResponse:
        if self.request.method == "POST" and error.oauthlib_error.error == "access_denied":
            arguments = {"client_id": self.request.POST.get("client_id", "")}
            _record(self.request, "oauth.deny", arguments, time.perf_counter())
        response: HttpResponse = super().error_response(error, application, **kwargs)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        caller = caller_from_request(self.request, channel="portal")
        client_id = str(context.get("client_id", ""))
        return {
            **context,
            "personas": sorted(caller.personas - {caller.persona}),
            "own_persona": caller.persona,
            "lifetimes": connected_apps.LIFETIMES,
            "default_days": connected_apps.DEFAULT_DAYS,
            "toolsets": [
                (name, name in settings.MCP_TOOLSETS or "all" in settings.MCP_TOOLSETS)
                for name in connected_apps.TOOLSETS
            ],
            "redirect_host": urlsplit(context.get("redirect_uri") or "").netloc or context.get("redirect_uri"),
            "client_host": urlsplit(client_id).netloc if client_id.startswith("https://") else "",
        }

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        if "error" in context:  # from error_response, which passes nothing else
            context = {"error": context["error"], "personas": []}
        response: HttpResponse = super().render_to_response(context, **kwargs)
        if redirect := context.get("redirect_uri"):
            # browsers apply form-action to the redirect that answers the form, too
            policy = POLICY.replace("form-action 'self'", f"form-action 'self' {source_of(redirect)}")
            response.headers["Content-Security-Policy"] = policy
        return response


def _record(request: HttpRequest, tool: str, arguments: Any, started: float) -> None:
    names = ("client_id", "redirect_uri")
    audit.record(
        caller_from_request(request, channel="portal"),
        tool=tool,
        outcome=AuditEvent.Outcome.OK if tool == "oauth.allow" else AuditEvent.Outcome.REFUSED,
        duration_ms=(time.perf_counter() - started) * 1000,
        arguments={name: str(arguments[name]) for name in names if arguments.get(name)},
        answer=None,
        request_chars=0,
        response_chars=0,
    )


class TokenEndpoint(TokenView):  # type: ignore[misc]  # untyped
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post(request, *args, **kwargs)
        response["Content-Type"] = "application/json"  # missing in errors that are raised while tokens are stored
        return response


class ResourceMetadata(OAuthProtectedResourceMetadataView):  # type: ignore[misc]  # untyped
    """RFC 9728 metadata. The identifier is the address that was asked about, because clients compare the two."""

    def get_resource(self, request: HttpRequest) -> str:
        choice = self.kwargs.get("choice", "")
        below: str = f"/x/{choice}" if choice else self.kwargs.get("below", "")
        return connected_apps.resource() + below

    def get_authorization_servers(self, request: HttpRequest) -> list[str]:
        return [settings.OIDC_ISSUER or settings.COMMONPLACE_URL]
