"""Bearer tokens of the REST API."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from memory_project.accounts.tokens import find_api_token
from memory_project.models import ApiToken, User
from memory_project.web.bearer import bearer


class BearerAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        text = bearer(get_authorization_header(request))
        if not text:
            return None
        token = find_api_token(text)  # tokens of connected apps are issued for /mcp alone
        if token is None:
            raise AuthenticationFailed("this token is unknown, expired or revoked")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
