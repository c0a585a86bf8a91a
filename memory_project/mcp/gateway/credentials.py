"""Credentials for upstreams: that of the declaration, a person's own, or one exchanged for the caller.

The caller's token for Commonplace never goes upstream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import httpx2
from anyio import to_thread

from foundation.database import connections
from foundation.operations import errors
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from memory_project.mcp.gateway import exchange, oauth, stored_credentials
from memory_project.mcp.gateway.credential_owners import is_stored, owner
from memory_project.mcp.gateway.declaration import Upstream

Result = TypeVar("Result")
Source = Callable[[str], oauth.OAuthTokens]  # takes the token that was refused, or ""


@dataclass(frozen=True)
class Credential:
    """What a new connection sends. `version` changes when the credential is replaced."""

    headers: Mapping[str, str]
    auth: Authentication | None = None
    version: str = ""


class Authentication(httpx2.Auth):
    """Adds a token, or with no `source` only notices that the upstream refuses the credential in its headers.

    The SDK's client hides what happens to its requests, so `problem` keeps the error for the connection.
    """

    def __init__(self, refused: Callable[[], DomainError], source: Source | None = None) -> None:
        self.problem = ""
        self._refused = refused
        self._source = source
        self._tokens: oauth.OAuthTokens | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._authorize(request)
        response = yield request
        if response.status_code == 401 and self._source is not None:
            await self._authorize(request, refused=self._tokens.access_token if self._tokens else "")
            response = yield request
        if response.status_code == 401:
            error = await to_thread.run_sync(self._in_session, self._refused)
            self.problem = error.message
            raise error

    async def _authorize(self, request: httpx2.Request, refused: str = "") -> None:
        if self._source is None:
            return
        if refused or self._tokens is None or not self._tokens.is_fresh():
            try:
                self._tokens = await to_thread.run_sync(self._in_session, partial(self._source, refused))
            except DomainError as error:
                self.problem = error.message
                raise
        request.headers["Authorization"] = f"Bearer {self._tokens.access_token}"

    def _in_session(self, work: Callable[[], Result]) -> Result:
        with connections.session():
            return work()


def for_connection(upstream: Upstream, caller: Caller) -> Credential:
    """Return what a connection of the caller sends. Runs in a worker thread.

    Raises Degraded if the caller, or the operator, has to provide a credential first.
    """
    own = owner(upstream, caller)
    if upstream.credentials != "service" and not own:
        raise errors.Degraded(f"{upstream.name}: needs a credential of a person")
    with connections.session():
        if upstream.wants_secret or upstream.wants_sign_in:
            row, values = stored_credentials.opened(upstream, own)
            headers = upstream.filled(upstream.headers, values.get("secret", ""))
            return Credential(headers, _authentication(upstream, caller, own), row.version.hex)
        return Credential(upstream.filled(upstream.headers), _authentication(upstream, caller, own))


def _authentication(upstream: Upstream, caller: Caller, own: str) -> Authentication | None:
    def is_refused() -> DomainError:
        if not is_stored(upstream):
            return errors.Upstream(f"{upstream.name}: refused the token that was issued for it")
        stored_credentials.note_refusal(upstream, own)
        return stored_credentials.needed(upstream, own)

    if upstream.exchange is not None:
        return Authentication(is_refused, lambda refused: exchange.access_token(upstream, caller, refused=refused))
    if upstream.oauth is not None and upstream.oauth.client_credentials:
        return Authentication(is_refused, lambda refused: oauth.client_credentials(upstream))
    if upstream.wants_sign_in:
        return Authentication(is_refused, lambda old: stored_credentials.access_token(upstream, own, refused=old))
    return Authentication(is_refused) if upstream.wants_secret else None
