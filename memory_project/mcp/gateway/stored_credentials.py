"""Stored credentials: saved, removed and refreshed. A person's are theirs alone, and nobody can read them again."""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity, sealing
from foundation.links import url_for
from foundation.operations.errors import Conflict, Degraded, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from memory_project.mcp.gateway import oauth
from memory_project.mcp.gateway.credential_owners import SERVICE
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import PendingSignIn, StoredCredential

MAX_SECRET = 8_000  # characters


def owner_for(caller: Caller, upstream: Upstream) -> str:
    """Return whose credential the caller stores: their own, or as an operator the one of the service.

    Raises Conflict if the upstream takes none, and Forbidden for the service's if the caller is no operator.
    """
    if not (upstream.wants_secret or upstream.wants_sign_in):
        raise Conflict(gettext("takes no credential that is stored here"), field="upstream")
    if upstream.credentials == "person":
        if not caller.email:
            raise Forbidden(gettext("not authenticated: this connection is not tied to a user"))
        return caller.email
    if not caller.is_operator:
        raise Forbidden(gettext("operators sign in for everybody"))
    return SERVICE


def save_secret(caller: Caller, *, upstream: Upstream, secret: str) -> StoredCredential:
    """Store a person's secret, which goes upstream in a header. Raises Invalid if it can't stand in one."""
    owner = owner_for(caller, upstream)
    if not upstream.wants_secret:
        raise Conflict(gettext("wants a sign-in, and no secret"), field="upstream")
    secret = secret.strip()
    if not 0 < len(secret) <= MAX_SECRET or not secret.isascii() or not secret.isprintable():
        raise Invalid(
            gettext("can't stand in a header"),
            field="secret",
            allowed=gettext("1 to %(most)s printable ASCII characters") % {"most": MAX_SECRET},
        )
    return save(caller, upstream=upstream, owner=owner, values={"secret": secret})


def save(caller: Caller, *, upstream: Upstream, owner: str, values: dict[str, Any]) -> StoredCredential:
    """Replace what is stored for an owner. Connections that use the former credential end at their next call."""
    fields = {
        "origin": upstream.origin,
        "sealed": sealing.seal(values),
        "version": uuid.uuid4(),
        "stored_by": caller.email,
        "stored_at": timezone.now(),
        "refused_at": None,
    }
    with acting_for(owner):
        row, _ = StoredCredential.objects.update_or_create(upstream=upstream.name, owner=owner, defaults=fields)
    return row


def remove(caller: Caller, *, upstream: Upstream) -> None:
    """Delete the caller's credential. Raises NotFound if there is none."""
    owner = owner_for(caller, upstream)
    with acting_for(owner), transaction.atomic():
        deleted, _ = StoredCredential.objects.filter(upstream=upstream.name, owner=owner).delete()
        PendingSignIn.objects.filter(upstream=upstream.name, owner=owner).delete()
    if not deleted:
        raise NotFound(gettext("you have stored nothing for this system"), field="upstream")


def delete_of_person(email: str) -> int:
    """Delete the credentials of a person whose access ends. Return how many there were."""
    with identity.service("gateway"), transaction.atomic():
        PendingSignIn.objects.filter(created_by=email).delete()
        return StoredCredential.objects.filter(owner=email).exclude(owner=SERVICE).delete()[0]


def of_caller(caller: Caller) -> dict[str, StoredCredential]:
    """Return what the caller has stored, by upstream; for operators also the credentials of the service."""
    with identity.service("gateway"):
        rows = list(StoredCredential.objects.filter(owner=caller.email)) if caller.email else []
        if caller.is_operator:
            rows += StoredCredential.objects.filter(owner=SERVICE)
    return {row.upstream: row for row in rows}


def is_usable(row: StoredCredential | None, upstream: Upstream) -> bool:
    """Return whether the credential can still be read, and belongs to the server that the declaration names now."""
    return row is not None and row.refused_at is None and _values(row, upstream) is not None


def opened(upstream: Upstream, owner: str) -> tuple[StoredCredential, dict[str, Any]]:
    """Return a credential and its values. Raises Degraded, which names the page, if there is none that can be used."""
    with acting_for(owner):
        row = StoredCredential.objects.filter(upstream=upstream.name, owner=owner).first()
    values = _values(row, upstream) if row is not None and row.refused_at is None else None
    if row is None or values is None:
        raise needed(upstream, owner)
    return row, values


def access_token(upstream: Upstream, owner: str, *, refused: str = "") -> oauth.OAuthTokens:
    """Return tokens that are fresh, and other ones than the access token that the upstream has `refused`.

    The row is locked during a refresh, because many servers accept a refresh token once: whoever waits for the lock
    gets the tokens of whoever had it. Raises Degraded if somebody has to sign in again.
    """
    opened(upstream, owner)
    try:
        with acting_for(owner), transaction.atomic():
            row = StoredCredential.objects.select_for_update().filter(upstream=upstream.name, owner=owner).first()
            values = _values(row, upstream) if row is not None and row.refused_at is None else None
            if row is None or values is None:
                raise needed(upstream, owner)
            tokens = oauth.OAuthTokens.model_validate(values["tokens"])
            if tokens.is_fresh() and tokens.access_token != refused:
                return tokens
            if not tokens.refresh_token:
                raise oauth.SignInRefused("there is no refresh token")
            renewed = oauth.refresh(upstream, oauth.Server.model_validate(values["server"]), tokens)
            row.sealed = sealing.seal({**values, "tokens": renewed.model_dump(mode="json")})
            row.save(update_fields=["sealed"])
            return renewed
    except oauth.SignInRefused:
        note_refusal(upstream, owner)
        raise needed(upstream, owner) from None


def note_refusal(upstream: Upstream, owner: str) -> None:
    """Record that a credential is no longer accepted, so that it isn't tried again and the page says so."""
    with acting_for(owner):
        rows = StoredCredential.objects.filter(upstream=upstream.name, owner=owner, refused_at=None)
        rows.update(refused_at=timezone.now())


def needed(upstream: Upstream, owner: str) -> Degraded:
    page = url_for("connected-systems", "")
    if owner == SERVICE:
        return Degraded(
            f"{upstream.name}: an operator has to sign in at Connect → Connected systems ({page}#{upstream.name})"
        )
    act = "sign in" if upstream.wants_sign_in else "store your secret"
    return Degraded(f"{upstream.name}: {act} at Connect → Connected systems ({page}#{upstream.name}), then call again")


def acting_for(owner: str) -> AbstractContextManager[None]:
    """Run statements with the rights of a credential's owner. Only the service may read what belongs to nobody."""
    if owner == SERVICE:
        return identity.service("gateway")
    return identity.acting_as(Caller(email=owner, persona="", personas=frozenset(), channel="gateway"))


def _values(row: StoredCredential, upstream: Upstream) -> dict[str, Any] | None:
    values = sealing.unseal(row.sealed) if row.origin == upstream.origin else None
    wanted = "secret" if upstream.wants_secret else "tokens"
    return values if values is not None and wanted in values else None
