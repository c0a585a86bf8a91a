"""Sign-ins at the authorization server of an upstream, in two requests that any two processes may serve."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity, sealing
from foundation.operations.errors import Conflict, Forbidden, Invalid
from foundation.people.caller import Caller
from memory_project.mcp.gateway import oauth, registry, stored_credentials
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import PendingSignIn

VALID_FOR = timedelta(minutes=10)
MAX_CODE = 4_000  # characters


@dataclass(frozen=True)
class SignInAnswer:
    """The parameters with which the authorization server sends the browser back."""

    state: str
    code: str = ""
    issuer: str | None = None
    error: str = ""


def start(caller: Caller, *, upstream: Upstream) -> tuple[str, str]:
    """Begin a sign-in. Return the address that the person opens, and the host of the authorization server."""
    owner = stored_credentials.owner_for(caller, upstream)
    if not upstream.wants_sign_in:
        raise Conflict(gettext("wants a secret, and no sign-in"), field="upstream")
    server = oauth.register(upstream, oauth.discover(upstream), callback())
    address, state, verifier = oauth.authorization(server, callback())
    sealed = sealing.seal({"verifier": verifier, "server": server.model_dump(mode="json"), "origin": upstream.origin})
    with identity.acting_as(caller), transaction.atomic():
        PendingSignIn.objects.filter(created_by=caller.email, upstream=upstream.name).delete()
        PendingSignIn.objects.filter(created_by=caller.email, started_at__lt=timezone.now() - VALID_FOR).delete()
        PendingSignIn.objects.create(
            state_hash=_hash(state), upstream=upstream.name, owner=owner, created_by=caller.email, sealed=sealed
        )
    return address, server.metadata.authorization_endpoint.host or ""


def finish(caller: Caller, *, answer: SignInAnswer) -> Upstream:
    """Exchange the code for tokens and store them. Return the upstream.

    Raises Forbidden for a state that this person has not started within ten minutes, or that was used before.
    """
    with identity.acting_as(caller), transaction.atomic():
        found = PendingSignIn.objects.select_for_update().filter(
            state_hash=_hash(answer.state), created_by=caller.email, started_at__gt=timezone.now() - VALID_FOR
        )
        if (pending := found.first()) is None:
            raise Forbidden(gettext("this sign-in has expired, was used already, or was started by somebody else"))
        pending.delete()
    upstream = registry.refreshed().upstreams.get(pending.upstream)
    values = sealing.unseal(pending.sealed)
    if upstream is None or values is None or values["origin"] != upstream.origin:
        raise Conflict(gettext("this system has changed since the sign-in began: start again"))
    if not registry.is_permitted(caller, upstream) or stored_credentials.owner_for(caller, upstream) != pending.owner:
        raise Forbidden(gettext("you may not use this system"))
    server = oauth.Server.model_validate(values["server"])
    oauth.check_answering_server(server, answer.issuer)
    if not answer.code:
        raise Conflict(gettext("%(system)s did not let you sign in") % {"system": upstream.name})
    if len(answer.code) > MAX_CODE:
        raise Invalid(gettext("is too long"), field="code")
    tokens = oauth.exchange_code(upstream, server, answer.code, values["verifier"], callback())
    stored = {"server": server.model_dump(mode="json"), "tokens": tokens.model_dump(mode="json")}
    stored_credentials.save(caller, upstream=upstream, owner=pending.owner, values=stored)
    return upstream


def callback() -> str:
    # not from the request's Host header, because the authorization server knows one address
    return f"{settings.COMMONPLACE_URL.rstrip('/')}{reverse('upstream-callback')}"


def _hash(state: str) -> str:
    return hashlib.sha256(state.encode(errors="replace")).hexdigest()
