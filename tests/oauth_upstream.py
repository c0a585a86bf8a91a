"""An MCP server over HTTP that asks for a token, with its authorization server, in a thread of the tests."""

from __future__ import annotations

import base64
import hashlib
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass
class OAuthUpstream:
    url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)  # accepted token → whose it is
    refresh_tokens: dict[str, str] = field(default_factory=dict)  # each is accepted once
    codes: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # code → person, challenge, redirect_uri
    lifetime_s: int = 3_600
    forms: list[dict[str, str]] = field(default_factory=list)  # what the token endpoint was asked
    issuer: str = ""  # if it calls itself by another name
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def authorize(self, address: str, person: str) -> dict[str, str]:
        """Let a person sign in. Returns the parameters of the callback."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (query["code_challenge_method"], query["resource"]) == ("S256", f"{self.url}/mcp")
        code = f"code-{next(self._numbers)}"
        self.codes[code] = (person, query["code_challenge"], query["redirect_uri"])
        return {"code": code, "state": query["state"]}

    def issued(self, person: str) -> dict[str, Any]:
        number = next(self._numbers)
        access, renewal = f"access-{number}", f"refresh-{number}"
        self.tokens[access] = person
        self.refresh_tokens[renewal] = person
        return {
            "access_token": access,
            "token_type": "Bearer",
            "refresh_token": renewal,
            "expires_in": self.lifetime_s,
        }

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        self.forms.append(form)
        match form["grant_type"]:
            case "authorization_code":
                person, challenge, address = self.codes.pop(form["code"], ("", "", ""))
                digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
                is_right = digest.rstrip(b"=").decode() == challenge and form["redirect_uri"] == address
                return self.issued(person) if person and is_right else None
            case "refresh_token":
                time.sleep(0.1)  # so that a second refresh would meet the first
                person = self.refresh_tokens.pop(form["refresh_token"], "")
                return self.issued(person) if person else None
            case "client_credentials":
                return self.issued("the client")
        return self.issued(f"exchanged {form['subject_token'][-5:]}")

    def metadata(self) -> dict[str, Any]:
        endpoints = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in ENDPOINTS.items()}
        methods = {"code_challenge_methods_supported": ["S256"], "response_types_supported": ["code"]}
        return {"issuer": self.issuer or self.url, **endpoints, **methods}

    async def answer(self, request: Request) -> JSONResponse:
        match request.url.path:
            case "/.well-known/oauth-protected-resource" | "/.well-known/oauth-protected-resource/mcp":
                return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
            case "/.well-known/oauth-authorization-server":
                return JSONResponse(self.metadata())
            case "/register":
                registered = {"client_id": "registered", "token_endpoint_auth_method": "none"}
                return JSONResponse({**await request.json(), **registered}, status_code=201)
            case "/token":
                form = {name: str(value) for name, value in (await request.form()).items()}
                answer = self.token(form)
                return JSONResponse(answer or {"error": "invalid_grant"}, status_code=200 if answer else 400)
        return JSONResponse({}, status_code=404)


ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register"}


@dataclass
class Protected:
    upstream: OAuthUpstream
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        if request.url.path != "/mcp":
            return await (await self.upstream.answer(request))(scope, receive, send)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.upstream.tokens:
            about = f'Bearer resource_metadata="{self.upstream.url}/.well-known/oauth-protected-resource"'
            refusal = JSONResponse({"error": "invalid_token"}, status_code=401, headers={"WWW-Authenticate": about})
            return await refusal(scope, receive, send)
        scope["person"] = self.upstream.tokens[token]
        return await self.app(scope, receive, send)


@contextmanager
def serve() -> Iterator[OAuthUpstream]:
    upstream = OAuthUpstream()
    mcp: MCPServer[Any] = MCPServer("crm", version="1.0")

    @mcp.tool()
    def who(context: Context) -> str:
        """Say whose token came."""
        request = context.request_context.request
        return str(request.scope["person"]) if request is not None else ""

    app = Protected(upstream, mcp.streamable_http_app())
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="on")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    upstream.url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    yield upstream
    running.should_exit = True
    thread.join(10)
