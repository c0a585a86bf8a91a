"""OAuth requests to an upstream and its authorization server: discovery, registration, and the token endpoint.

Nothing here reads or writes the database. The SDK's own provider keeps the verifier of a sign-in in memory, so that it
can't be finished in another process, and doesn't remember the token endpoint for a later refresh.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth import utils as sdk
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, BaseModel, ValidationError

from foundation.operations import errors
from memory_project.mcp.gateway.declaration import OAuth, Upstream
from memory_project.mcp.gateway.http_client import http_client

WITHIN_S = 20.0  # for all requests of one step
MAX_ANSWER = 200_000  # bytes
GRANTS = ["authorization_code", "refresh_token"]
MAX_EXPIRES_S = 365 * 86_400
Result = TypeVar("Result")


class SignInRefused(errors.Upstream):
    """The authorization server no longer accepts the credential."""


class Server(BaseModel):
    """What the requests of a sign-in and of later refreshes need."""

    metadata: OAuthMetadata
    resource: str
    scope: str = ""
    client: OAuthClientInformationFull | None = None


class OAuthTokens(BaseModel):
    access_token: str
    refresh_token: str = ""
    expires_at: float = 0.0  # seconds since 1970; 0 if the server did not say

    def is_fresh(self, seconds: float = 30.0) -> bool:
        return not self.expires_at or self.expires_at - seconds > time.time()


def discover(upstream: Upstream) -> Server:
    """Find the authorization server of an upstream. Raises errors.Upstream."""
    return run(upstream, _discovered)


def register(upstream: Upstream, server: Server, callback: str) -> Server:
    """Return the server with the declared client, or a newly registered one."""
    return run(upstream, _registered, server, callback)


def authorization(server: Server, callback: str) -> tuple[str, str, str]:
    """Return the address that the person opens, the state and the verifier (PKCE)."""
    assert server.client is not None
    state = secrets.token_urlsafe(32)
    verifier = secrets.token_urlsafe(64)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": server.client.client_id,
        "redirect_uri": callback,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": server.resource,
    }
    if server.scope:
        query["scope"] = server.scope
    if "offline_access" in server.scope.split():
        query["prompt"] = "consent"  # OpenID Connect grants offline access only with consent
    address = str(server.metadata.authorization_endpoint)
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", state, verifier


def check_answering_server(server: Server, issuer: str | None) -> None:
    """Raise errors.Upstream if the code comes from another server than the one that was asked (RFC 9207)."""
    try:
        sdk.validate_authorization_response_iss(issuer, server.metadata)
    except OAuthFlowError:
        raise errors.Upstream("the answer comes from another authorization server") from None


def exchange_code(upstream: Upstream, server: Server, code: str, verifier: str, callback: str) -> OAuthTokens:
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": callback}
    return run(upstream, _tokens, server, form)


def refresh(upstream: Upstream, server: Server, tokens: OAuthTokens) -> OAuthTokens:
    """Return new tokens. Raises Refused if the server wants another sign-in."""
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
    renewed = run(upstream, _tokens, server, form)
    return renewed.model_copy(update={"refresh_token": renewed.refresh_token or tokens.refresh_token})


def client_credentials(upstream: Upstream) -> OAuthTokens:
    """Sign in as the declared client, without a person."""
    server = discover(upstream)
    server = server.model_copy(update={"client": _declared_client(upstream, server)})
    return run(upstream, _tokens, server, {"grant_type": "client_credentials", "scope": server.scope})


def run(upstream: Upstream, work: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """Run requests in this thread. Errors carry no text of tokens, and none of the server but its error code."""

    async def main() -> Result:
        with anyio.fail_after(WITHIN_S):
            bounded = upstream.model_copy(update={"max_bytes": MAX_ANSWER})
            bounded._is_from_file = upstream.is_from_file
            async with http_client(bounded, {}) as client:
                return await work(client, upstream, *arguments)

    try:
        return anyio.run(main)
    except TimeoutError:
        raise errors.Upstream(f"{upstream.name}: the sign-in took longer than {WITHIN_S:.0f} s") from None
    except OAuthRegistrationError:
        raise errors.Upstream(
            f"{upstream.name}: does not let Commonplace register: its declaration needs oauth.client_id"
        ) from None
    except (OAuthFlowError, OAuthTokenError, ValidationError, ValueError):
        raise errors.Upstream(f"{upstream.name}: its authorization server gives answers that are not valid") from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise errors.Upstream(f"{upstream.name}: the authorization server failed ({type(error).__name__})") from None


async def _discovered(client: httpx2.AsyncClient, upstream: Upstream) -> Server:
    challenge = await _challenge(client, upstream)
    urls = sdk.build_protected_resource_metadata_discovery_urls(
        sdk.extract_resource_metadata_from_www_auth(challenge), upstream.url
    )
    resource = resource_url_from_server_url(upstream.url)
    described = None
    for url in urls:
        response = await client.send(sdk.create_oauth_metadata_request(url))
        if response.status_code == 200:
            described = ProtectedResourceMetadata.model_validate_json(response.content)
            if not check_resource_allowed(requested_resource=resource, configured_resource=str(described.resource)):
                raise errors.Upstream(f"{upstream.name}: the metadata are those of another server")
            resource = str(described.resource)
            break
    assert upstream.oauth is not None
    metadata = await _metadata(
        client, upstream, [str(url) for url in described.authorization_servers] if described else []
    )
    scope = " ".join(upstream.oauth.scopes) or sdk.get_client_metadata_scopes(
        sdk.extract_scope_from_www_auth(challenge), described, metadata, GRANTS
    )
    return Server(metadata=metadata, resource=resource, scope=scope or "")


async def _challenge(client: httpx2.AsyncClient, upstream: Upstream) -> httpx2.Response:
    """Return the response to a request without a token, whose header names the metadata. Its body isn't read."""
    body = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream"}
    async with client.stream("POST", upstream.url, json=body, headers=headers) as response:
        return response


async def _metadata(client: httpx2.AsyncClient, upstream: Upstream, advertised: list[str]) -> OAuthMetadata:
    wanted = upstream.oauth.issuer if upstream.oauth else ""
    matching = [url for url in advertised if not wanted or sdk.issuers_match(url, wanted)]
    if advertised and not matching:
        raise errors.Upstream(f"{upstream.name}: does not use the declared oauth.issuer")
    server = matching[0] if matching else None
    for url in sdk.build_oauth_authorization_server_metadata_discovery_urls(server, upstream.url):
        response = await client.send(sdk.create_oauth_metadata_request(url))
        if response.status_code != 200:
            continue
        metadata = OAuthMetadata.model_validate_json(response.content)
        expected = wanted or server or upstream.origin
        if not (sdk.issuers_match(str(metadata.issuer), expected) or _same_origin(metadata, server, upstream)):
            raise errors.Upstream(f"{upstream.name}: the authorization server calls itself by another name")
        _check_endpoints(upstream, metadata)
        return metadata
    raise errors.Upstream(f"{upstream.name}: names no authorization server, so that nobody can sign in")


def _same_origin(metadata: OAuthMetadata, server: str | None, upstream: Upstream) -> bool:
    """Return whether a server that doesn't name its authorization server (before 2025-06-18) is its own."""
    declared = upstream.oauth.issuer if upstream.oauth else ""
    own = httpx2.URL(upstream.url)
    named = httpx2.URL(str(metadata.issuer))
    return not server and not declared and (own.scheme, own.netloc) == (named.scheme, named.netloc)


def _check_endpoints(upstream: Upstream, metadata: OAuthMetadata) -> None:
    endpoints = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.registration_endpoint)
    if upstream.url.startswith("https:") and any(url and url.scheme != "https" for url in endpoints):
        raise errors.Upstream(f"{upstream.name}: the authorization server has addresses without https")
    methods = metadata.code_challenge_methods_supported
    if methods is not None and "S256" not in methods:
        raise errors.Upstream(f"{upstream.name}: the authorization server does not support PKCE with S256")


async def _registered(client: httpx2.AsyncClient, upstream: Upstream, server: Server, callback: str) -> Server:
    if (declared := _declared_client(upstream, server)) is not None:
        return server.model_copy(update={"client": declared})
    if server.metadata.registration_endpoint is None:
        raise OAuthRegistrationError("no registration endpoint")
    wanted = OAuthClientMetadata(
        client_name="Commonplace",
        redirect_uris=[AnyUrl(callback)],
        grant_types=list(GRANTS),
        application_type="web" if callback.startswith("https:") else "native",
        scope=server.scope or None,
    )
    request = sdk.create_client_registration_request(server.metadata, wanted, upstream.origin)
    registered = await sdk.handle_registration_response(await client.send(request))
    check_registration_usable(registered)
    return server.model_copy(update={"client": registered})


def _declared_client(upstream: Upstream, server: Server) -> OAuthClientInformationFull | None:
    declared: OAuth | None = upstream.oauth
    if declared is None or not declared.client_id:
        return None
    secret = upstream.fill(declared.client_secret) or None
    methods = server.metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
    if not secret:
        method = "none"
    return OAuthClientInformationFull(
        redirect_uris=None,
        client_id=declared.client_id,
        client_secret=secret,
        token_endpoint_auth_method=method,
    )


async def _tokens(
    client: httpx2.AsyncClient, upstream: Upstream, server: Server, form: Mapping[str, str]
) -> OAuthTokens:
    assert server.client is not None
    return await token_request(
        client,
        upstream,
        str(server.metadata.token_endpoint),
        {**form, "resource": server.resource},
        client_id=server.client.client_id,
        client_secret=server.client.client_secret or "",
        by_header=server.client.token_endpoint_auth_method == "client_secret_basic",
    )


async def token_request(
    client: httpx2.AsyncClient,
    upstream: Upstream,
    url: str,
    form: Mapping[str, str],
    *,
    client_id: str,
    client_secret: str,
    by_header: bool,
) -> OAuthTokens:
    """Ask a token endpoint. Raises Refused if it says no, and errors.Upstream if it can't answer now."""
    sent = {key: value for key, value in form.items() if value}
    headers = {"accept": "application/json"}
    if client_secret and by_header:
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        sent["client_id"] = client_id
        if client_secret:
            sent["client_secret"] = client_secret
    response = await client.post(url, data=sent, headers=headers)
    if response.status_code == 429 or response.status_code >= 500:
        raise errors.Upstream(f"{upstream.name}: the authorization server answered with status {response.status_code}")
    if response.status_code not in (200, 201):
        raise SignInRefused(f"{upstream.name}: the authorization server refused (status {response.status_code})")
    token = OAuthToken.model_validate_json(response.content)
    lifetime = min(token.expires_in, MAX_EXPIRES_S) if token.expires_in is not None else None
    return OAuthTokens(
        access_token=token.access_token,
        refresh_token=token.refresh_token or "",
        expires_at=time.time() + lifetime if lifetime is not None else 0.0,
    )
