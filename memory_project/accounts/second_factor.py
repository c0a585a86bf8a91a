"""Second factors of people who sign in with a password: allauth's pages and tables, with this project's rules."""

from __future__ import annotations

import base64
import secrets
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse

from foundation.database import sealing
from memory_project.models import User
from memory_project.web.middleware import error_response

# Django's name of the backend that loads the user of a session
BACKEND = "django.contrib.auth.backends.ModelBackend"


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    def login(self, request: HttpRequest, user: Any) -> None:
        user.backend = BACKEND  # allauth would take the first one, axes, which loads no users
        super().login(request, user)

    def reauthenticate(self, user: Any, password: str) -> bool:
        # the address is that of the account, and django-axes counts wrong passwords by it, as on the sign-in page
        found = authenticate(self.request, username=user.email, password=password)
        return found is not None and found.pk == user.pk

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        return error_response(request, "This account is disabled.", "forbidden", 403, "You are not signed in")

    def get_client_ip(self, request: HttpRequest) -> str:
        return str(request.META.get("REMOTE_ADDR", ""))  # the server has resolved trusted proxies

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Show none of allauth's messages: the pages say what has changed."""

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """Send none of allauth's mails: it would send them to its own, empty table of addresses."""


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    def encrypt(self, text: str) -> str:
        return _cipher(str(settings.SECRET_KEY)).encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        try:
            ciphers = MultiFernet([_cipher(key) for key in sealing.secret_keys()])
            return ciphers.decrypt(encrypted_text.encode()).decode()
        except InvalidToken:
            # SECRET_KEY has changed. With a random secret no code is right, whereas with an empty one anybody could
            # compute the code. An admin resets the second factor.
            return base64.b32encode(secrets.token_bytes(20)).decode()

    def _get_site_name(self) -> str:
        return "Commonplace"

    def can_delete_authenticator(self, authenticator: Any) -> bool:
        others = Authenticator.objects.filter(user=authenticator.user).exclude(pk=authenticator.pk)
        is_last = not others.exclude(type=Authenticator.Type.RECOVERY_CODES).exists()
        return not (is_last and is_required_for(authenticator.user))


def _cipher(key: str) -> Fernet:
    return sealing.cipher("commonplace second factors", key)


def encrypted_anew(value: Any, old: str) -> Any:
    """Return a value of an authenticator, encrypted with SECRET_KEY if it was encrypted with the key `old`."""
    if isinstance(value, list):
        return [encrypted_anew(part, old) for part in value]
    if not isinstance(value, str):
        return value
    try:
        text = _cipher(old).decrypt(value.encode())
    except InvalidToken:
        return value
    return _cipher(str(settings.SECRET_KEY)).encrypt(text).decode()


def is_required_for(user: User) -> bool:
    """Return whether REQUIRE_TWO_FACTOR asks this user for a second factor."""
    match settings.REQUIRE_TWO_FACTOR:
        case "all":
            return True
        case "staff":
            return user.is_staff or user.is_superuser
        case _:
            return False


def is_missing(request: HttpRequest) -> bool:
    """Return whether the signed-in user must set up a second factor first.

    It is not asked of people whose company has signed them in, because the company decides how they prove who they are.
    """
    user = request.user
    if not isinstance(user, User) or not is_required_for(user):
        return False
    methods = {record.get("method") for record in get_authentication_records(request, user)}
    if "socialaccount" in methods:
        return False
    types = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
    return not Authenticator.objects.filter(user=user, type__in=types).exists()
