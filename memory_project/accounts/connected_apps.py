"""Applications that a person has connected over OAuth. django-oauth-toolkit keeps their clients, codes and tokens.

What the person allowed is a ConnectedApp. All tokens issued for it have its primary key as their `token_family`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from foundation.operations.errors import Forbidden, Invalid, NotFound, check_choice
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.models import ConnectedApp, User

PREFIX = "cpo_"  # of access tokens, so that any other text is refused without a query
LIFETIMES = {
    1: gettext_lazy("1 day"),
    30: gettext_lazy("30 days"),
    90: gettext_lazy("90 days"),
    365: gettext_lazy("1 year"),
}  # days → label
DEFAULT_DAYS = 90
TOOLSETS = ("memory", "knowledge", "analysis", "query", "storage", "graph", "conversation", "notes", "reports")
LAST_USED_STEP = timedelta(minutes=1)  # minimum time between two updates of `last_used_at`
UNUSED_FOR = timedelta(days=1)  # after which a registered client that nobody has allowed is deleted
KEPT_FOR = timedelta(days=30)  # after an app has ended


@dataclass(frozen=True)
class Consent:
    """What a person chose on the consent page."""

    persona: str
    toolsets: tuple[str, ...]
    read_only: bool
    days: int


def new_token(request: Any) -> str:
    return PREFIX + secrets.token_urlsafe(32)


def new_refresh_token(request: Any) -> str:
    return secrets.token_urlsafe(32)


def resource() -> str:
    """Return the identifier of /mcp (RFC 8707), which every token is bound to."""
    return f"{settings.COMMONPLACE_URL.rstrip('/')}/mcp"


def is_ours(identifier: str) -> bool:
    """Return whether a resource indicator names /mcp or an address below it. Scheme and host have no case."""
    parts = urlsplit(identifier)
    named = parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl().rstrip("/")
    return named == resource() or named.startswith(f"{resource()}/x/")


def check_consent(user: User, *, persona: str, toolsets: Sequence[str], read_only: bool, days: str) -> Consent:
    """Raise Invalid for a choice that the page doesn't offer, and Forbidden for a persona of other people."""
    build_caller(user, channel="portal", persona=persona)
    for name in toolsets:
        check_choice("toolsets", name, TOOLSETS)
    if not toolsets:
        raise Invalid(gettext("is empty"), field="toolsets", allowed=", ".join(TOOLSETS))
    if days not in map(str, LIFETIMES):
        raise Invalid(
            gettext("%(days)r is unknown") % {"days": days[:20]}, field="days", allowed=", ".join(map(str, LIFETIMES))
        )
    return Consent(persona, tuple(dict.fromkeys(toolsets)), read_only, int(days))


def allow(*, user: User, application: Application, address: str, code: str, consent: Consent) -> ConnectedApp:
    """Store what the person allowed, for the authorization code with this digest."""
    app: ConnectedApp = ConnectedApp.objects.create(
        user=user,
        application=application,
        name=application.name,
        address=address[:255],
        persona=consent.persona,
        toolsets=list(consent.toolsets),
        read_only=consent.read_only,
        code_digest=code,
        expires_at=timezone.now() + timedelta(days=consent.days),
    )
    return app


def use_code(*, application: Application, code: str) -> ConnectedApp | None:
    """Mark the code with this digest as used. Returns None if it is unknown or was used before."""
    apps = in_force().filter(application=application, code_digest=code)
    if not apps.filter(code_used_at=None).update(code_used_at=timezone.now()):
        return None
    return apps.get()


def end_replayed(*, application: Application, code: str) -> None:
    """End the app whose code was sent a second time, because somebody may have stolen the code (RFC 6749, 4.1.2)."""
    for app in ConnectedApp.objects.filter(application=application, code_digest=code).exclude(code_used_at=None):
        _end(app)


def in_force() -> QuerySet[ConnectedApp]:
    return ConnectedApp.objects.filter(revoked_at=None, expires_at__gt=timezone.now(), user__is_active=True)


def of_token(text: str) -> QuerySet[ConnectedApp]:
    """Return the app in force that an access token was issued for."""
    if not settings.OAUTH_ENABLED or not text.startswith(PREFIX):
        return ConnectedApp.objects.none()
    tokens = RefreshToken.objects.filter(
        revoked=None,
        access_token__token_checksum=_checksum(text),
        access_token__expires__gt=timezone.now(),
        access_token__resource=[resource()],
    )
    return in_force().filter(pk__in=tokens.values("token_family"))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def expiry_of(text: str) -> datetime:
    """Return when an access token ends; one that is gone has ended."""
    tokens = AccessToken.objects.filter(token_checksum=_checksum(text))
    expires: datetime = tokens.values_list("expires", flat=True).first() or timezone.now()
    return expires


def find(text: str) -> ConnectedApp | None:
    """Return the app that an access token was issued for and record its use, or None if the token is not valid."""
    app = of_token(text).select_related("user").first()
    now = timezone.now()
    if app and (app.last_used_at is None or now - app.last_used_at > LAST_USED_STEP):
        ConnectedApp.objects.filter(pk=app.pk).update(last_used_at=now)
    return app


def owner_of(text: str) -> str:
    """Return the primary key of the person whose app has this access token, or ""."""
    return str(of_token(text).values_list("user_id", flat=True).first() or "")


def listed(user: User) -> QuerySet[ConnectedApp]:
    return user.connected_apps.exclude(code_used_at=None).filter(revoked_at=None, expires_at__gt=timezone.now())


def end(caller: Caller, *, app_id: UUID) -> ConnectedApp:
    """End an app of the caller, or of anyone if the caller is an admin. All its tokens are deleted."""
    condition = Q() if caller.is_admin else Q(user__email=caller.email)
    app = ConnectedApp.objects.filter(condition, pk=app_id).first()
    if app is None:
        raise NotFound(gettext("you have no such connected app"), field="app")
    _end(app)
    return app


def end_all(caller: Caller, *, user: User) -> int:
    if not caller.can_edit_for(user.email):
        raise Forbidden(gettext("only admins can end the connected apps of other people"))
    apps = list(user.connected_apps.filter(revoked_at=None))
    for app in apps:
        _end(app)
    return len(apps)


def _end(app: ConnectedApp) -> None:
    with transaction.atomic():
        ConnectedApp.objects.filter(pk=app.pk, revoked_at=None).update(revoked_at=timezone.now())
        Grant.objects.filter(code=app.code_digest).delete()
        RefreshToken.revoke_family(app.pk)


def delete_unused() -> dict[str, int]:
    """Delete ended apps, expired tokens, and clients that were registered but are connected to nobody."""
    now = timezone.now()
    ended = Q(revoked_at__lt=now - KEPT_FOR) | Q(expires_at__lt=now - KEPT_FOR)
    ended |= Q(code_used_at=None, created_at__lt=now - UNUSED_FOR)
    apps, _ = ConnectedApp.objects.filter(ended).delete()
    Grant.objects.filter(expires__lt=now).delete()
    in_use = ConnectedApp.objects.filter(pk=OuterRef("token_family"))
    # revoked tokens of an app in force stay, because their reuse ends the app
    RefreshToken.objects.exclude(Exists(in_use)).delete()
    AccessToken.objects.filter(expires__lt=now - UNUSED_FOR, refresh_token=None).delete()
    connected = ConnectedApp.objects.filter(application=OuterRef("pk"))
    clients, _ = (
        Application.objects.filter(registration_source__in=_registered_by_themselves(), created__lt=now - UNUSED_FOR)
        .exclude(Exists(connected))
        .delete()
    )
    return {"connected_apps": apps, "oauth_clients": clients}


def _registered_by_themselves() -> list[Any]:
    return [Application.RegistrationSource.DCR, Application.RegistrationSource.CIMD]
