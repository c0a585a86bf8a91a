from __future__ import annotations

import gc
import sys
import threading
import uuid
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memories.retrieval.warm_up import warm_up
from memory_project.management.arguments import port
from memory_project.models import User
from memory_project.operating.observability import tracing
from memory_project.operating.shared import secret_key_check

PACKAGES = ("memory_project", "memories", "knowledge", "analysis")
WARM_UP_AFTER_S = 1.0  # seconds before the embedding model is loaded, in which the client's first requests are served


class Command(BaseCommand):
    help = "Serve the MCP tools. Over stdio for one person (--as), over HTTP for everyone with a token."
    requires_system_checks = ()  # they take a second; check_database() replaces them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
        parser.add_argument("--as", dest="email", default="", help="stdio: e-mail address of the person to serve")
        parser.add_argument("--persona", default="", help="stdio: the active persona; default: the person's default")
        parser.add_argument("--graph", default="", help="stdio: use the knowledge graph of this persona")
        parser.add_argument(
            "--profile", default="", choices=["", "anthropic"], help="offer exactly the tools of the named MCP server"
        )
        parser.add_argument(
            "--toolsets", default="", help="comma-separated toolsets, or all; default: the persona's, or MCP_TOOLSETS"
        )
        parser.add_argument("--read-only", action="store_true", help="stdio: offer only tools and commands that read")
        parser.add_argument(
            "--output-schemas", action="store_true", help="stdio: list the schemas of the tools' responses, too"
        )
        parser.add_argument("--host", default=settings.COMMONPLACE_HOST, help="http: address to listen on")
        parser.add_argument(
            "--port",
            type=port,
            default=settings.COMMONPLACE_PORT + 1,
            help="http: port to listen on",
        )

    def handle(self, *, transport: str, toolsets: str, **options: Any) -> None:
        names = [part.strip() for part in toolsets.split(",") if part.strip()] or None
        check_options(transport, toolsets, names, options)
        self.check_database()
        secret_key_check.refuse_other_key()
        try:
            if transport == "http":
                return self.serve_http(names, options["profile"], options["host"], options["port"])
            self.serve_stdio(names, options)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None

    def check_database(self) -> None:
        """Raise CommandError unless exactly the migrations of this version have been applied."""
        # Comparing file names with the table is faster than Django's loader, which imports every migration.
        own_apps = [config for config in apps.get_app_configs() if config.name.partition(".")[0] in PACKAGES]
        migrations = {
            (config.label, file.stem)
            for config in own_apps
            for file in (Path(config.path) / "migrations").glob("[0-9]*.py")
        }
        try:
            with connection.cursor() as cursor:
                labels = [config.label for config in own_apps]
                cursor.execute("SELECT app, name FROM django_migrations WHERE app = ANY(%s)", [labels])
                applied = set(cursor.fetchall())
        except DatabaseError as error:
            first = str(error).strip().splitlines()[0]
            raise CommandError(f"The database is not ready ({first}). Run the command `migrate` first.") from None
        if missing := migrations - applied:
            raise CommandError(f"The database lacks {len(missing)} migrations. Run the command `migrate` first.")
        if newer := sorted(".".join(migration) for migration in applied - migrations):
            raise CommandError(f"The database was migrated by a newer version ({newer[0]}): install that version.")

    def serve_stdio(self, toolsets: list[str] | None, options: dict[str, Any]) -> None:
        email = options["email"]
        persona = options["persona"]
        gc.disable()
        from memory_project.mcp.server import build_server  # noqa: PLC0415 - takes half a second, which --help saves

        gc.freeze()  # imported objects live forever, so garbage collections can skip them
        gc.enable()
        if not email:
            raise CommandError("Name the person to serve: --as EMAIL")
        session = uuid.uuid4().hex  # each process serves one connection

        person = User.objects.filter(email=email.strip().lower()).first()
        if person is None:
            raise CommandError(f"There is no account {email!r}; the People page lists all accounts.")

        def identify(request: object) -> Caller:
            return build_caller(
                person,
                channel="mcp-stdio",
                persona=persona,
                session=session,
                connection=f"stdio {session}",
                graph=options["graph"],
            )

        try:
            toolsets = toolsets or list(identify(None).toolsets) or None
        except DomainError as error:
            raise CommandError(error.message) from None
        finally:
            connection.close()
        tracing.start("mcp")
        timer = threading.Timer(WARM_UP_AFTER_S, warm_up)
        timer.daemon = True
        timer.start()
        try:
            server = build_server(
                toolsets=toolsets,
                identify=identify,
                profile=options["profile"],
                read_only=options["read_only"],
                output_schemas=options["output_schemas"],
            )
            server.run("stdio")
        finally:
            timer.cancel()
            tracing.flush()

    def serve_http(self, toolsets: list[str] | None, profile: str, host: str, port: int) -> None:
        import uvicorn  # noqa: PLC0415 - not needed for stdio
        from starlette.applications import Starlette  # noqa: PLC0415 - not needed for stdio

        from memory_project.accounts.recognition import owner_of  # noqa: PLC0415 - not needed for stdio
        from memory_project.mcp.http_app import http_app, mcp_routes  # noqa: PLC0415 - not needed for stdio
        from memory_project.mcp.server import build_server  # noqa: PLC0415 - slow, see above
        from memory_project.operating.observability import exposition, process_metrics  # noqa: PLC0415 - not needed for stdio
        from memory_project.web.admission import protected  # noqa: PLC0415 - not needed for stdio
        from memory_project.web.request_limits import uvicorn_options  # noqa: PLC0415 - not needed for stdio
        from memory_project.web.stopping import drained  # noqa: PLC0415 - not needed for stdio

        process_metrics.start("web")
        tracing.start("web")
        exposition.serve_on_own_port()
        server = build_server(toolsets=toolsets or ["all"], profile=profile)
        application = http_app(server, None if toolsets or profile else settings.MCP_TOOLSETS)
        warm_up()
        app = Starlette(routes=mcp_routes(application), lifespan=lambda _: drained(server.running()))
        connection.close()
        print(f"MCP over HTTP at http://{host}:{port}/mcp", file=sys.stderr)
        uvicorn.run(protected(app, owner_of=owner_of), host=host, port=port, **uvicorn_options())


def check_options(transport: str, toolsets: str, names: list[str] | None, options: dict[str, Any]) -> None:
    """Raise CommandError for an option that would have no effect, because it was meant to restrict something."""
    if toolsets and not names:
        raise CommandError("--toolsets names none; allowed: toolsets separated by commas, or all")
    if names and options["profile"]:
        raise CommandError("--profile offers exactly the tools of another server: leave out --toolsets")
    if transport == "stdio":
        return
    for name in ("read_only", "output_schemas"):
        if options[name]:
            raise CommandError(f"--{name.replace('_', '-')} is for stdio: over HTTP, each client selects it by its URL")
    if unused := [name for name in ("email", "persona", "graph") if options[name]]:
        option = "--as" if unused[0] == "email" else f"--{unused[0]}"
        raise CommandError(f"{option} is for stdio: over HTTP, each token says whose it is")
