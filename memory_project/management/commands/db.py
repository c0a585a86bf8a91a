from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


class Command(BaseCommand):
    help = "Start or stop the embedded PostgreSQL, or show its status."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("act", choices=["start", "stop", "status"], help="what to do")
        parser.add_argument("--json", action="store_true", dest="as_json", help="status: print JSON")

    def handle(self, *, act: str, as_json: bool, **options: Any) -> None:
        if settings.DATABASE_URL:
            raise CommandError("DATABASE_URL is set: this command manages the embedded PostgreSQL only.")
        if as_json and act != "status":
            raise CommandError(f"--json belongs to `status`, not to `{act}`.", returncode=2)
        server = EmbeddedPostgres(settings.COMMONPLACE_HOME)
        try:
            if as_json:
                return self.stdout.write(json.dumps(asdict(server.status()), default=str))
            getattr(self, act)(server)
        except EmbeddedPostgresError as error:
            raise CommandError(str(error)) from None

    def start(self, server: EmbeddedPostgres) -> None:
        started = server.ensure_running()
        self.stdout.write("started" if started else "already running")

    def stop(self, server: EmbeddedPostgres) -> None:
        self.stdout.write("stopped" if server.stop() else "was not running")

    def status(self, server: EmbeddedPostgres) -> None:
        status = server.status()
        running = f"running, process {status.pid}, {status.clients} connections" if status.running else "stopped"
        self.stdout.write(f"{running}\ndata    {status.data}\nsocket  {status.socket}")
