from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django_q.tasks import async_task

from memory_project import leftovers
from memory_project.__main__ import program
from memory_project.accounts import exposure
from memory_project.arguments import port
from memory_project.backups.folders import remove_leftovers
from memory_project.machines import static_files
from memory_project.models import User
from memory_project.postgres.server import EmbeddedPostgres, EmbeddedPostgresError

READY_WITHIN_S = 90
STOP_SLACK_S = 10  # seconds that a process has to stop, beside those that the web server gives running calls
MAX_PAUSE_S = 30  # maximum number of seconds between restarts of a process that keeps ending


class Command(BaseCommand):
    help = "Run everything: database, web and MCP server, background worker. Ctrl-C stops all of it."
    requires_system_checks = ()  # the database may not run yet; prepare() runs the checks

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.COMMONPLACE_HOST, help="address to listen on")
        parser.add_argument("--port", type=port, default=settings.COMMONPLACE_PORT, help="port to listen on")
        parser.add_argument("--no-demo", action="store_true", help="start empty instead of with demo content")

    def handle(self, *, host: str, port: int, no_demo: bool, **options: Any) -> None:
        with single_run(settings.COMMONPLACE_HOME):
            state = settings.COMMONPLACE_HOME / "up.json"
            owns_database = self.end_leftovers(state)
            refuse_taken_port(host, port)
            # From here on, a signal raises SystemExit, so that `finally` runs.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, exit_on_signal)
            server = None if settings.DATABASE_URL else EmbeddedPostgres(settings.COMMONPLACE_HOME)
            run = ProcessGroup(state, server, owns_database)
            try:
                run.start_database()
                self.prepare(host, no_demo)
                run.start_processes(commands(host, port))
                queue_gap_closing()
                wait_until_ready(host, port, run.processes["web"])
                self.panel(host, port)
                self.watch(run)
            except EmbeddedPostgresError as error:
                raise CommandError(str(error)) from None
            finally:
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, run.on_second_signal)
                run.stop()
                self.stdout.write("stopped")

    def end_leftovers(self, state: Path) -> bool:
        """End processes that are still running because the `up` that started them was killed.

        Returns whether that run had started the database, because then this run has to stop it.
        """
        earlier = leftovers.read(state)
        groups = [group for group in earlier.groups if group.runs()]
        for group in groups:
            group.end()
        if groups:
            self.stdout.write(f"ended {len(groups)} processes left over from an earlier run")
        return earlier.owns_database

    def prepare(self, host: str, no_demo: bool) -> None:
        remove_leftovers()
        call_command("migrate", verbosity=0)
        call_command("check", databases=["default"], stdout=io.StringIO())
        is_public = exposure.is_public(host, settings.COMMONPLACE_URL)
        if is_public and (accounts := exposure.open_demo_accounts()):
            raise CommandError(
                f"Other machines can reach {host} or {settings.COMMONPLACE_URL}, and {', '.join(accounts)} still have "
                "the demo password. Change each password with `manage.py changepassword EMAIL`."
            )
        static_files.ensure_collected()
        if not no_demo and not is_public and not User.objects.exists():
            self.stdout.write("first run: loading demo content (once)")
            call_command("demo", stdout=io.StringIO())

    def panel(self, host: str, port: int) -> None:
        from memory_project import demo  # noqa: PLC0415 - only for its constants

        hostname = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::") else host
        url = f"http://{hostname}:{port}"
        has_demo = User.objects.filter(email=demo.address("maya")).exists()
        configuration = {
            "mcpServers": {"commonplace": stdio_client(demo.address("maya") if has_demo else "you@example.org")}
        }
        lines = ["", f"  Commonplace is at {url}", ""]
        if has_demo:
            lines += [
                f"  Sign in as {demo.address('maya')} (analyst), {demo.address('jonas')} (analyst),",
                f"  {demo.address('priya')} (curator) or {demo.address('sam')} (admin).",
                f"  Password of all four: {demo.PASSWORD}",
            ]
        else:
            lines += ["  Create an account: .venv/bin/python manage.py createsuperuser"]
        lines += ["", "  MCP over stdio, ready to paste into your client:", ""]
        lines += [f"  {line}" for line in json.dumps(configuration, indent=2).splitlines()]
        lines += [
            "",
            f"  MCP over HTTP: {url}/mcp with a token from {url}/connect/",
            "  Ctrl-C stops everything.",
            "",
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()

    def watch(self, run: ProcessGroup) -> None:
        """Restart processes that end, with growing pauses, until a signal arrives."""
        while True:
            time.sleep(1)
            for name, process in run.processes.items():
                if process.died():
                    self.stderr.write(f"{name} ended with exit code {process.child.returncode}: restarting it")
                    process.restart()
                    run.save()
                    queue_gap_closing()


class ProcessGroup:
    """The processes of this run. They are saved in the file `state`, so that a later run can end them after a kill."""

    def __init__(self, state: Path, server: EmbeddedPostgres | None, owns_database: bool) -> None:
        self.state = state
        self.server = server
        self.owns_database = owns_database
        self.processes: dict[str, Process] = {}

    def start_database(self) -> None:
        if self.server:
            self.owns_database = self.server.ensure_running() or self.owns_database
            self.save()

    def start_processes(self, commands: dict[str, list[str]]) -> None:
        self.processes = {name: Process(command) for name, command in commands.items()}
        self.save()

    def save(self) -> None:
        groups = {name: process.child.pid for name, process in self.processes.items()}
        leftovers.save(self.state, groups, owns_database=self.owns_database)

    def on_second_signal(self, number: int, frame: object) -> None:
        """End the processes at once, with their running calls and tasks. `stop` ends what they leave behind."""
        for process in self.processes.values():
            process.child.kill()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.stop()
        leftovers.forget(self.state)
        if self.server and self.owns_database:
            from django.db import connections  # noqa: PLC0415 - only needed here

            # the server must not count open connections of this process as clients
            connections.close_all()
            connections["default"].close_pool()  # type: ignore[attr-defined]  # exists for PostgreSQL
            self.server.stop(only_if_unused=True)


class Process:
    """A child process in its own process group, so that its own children can be ended together with it."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.pause = 1.0
        self.started = 0.0
        self.start()

    def start(self) -> None:
        self.started = time.monotonic()
        self.child = subprocess.Popen(self.command, cwd=settings.BASE_DIR, process_group=0, stdin=subprocess.DEVNULL)

    def died(self) -> bool:
        return self.child.poll() is not None

    def restart(self) -> None:
        self.end_group()  # its own children may still be running
        lived_long = time.monotonic() - self.started > 2 * MAX_PAUSE_S
        self.pause = 1.0 if lived_long else min(self.pause * 2, MAX_PAUSE_S)
        time.sleep(self.pause)
        self.start()

    def terminate(self) -> None:
        if not self.died():
            self.child.terminate()  # it ends its own children

    def stop(self) -> None:
        if not self.died():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(stop_within_s())
        self.end_group()

    def end_group(self) -> None:
        leftovers.Group(self.child.pid).end()


def commands(host: str, port: int) -> dict[str, list[str]]:
    python, *line = program()
    manage = [python, "-W", "ignore", *line]
    started = {
        "web": [*manage, "serve", "--host", host, "--port", str(port)],
        "worker": [*manage, "qcluster"],
    }
    if settings.DATAHUB_GMS_URL:
        started["events"] = [*manage, "watch_catalog"]
    return started


def stdio_client(email: str) -> dict[str, Any]:
    python, *line = program()
    return {"command": python, "args": [*line, "mcp", "--as", email]}


def queue_gap_closing() -> None:
    # otherwise unfinished jobs of an earlier worker would wait for the next scheduled run
    async_task("memories.tasks.close_gaps")


def stop_within_s() -> float:
    return settings.DRAIN_DELAY_S + settings.DRAIN_TIMEOUT_S + STOP_SLACK_S


def exit_on_signal(number: int, frame: object) -> None:
    raise SystemExit(0)


def refuse_taken_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} on {host} can't be used ({error.strerror}). "
                f"Choose another: COMMONPLACE_PORT={port + 1} make run"
            ) from None


def wait_until_ready(host: str, port: int, web: Process) -> None:
    address = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    deadline = time.monotonic() + READY_WITHIN_S
    request = urllib.request.Request(f"http://{address}:{port}/healthz", headers={"Host": "localhost"})
    while time.monotonic() < deadline:
        if web.died():
            raise CommandError("The web server did not start; see its output above.")
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise CommandError(f"The web server did not respond within {READY_WITHIN_S} s.")


@contextlib.contextmanager
def single_run(home: Path) -> Iterator[None]:
    """Hold a lock, so that only one `up` runs per home. The kernel releases it when the process dies."""
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "up.lock", "a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            pid = handle.read().strip() or "unknown"
            raise CommandError(
                f"Commonplace is already running here (process {pid}). Stop it with Ctrl-C first."
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield
