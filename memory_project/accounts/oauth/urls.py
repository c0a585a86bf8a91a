"""Addresses of the OAuth server. With OAUTH_ENABLED off, all of them respond with 404."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from oauth2_provider import views as toolkit

from memory_project.accounts.oauth.registration import ManageRegistration, Register
from memory_project.accounts.oauth.views import ConsentPage, ResourceMetadata, TokenEndpoint

app_name = "oauth2_provider"  # the toolkit resolves addresses by this name
RESOURCE = ".well-known/oauth-protected-resource"


def switched(view: Callable[..., Any]) -> Callable[..., HttpResponse]:
    @wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.OAUTH_ENABLED:
            raise Http404
        response: HttpResponse = view(request, *args, **kwargs)
        return response

    return respond


urlpatterns = [
    path(RESOURCE, switched(ResourceMetadata.as_view()), name="oauth-resource-metadata"),
    path(f"{RESOURCE}/mcp", switched(ResourceMetadata.as_view()), name="mcp-metadata"),
    path(f"{RESOURCE}/mcp/", switched(ResourceMetadata.as_view()), {"below": "/"}, name="mcp-slash-metadata"),
    path(f"{RESOURCE}/mcp/x/<path:choice>", switched(ResourceMetadata.as_view()), name="mcp-choice-metadata"),
    path(
        ".well-known/oauth-authorization-server",
        switched(toolkit.OAuthServerMetadataView.as_view()),
        name="oauth-server-metadata",
    ),
    path("oauth/authorize", switched(ConsentPage.as_view()), name="authorize"),
    path("oauth/token", switched(TokenEndpoint.as_view()), name="token"),
    path("oauth/revoke", switched(toolkit.RevokeTokenView.as_view()), name="revoke-token"),
    path("oauth/register", switched(Register.as_view()), name="dcr-register"),
    path("oauth/register/<str:client_id>", switched(ManageRegistration.as_view()), name="dcr-register-management"),
]
