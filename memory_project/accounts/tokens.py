"""API tokens. A token is shown once and only its hash is stored."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from foundation.operations.errors import Forbidden, Invalid, NotFound, check_choice
from foundation.operations.fields import Text
from foundation.operations.operation import validate
from foundation.people.caller import ACT_FOR_USERS, ADMINISTER, WIPE, Caller
from foundation.people.permissions import build_caller
from foundation.registry import Registry
from memory_project.accounts import connected_apps, issuer
from memory_project.models import ApiToken, ConnectedApp, User
from memory_project.web.bearer import PREFIX, digest

RIGHTS = (ACT_FOR_USERS, WIPE, ADMINISTER)
# Functions that delete the credentials of a person, by the systems they are for, and return their number
CREDENTIALS: Registry[Callable[[str], int]] = Registry("credentials of people")
LIFETIMES = {
    30: gettext_lazy("30 days"),
    90: gettext_lazy("90 days"),
    365: gettext_lazy("1 year"),
}  # days → label; the choices on the Connect page
DEFAULT_DAYS = 90
LAST_USED_STEP = timedelta(minutes=1)  # minimum time between two updates of `last_used_at`


def create_token(
    caller: Caller,
    *,
    user: User,
    name: str,
    persona: str = "",
    rights: Sequence[str] = (),
    expires_at: datetime | None = None,
    graph: str = "",
    calls_per_minute: int | None = None,
    writes_per_day: int | None = None,
) -> tuple[ApiToken, str]:
    """Create a token for `user` and return it with its text, which is not stored.

    Raises Forbidden if the caller is neither this user nor an admin, or gives the token rights without being an admin.
    Also raises Forbidden if the user may not use the persona.
    """
    if not caller.can_edit_for(user.email):
        raise Forbidden(gettext("only admins can create tokens for other people"))
    if rights and not caller.is_admin:
        raise Forbidden(gettext("only admins can give rights to a token"), field="rights")
    for right in rights:
        check_choice("rights", right, RIGHTS)
    build_caller(user, channel="token", persona=persona)  # raises Forbidden if the user may not use it
    if graph:
        build_caller(user, channel="token", persona=graph)
    if expires_at and expires_at <= timezone.now():
        raise Invalid(gettext("is in the past"), field="expires_at", allowed=gettext("a later time"))
    text = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=validate(Annotated[str, Text(1, 120)], name, "name"),
        persona=persona,
        rights=list(rights),
        prefix=text[:10],
        digest=digest(text),
        expires_at=expires_at,
        graph=graph,
        calls_per_minute=calls_per_minute,
        writes_per_day=writes_per_day,
    )
    return token, text


def expiry(days: int) -> datetime | None:
    return timezone.now() + timedelta(days=days) if days else None


def revoke_token(caller: Caller, *, token_id: int) -> ApiToken:
    """Revoke a token of the caller, or of anyone if the caller is an admin. Revoking it again changes nothing."""
    condition = Q() if caller.is_admin else Q(user__email=caller.email)
    token = ApiToken.objects.filter(condition, pk=token_id).first()
    if token is None:
        raise NotFound(gettext("you have no such token"), field="token")
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
    token.refresh_from_db()
    return token


def revoke_all(caller: Caller, *, user: User) -> int:
    """Revoke the tokens of a user, end the user's connected apps, and delete the user's credentials for other systems.

    Returns how many there were.
    """
    if not caller.can_edit_for(user.email):
        raise Forbidden(gettext("only admins can revoke the tokens of other people"))
    revoked: int = ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())
    ended = connected_apps.end_all(caller, user=user)
    return revoked + ended + sum(delete(user.email) for delete in CREDENTIALS.values())


def find_token(text: str) -> ApiToken | ConnectedApp | issuer.IssuedToken | None:
    """Return what the token with this text stands for and record its use, or return None if the token is not valid."""
    if text.startswith(PREFIX):
        return find_api_token(text)
    return issuer.find(text) if issuer.is_candidate(text) else connected_apps.find(text)


def token_expiry(token: ApiToken | ConnectedApp, text: str) -> datetime | None:
    """Return when a valid token ends: that of a connected app ends with the app, if not before."""
    if isinstance(token, ApiToken):
        return token.expires_at
    return min(token.expires_at, connected_apps.expiry_of(text))


def find_api_token(text: str) -> ApiToken | None:
    token = ApiToken.objects.select_related("user").filter(digest=digest(text)).first()
    if token is None or not token.is_usable:
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > LAST_USED_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token
