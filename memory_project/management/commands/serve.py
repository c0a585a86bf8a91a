from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connections

from memory_project.management.arguments import between, port
from memory_project.operating.shared import secret_key_check, static_files


class Command(BaseCommand):
    help = "Run the web server alone (pages, REST, MCP). `up` also starts the database and the worker."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.COMMONPLACE_HOST, help="address to listen on")
        parser.add_argument("--port", type=port, default=settings.COMMONPLACE_PORT, help="port to listen on")
        parser.add_argument("--processes", type=between(1, 256), default=1, help="number of processes")

    def handle(self, *, host: str, port: int, processes: int, **options: Any) -> None:
        secret_key_check.refuse_other_key_at_start()
        connections.close_all()  # the processes of the server open their own
        static_files.ensure_collected()
        import uvicorn  # noqa: PLC0415 - not needed for --help

        from memory_project.operating.observability import exposition  # noqa: PLC0415 - not needed for --help
        from memory_project.web.request_limits import uvicorn_options  # noqa: PLC0415 - not needed for --help
        from memory_project.web.stopping import Processes  # noqa: PLC0415 - not needed for --help

        exposition.serve_on_own_port()
        application = "memory_project.asgi:application"
        options = {"host": host, "port": port, "workers": processes, **uvicorn_options()}
        if processes == 1:
            uvicorn.run(application, **options)
        else:
            Processes(application, **options).run()
