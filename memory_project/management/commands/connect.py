from __future__ import annotations

import getpass
import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from foundation.operations.errors import DomainError, Invalid
from memory_project.agents.client_files.connection import (
    DEFAULT_NAME,
    TOKEN_VARIABLE,
    ClientConnection,
    mcp_url,
    stdio_connection,
)
from memory_project.agents.client_files.files import FileChange, plan, write
from memory_project.agents.client_files.snippets import snippet
from memory_project.agents.client_files.table import BY_NAME, Client, Entry
from memory_project.models import User

PLACEHOLDER = "cpl_YOUR_TOKEN"


class Command(BaseCommand):
    help = "Print an MCP client's configuration, or write its file. Example: commonplace connect claude-code --write"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("client", choices=sorted(BY_NAME), metavar="CLIENT", help=", ".join(sorted(BY_NAME)))
        way = parser.add_mutually_exclusive_group()
        way.add_argument("--url", default="", help="connect over HTTP to this address; default: COMMONPLACE_URL")
        way.add_argument("--as", dest="email", default="", help="connect over stdio as this person, on this machine")
        parser.add_argument(
            "--token",
            action="store_true",
            help=f"use a token instead of signing in with OAuth: from {TOKEN_VARIABLE}, or asked for",
        )
        parser.add_argument("--toolsets", default="", help="comma-separated toolsets, or all; default: the server's")
        parser.add_argument(
            "--read-only", action="store_true", help="offer only the tools and commands that change nothing"
        )
        parser.add_argument("--scope", choices=["user", "project"], default="user", help="whose file; default: user")
        parser.add_argument("--name", default=DEFAULT_NAME, help=f"name of the entry; default: {DEFAULT_NAME}")
        parser.add_argument("--write", action="store_true", help="write the file, after showing the difference")
        parser.add_argument("--remove", action="store_true", help="take the entry away, after showing the difference")
        parser.add_argument("--replace", action="store_true", help="overwrite another entry of the same name")
        parser.add_argument("--yes", action="store_true", help="write without asking")
        parser.add_argument("--json", action="store_true", help="print the entry as JSON, for scripts")

    def handle(self, *, client: str, **options: Any) -> None:
        try:
            check_options(options)
            if options["remove"]:
                return self.change(BY_NAME[client], None, "", options)
            token = token_for(BY_NAME[client], options)
            connection = connection_for(options, token)
            entry = BY_NAME[client].entry(connection)
            if token and is_readable_on_the_way(connection.url):
                self.stderr.write("Warning: the token is sent without encryption. Use an https address.")
            if options["write"]:
                return self.change(BY_NAME[client], entry, token, options)
            self.print_entry(BY_NAME[client], connection, entry, options)
        except DomainError as error:
            raise CommandError(error.message) from None

    def print_entry(self, client: Client, connection: ClientConnection, entry: Entry, options: dict[str, Any]) -> None:
        path = file_of(client, options)
        if options["json"]:
            answer = {"client": client.name, "path": path and str(path), "format": client.format}
            keys = [*client.container, connection.name]
            return self.stdout.write(json.dumps({**answer, "keys": keys, "entry": entry}, ensure_ascii=False, indent=2))
        self.stdout.write(f"# {path or client.where()}")
        self.stdout.write(snippet(client, connection).rstrip())

    def change(self, client: Client, entry: Entry | None, token: str, options: dict[str, Any]) -> None:
        path = client.path(options["scope"], sys.platform)
        change = plan(client, path, options["name"], entry, replace=options["replace"])
        if not change.is_needed:
            return self.stdout.write(f"{change.path} is up to date.")
        is_secret = is_literal(client, token)
        self.stdout.write(change.diff(token if is_secret else ""))
        if not options["yes"] and not self.is_confirmed():
            raise CommandError("Nothing was written.")
        self.report(change, write(change, is_secret=is_secret, is_shared=options["scope"] == "project"), client)
        if entry is not None and token and not is_secret:
            self.stdout.write(
                f"Set the environment variable {TOKEN_VARIABLE} to the token before you start the client."
            )

    def is_confirmed(self) -> bool:
        if not sys.stdin.isatty():
            raise CommandError("There is no terminal to ask on: pass --yes to write.")
        return input("Write this? [y/N] ").strip().lower() in ("y", "yes")

    def report(self, change: FileChange, backup: Path | None, client: Client) -> None:
        kept = f" The earlier text is in {backup}." if backup else ""
        self.stdout.write(f"Wrote {change.path}.{kept} Restart {client.title} to load it.")


def check_options(options: dict[str, Any]) -> None:
    """Raise Invalid for options that contradict each other or would have no effect."""
    if options["remove"] and (unused := [name for name in ("write", "replace", "token", "json") if options[name]]):
        raise Invalid("is not accepted with --remove", field=unused[0], allowed="--name, --scope, --yes")
    if options["json"] and options["write"]:
        raise Invalid("is not accepted with --write", field="json", allowed="one of the two")
    if options["email"] and options["token"]:
        raise Invalid("is not accepted with --as: over stdio nobody needs one", field="token", allowed="--url")


def file_of(client: Client, options: dict[str, Any]) -> Path | None:
    """Return the client's file, or None if the client has none on this operating system."""
    if options["scope"] == "user" and sys.platform not in client.user:
        return None
    return client.path(options["scope"], sys.platform)


def is_literal(client: Client, token: str) -> bool:
    return bool(token) and not client.variable


def is_readable_on_the_way(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def token_for(client: Client, options: dict[str, Any]) -> str:
    """Return the text that stands for the token in the client's file, or nothing."""
    if not options["token"]:
        return ""
    if client.variable:
        return client.variable % TOKEN_VARIABLE
    if options["scope"] == "project":
        raise Invalid(
            f"{client.title} reads no environment variable, and a project's file may be shared",
            field="token",
            allowed="--scope user",
        )
    if not options["write"]:
        return PLACEHOLDER
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token and sys.stdin.isatty():
        token = getpass.getpass("Token: ").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        allowed = f"a token of the Connect page in the environment variable {TOKEN_VARIABLE}"
        raise Invalid("is missing or has characters that no token has", field="token", allowed=allowed)
    return token


def connection_for(options: dict[str, Any], token: str) -> ClientConnection:
    names = [part.strip() for part in options["toolsets"].split(",") if part.strip()]
    check_toolsets(names, options)
    if not options["email"]:
        if options["read_only"] and not names:
            names = list(settings.MCP_TOOLSETS)
        url = mcp_url(options["url"] or settings.COMMONPLACE_URL, names, read_only=options["read_only"])
        return ClientConnection(url=url, token=token, name=options["name"])
    email = options["email"].strip().lower()
    if not User.objects.filter(email=email, is_active=True).exists():
        raise Invalid(
            f"there is no active account {email[:254]!r}", field="as", allowed="an address of the People page"
        )
    chosen = ["--toolsets", ",".join(names)] if names else []
    chosen += ["--read-only"] if options["read_only"] else []
    return stdio_connection(email, chosen, name=options["name"])


def check_toolsets(names: list[str], options: dict[str, Any]) -> None:
    from memory_project.mcp.tool_list import enabled_tools  # noqa: PLC0415 - takes half a second

    if options["toolsets"] and not names:
        raise Invalid("names none", field="toolsets", allowed="toolsets separated by commas, or all")
    allowed = {*(tool.toolset for tool in enabled_tools(["all"])), "all"} if names else set()
    if unknown := [name for name in names if name not in allowed]:
        raise Invalid(f"{unknown[0][:40]!r} is unknown", field="toolsets", allowed=", ".join(sorted(allowed)))
