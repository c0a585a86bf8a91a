"""The OpenID Connect exchange with the company's issuer, on top of allauth.

allauth keeps the state, proves possession of the code (PKCE) and exchanges it. It neither sends a nonce nor checks the
signature of an ID token that it has fetched itself, so both are done here. Its own tables of accounts stay empty:
single_sign_on.py finds and updates the account.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import jwt
from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from requests import RequestException

from memory_project.accounts import single_sign_on
from memory_project.web.middleware import error_response

PROVIDER = "company"
ID_TOKEN_KEY = "company_id_token"
CLOCK_SKEW_S = 60
# An ID token signed with the client's secret (HS256) or not at all proves nothing about the issuer.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
REQUIRED_CLAIMS = ["iss", "sub", "aud", "exp", "iat"]

log = logging.getLogger(__name__)


class Issuer(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    """The issuer, as the request that signs in sees it."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request, PROVIDER)

    @property
    def openid_config(self) -> dict[str, Any]:
        config = super().openid_config
        if not isinstance(config, dict) or str(config.get("issuer", "")).rstrip("/") != settings.SSO_ISSUER.rstrip("/"):
            raise OAuth2Error("the discovery document names another issuer than SSO_ISSUER")
        if missing := {"authorization_endpoint", "token_endpoint", "jwks_uri"} - set(config):
            raise OAuth2Error(f"the discovery document has no {sorted(missing)[0]}")
        return config

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        # not from the request's Host header, because the issuer knows one address
        return f"{settings.COMMONPLACE_URL}{reverse('company-callback')}"

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        encoded = kwargs["response"].get("id_token")
        if not encoded:
            raise OAuth2Error("the issuer sent no ID token")
        claims = self._decode_id_token(app, encoded)
        if "userinfo_endpoint" in self.openid_config:
            profile = self._fetch_user_info(token.token)
            if not isinstance(profile, dict) or profile.get("sub") != claims["sub"]:
                raise OAuth2Error("the user info is about another person than the ID token")
            claims = {**profile, **claims}  # what is signed counts
        login = self.get_provider().sociallogin_from_response(request, {"id_token": claims})
        login.id_token = encoded
        return login

    def _decode_id_token(self, app: Any, id_token: str) -> dict[str, Any]:
        try:
            key = self._key_for(jwt.get_unverified_header(id_token))
            claims: dict[str, Any] = jwt.decode(
                id_token,
                key,
                algorithms=ALGORITHMS,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
                leeway=CLOCK_SKEW_S,
                options={"require": REQUIRED_CLAIMS},
            )
        except jwt.PyJWTError as error:
            raise OAuth2Error(f"invalid ID token: {error}") from error
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != app.client_id:
            raise OAuth2Error("invalid ID token: it was issued to another client")
        if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= 255:
            raise OAuth2Error("invalid ID token: `sub` is not a text of 1 to 255 characters")
        return claims

    def _key_for(self, header: Mapping[str, Any]) -> Any:
        # fetched for each sign-in, so a key that the issuer has replaced is never used
        with get_adapter().get_requests_session() as session:
            response = session.get(self.openid_config["jwks_uri"])
            response.raise_for_status()
            keys = jwt.PyJWKSet.from_dict(response.json()).keys
        kid = header.get("kid")
        matching = [key for key in keys if key.key_id == kid] if kid else keys
        if len(matching) != 1:
            raise OAuth2Error("the issuer has no single key for its ID token")
        return matching[0]


class CompanySignIn(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Where allauth hands over to this project: after the exchange, or when it has failed."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        claims = sociallogin.account.extra_data["id_token"]
        nonce = (sociallogin.state.get("data") or {}).get("nonce", "")
        if not nonce or not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            log.warning("the ID token has another nonce than the one that was sent")
            raise ImmediateHttpResponse(failure(request, "The answer belongs to another sign-in. Start again."))
        person = single_sign_on.sign_in(claims=claims)
        if request.user.is_authenticated:
            logout(request)  # two people may use one browser after each other
        request.session[ID_TOKEN_KEY] = sociallogin.id_token
        record_authentication(request, person, "socialaccount", provider=PROVIDER)
        login = Login(user=person, redirect_url=sociallogin.get_redirect_url(request))
        raise ImmediateHttpResponse(perform_login(request, login))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        if exception is not None:
            log.warning("signing in at the company failed: %s", exception)
        if isinstance(exception, RequestException):
            raise ImmediateHttpResponse(unreachable(request))
        if exception is not None:
            message = f"{settings.SSO_NAME} gave an answer that Commonplace can’t accept. Start again, or ask an admin."
        elif request.GET.get("error"):
            message = f"{settings.SSO_NAME} did not sign you in. Start again, or ask an admin."
        else:
            message = "This sign-in has expired, or was used already. Start again."
        raise ImmediateHttpResponse(failure(request, message))

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False


def start(request: HttpRequest, next_url: str) -> HttpResponse:
    """Send the browser to the issuer. `next_url` is the own page to open afterwards."""
    issuer = Issuer(request)
    nonce = secrets.token_urlsafe(24)
    try:
        provider = issuer.get_provider()
        provider.get_oauth2_adapter = lambda _: issuer  # it would make one without the checks above
        response: HttpResponse = provider.redirect(
            request, "login", next_url, {"nonce": nonce}, auth_params={"nonce": nonce}
        )
    except (RequestException, OAuth2Error) as error:
        log.warning("the company's issuer cannot be used: %s", error)
        return unreachable(request)
    return response


def end_session_url(request: HttpRequest) -> str:
    """Return the address at which the browser signs out at the issuer, or "" if it did not sign in there."""
    token = request.session.get(ID_TOKEN_KEY)
    if not token or not settings.SSO_ISSUER:
        return ""
    try:
        endpoint = Issuer(request).openid_config.get("end_session_endpoint", "")
    except (RequestException, OAuth2Error) as error:
        log.warning("cannot sign out at the company's issuer: %s", error)
        return ""
    if not endpoint:
        return ""
    back = f"{settings.COMMONPLACE_URL}{reverse('sign-in')}"
    query = {"id_token_hint": token, "client_id": settings.SSO_CLIENT_ID, "post_logout_redirect_uri": back}
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def unreachable(request: HttpRequest) -> HttpResponse:
    message = f"{settings.SSO_NAME} can’t be reached at the moment. Try again later."
    if settings.LOCAL_PASSWORDS:
        message += " People who have a password of Commonplace can sign in with it."
    return error_response(request, message, "degraded", 503, "Sign-in is not available")


def failure(request: HttpRequest, message: str) -> HttpResponse:
    return error_response(request, message, "forbidden", 403, "You are not signed in")
