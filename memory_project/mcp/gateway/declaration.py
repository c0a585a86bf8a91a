"""Declarations of upstream MCP servers, in TOML validated by pydantic.

A file (MCP_UPSTREAMS) has a table [upstreams.NAME] for each server. A declaration in the admin has the same keys,
without the table. Credentials stand in environment variables, which a declaration names as ${UPSTREAM_…}.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from foundation.operations.declarations import declared, read_toml
from foundation.operations.errors import Degraded, Invalid

NAME = re.compile(r"[a-z][a-z0-9]{0,19}")  # no underscore, so that NAME_tool names one tool only
VARIABLE = re.compile(r"\$\{([^${}]*)\}")
VARIABLE_NAME = re.compile(r"UPSTREAM_[A-Z0-9_]{1,80}")
PERSON_SECRET = "PERSON_SECRET"  # the variable that stands for the secret that each person has stored
NAME_RULE = "1 to 20 lower-case letters and digits, beginning with a letter"


def origin_of(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


class UpstreamPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OAuth(UpstreamPart):
    """How Commonplace signs in to an upstream that asks for OAuth.

    Without `client_id`, Commonplace registers itself (dynamic client registration).
    """

    client_id: str = ""
    client_secret: str = ""  # names a variable
    issuer: str = Field(default="", description="the only authorization server that is used")
    scopes: tuple[str, ...] = ()
    client_credentials: bool = Field(default=False, description="sign in as the client itself, without a person")

    @model_validator(mode="after")
    def _complete(self) -> OAuth:
        if self.client_secret and not (self.client_id and self.issuer):
            raise ValueError("client_secret needs client_id and issuer, so that no other server gets the secret")
        if self.client_credentials and not self.client_secret:
            raise ValueError("client_credentials needs client_id, client_secret and issuer")
        return self


class Exchange(UpstreamPart):
    """Exchange of the token that the caller has of OIDC_ISSUER for one that the upstream accepts (RFC 8693)."""

    token_url: str
    client_id: str
    client_secret: str = ""
    audience: str = ""
    scopes: tuple[str, ...] = ()

    @field_validator("token_url")
    @classmethod
    def _at_the_issuer(cls, value: str) -> str:
        if not settings.OIDC_ISSUER:
            raise ValueError("an exchange needs OIDC_ISSUER, because callers must come with a token of its own")
        if origin_of(value) != origin_of(settings.OIDC_ISSUER):
            raise ValueError("must be at OIDC_ISSUER, because a caller's token goes back to its issuer only")
        return value


class Upstream(UpstreamPart):
    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    description: str = Field(default="", max_length=500)
    personas: tuple[str, ...] = Field(
        default=(), description="personas that may use the tools, or * for all; if empty, only operators"
    )
    credentials: Literal["service", "person", "exchange"] = Field(
        default="service",
        description="whose credential goes upstream: that of the declaration, each person's own, or one exchanged",
    )
    oauth: OAuth | None = None
    exchange: Exchange | None = None
    shares_session: bool = Field(
        default=False, description="the server keeps no state between calls, so that people may share one session"
    )
    review: Literal["changes", "all"] = Field(
        default="changes", description="whether the tools of the first list wait for an operator, too"
    )
    protocol: Literal["auto", "legacy"] = Field(
        default="auto", description="legacy begins with the handshake of revisions before 2026-07-28"
    )
    timeout_s: float = Field(default=30.0, gt=0, le=3_600)
    max_bytes: int = Field(default=5_000_000, ge=10_000, le=200_000_000, description="maximum size of one message")
    calls_at_once: int = Field(default=16, ge=1, le=1_000)
    calls_per_person: int = Field(default=4, ge=1, le=1_000)
    entities: dict[str, tuple[str, ...]] = Field(
        default={}, description="tool, or *, → JSONPaths to entities in {arguments, result}"
    )
    platform: str = Field(default="", description="the platform of data sets that the tools name, such as trino")
    _is_from_file: bool = PrivateAttr(default=False)  # not a field, because the text must not set it

    @property
    def is_from_file(self) -> bool:
        return self._is_from_file

    @field_validator("name")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(f"must be {NAME_RULE}")
        return value

    @field_validator("url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password):
            raise ValueError("must be http:// or https:// with a host and without credentials")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Upstream:
        if bool(self.command) == bool(self.url):
            raise ValueError("name either a command or a url")
        for field, needed in (("args", "command"), ("env", "command"), ("cwd", "command"), ("headers", "url")):
            if getattr(self, field) and not getattr(self, needed):
                raise ValueError(f"{field} needs a {needed}")
        self._check_credentials()
        for text in self._texts():
            for variable in VARIABLE.findall(text):
                if not VARIABLE_NAME.fullmatch(variable) and variable != PERSON_SECRET:
                    raise ValueError(f"{variable[:40]!r} must begin with UPSTREAM_, so that no other secret is sent")
            if "${" in VARIABLE.sub("", text):
                raise ValueError("a variable is written as ${UPSTREAM_…}")
        return self

    def _check_credentials(self) -> None:
        in_headers = any(PERSON_SECRET in VARIABLE.findall(text) for text in self.headers.values())
        elsewhere = any(
            PERSON_SECRET in VARIABLE.findall(text) for text in self._texts() if text not in self.headers.values()
        )
        if elsewhere or (in_headers and self.credentials != "person"):
            raise ValueError("${PERSON_SECRET} stands in headers only, with credentials = person")
        if self.credentials == "person" and not (self.url and in_headers != bool(self.oauth)):
            raise ValueError("credentials = person needs a url, and either ${PERSON_SECRET} in a header or oauth")
        if (self.credentials == "exchange") != bool(self.exchange) or (self.exchange and not self.url):
            raise ValueError("credentials = exchange needs a url and a table [exchange]")
        if self.oauth and (not self.url or self.exchange):
            raise ValueError("oauth needs a url, and can't be combined with exchange")
        if (self.oauth or self.exchange) and "authorization" in map(str.lower, self.headers):
            raise ValueError("the header Authorization can't be combined with oauth or exchange")
        if self.oauth and self.oauth.client_credentials and self.credentials == "person":
            raise ValueError("client_credentials signs in without a person")

    @property
    def wants_secret(self) -> bool:
        """Return whether each person stores a secret, which goes upstream in a header."""
        return self.credentials == "person" and self.oauth is None

    @property
    def wants_sign_in(self) -> bool:
        """Return whether somebody has to sign in at the upstream's authorization server."""
        return self.oauth is not None and not self.oauth.client_credentials

    @property
    def origin(self) -> str:
        return origin_of(self.url) if self.url else ""

    def _texts(self) -> list[str]:
        secrets = [part.client_secret for part in (self.oauth, self.exchange) if part]
        return [*self.args, *self.env.values(), *self.headers.values(), *secrets]

    def filled(self, values: Mapping[str, str], person_secret: str = "") -> dict[str, str]:
        return {key: self.fill(value, person_secret) for key, value in values.items()}

    def fill(self, text: str, person_secret: str = "") -> str:
        """Return a text with the values of its variables. Raises Degraded if one is unset or empty."""

        def value_of(match: re.Match[str]) -> str:
            if match[1] == PERSON_SECRET and person_secret:
                return person_secret
            if not (value := os.environ.get(match[1], "")):
                raise Degraded(f"the upstream {self.name!r} needs the environment variable {match[1]}")
            return value

        # The variables are read at each use, so that the credential is stored nowhere else.
        return VARIABLE.sub(value_of, text)

    def missing_variables(self) -> list[str]:
        """Return the environment variables that the declaration names and that are unset or empty."""
        named = {variable for text in self._texts() for variable in VARIABLE.findall(text)}
        return sorted(name for name in named if VARIABLE_NAME.fullmatch(name) and not os.environ.get(name))

    def must_be_public(self, host: str) -> bool:
        return not self._is_from_file and host.lower() not in settings.MCP_UPSTREAM_PRIVATE_HOSTS


def parse(name: str, values: Mapping[str, Any], *, is_from_file: bool = False) -> Upstream:
    """Return the upstream of one declaration. Raises Invalid, which names the field."""
    upstream = declared(Upstream, name, values)
    if not is_from_file and upstream.command:
        raise Invalid(
            "starts a program on this machine, which only a file (MCP_UPSTREAMS) may do",
            field=f"{name}.command",
            allowed="a url",
        )
    upstream._is_from_file = is_from_file
    return upstream


def parse_text(name: str, text: str) -> Upstream:
    """Return the upstream of a declaration in the admin. Raises Invalid."""
    return parse(name, read_toml(text, name))


def from_file(path: Path) -> dict[str, Upstream]:
    """Return the upstreams that a file declares, by name.

    Raises Invalid for a file that can't be read, and names the first declaration that is not valid.
    """
    try:
        content = read_toml(path.read_text(encoding="utf-8"), "MCP_UPSTREAMS")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "is not UTF-8"
        raise Invalid(problem, field="MCP_UPSTREAMS", allowed="a TOML file") from None
    tables = content.pop("upstreams", {})
    if content:
        raise Invalid("is unknown", field=f"MCP_UPSTREAMS.{next(iter(content))[:40]}", allowed="[upstreams.NAME]")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise Invalid("is no table", field="MCP_UPSTREAMS.upstreams", allowed="[upstreams.NAME]")
    return {name: parse(name, table, is_from_file=True) for name, table in tables.items()}
