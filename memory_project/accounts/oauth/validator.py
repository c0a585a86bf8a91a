"""Our rules on top of django-oauth-toolkit: consent, one resource, redirect addresses, and codes stored as hashes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from oauth2_provider.models import AccessToken, RefreshToken
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749 import errors

from memory_project.accounts import connected_apps
from memory_project.accounts.oauth.redirects import is_safe
from memory_project.web.bearer import digest


class Validator(OAuth2Validator):  # type: ignore[misc]  # untyped
    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        return is_safe(redirect_uri) and super().validate_redirect_uri(client_id, redirect_uri, request)

    def _create_authorization_code(self, request: Any, code: dict[str, str], expires: Any = None) -> Any:
        consent = getattr(request, "consent", None)
        # a parameter of the request could have this name; only the consent page passes an instance
        if not isinstance(consent, connected_apps.Consent):
            raise errors.AccessDeniedError(request=request)
        check_resources(request, getattr(request, "resource", None) or [])
        request.resource = [connected_apps.resource()]
        hashed = digest(code["code"])
        with transaction.atomic():
            connected_apps.allow(
                user=request.user,
                application=request.client,
                address=urlsplit(request.redirect_uri).netloc or request.redirect_uri,
                code=hashed,
                consent=consent,
            )
            return super()._create_authorization_code(request, {**code, "code": hashed}, expires)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        request.code = digest(code)  # from here on oauthlib passes this value on
        if super().validate_code(client_id, request.code, client, request):
            return True
        connected_apps.end_replayed(application=client, code=request.code)
        return False

    def _check_and_set_request_resource(self, request: Any) -> None:
        # The toolkit compares texts, while each address below /mcp names the same resource.
        named = [value for name, value in request.decoded_body or () if name == "resource" and value.strip()]
        check_resources(request, named)
        request.resource = [connected_apps.resource()]
        super()._check_and_set_request_resource(request)
        request.resource = [connected_apps.resource()]

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Leave out unknown scopes, which several clients send whatever the server offers."""
        request.scopes = granted_scopes(scopes)
        return True

    def is_within_original_scope(
        self, request_scopes: list[str], refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        original = self.get_original_scopes(refresh_token, request)
        request.scopes = [scope for scope in granted_scopes(request_scopes) if scope in original]
        return True

    def save_bearer_token(self, token: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.grant_type == "refresh_token":
            with transaction.atomic():
                branch_if_overtaken(request)
                return super().save_bearer_token(token, request, *args, **kwargs)
        with transaction.atomic():
            app = connected_apps.use_code(application=request.client, code=request.code)
            if app:
                request.connected_app = app
                return super().save_bearer_token(token, request, *args, **kwargs)
        # another request with the same code was faster
        connected_apps.end_replayed(application=request.client, code=request.code)
        raise errors.InvalidGrantError(request=request)

    def _create_refresh_token(self, request: Any, code: str, access_token: Any, previous: Any) -> Any:
        token = super()._create_refresh_token(request, code, access_token, previous)
        if previous is None:
            token.token_family = request.connected_app.pk
            token.save(update_fields=["token_family"])
        return token

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        if not super().validate_refresh_token(refresh_token, client, request, *args, **kwargs):
            return False
        family = request.refresh_token_instance.token_family
        return connected_apps.in_force().filter(pk=family, application=client).exists()


def granted_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the known ones of the scopes, and always those that each app gets."""
    known = [scope for scope in dict.fromkeys(scopes) if scope in oauth2_settings.SCOPES]
    return list(dict.fromkeys([*oauth2_settings.DEFAULT_SCOPES, *known]))


def branch_if_overtaken(request: Any) -> None:
    """Let a client refresh twice at once, as clients do whose parallel calls meet an expired token.

    Called after the refresh token was found valid. If another request has used it since, the toolkit would return the
    tokens of that request, but only their hashes are stored: this request gets tokens of its own in the same family.
    """
    used = RefreshToken.objects.select_for_update().filter(pk=request.refresh_token_instance.pk).first()
    if used and used.revoked is None:
        return
    request.connected_app = connected_apps.in_force().filter(pk=used and used.token_family).first()
    if request.connected_app is None or not AccessToken.objects.filter(source_refresh_token=used).exists():
        raise errors.InvalidGrantError(request=request)  # ended or revoked meanwhile
    request.refresh_token_instance = None


def check_resources(request: Any, resources: list[str]) -> None:
    if wrong := [name for name in resources if not connected_apps.is_ours(name)]:
        raise errors.CustomOAuth2Error(
            error="invalid_target",
            description=f"The resource {wrong[0][:200]} is unknown. Use {connected_apps.resource()}.",
            request=request,
        )
