from __future__ import annotations

import contextlib
import fcntl
import io
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

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, close_old_connections, connection
from django_q.tasks import async_task

from memory_project.__main__ import program, spoken
from memory_project.agents.client_files.connection import stdio_connection
from memory_project.agents.client_files.snippets import snippet
from memory_project.agents.client_files.table import BY_NAME
from memory_project.management.arguments import port
from memory_project.models import User
from memory_project.operating import leftovers
from memory_project.operating.backups.folders import remove_leftovers
from memory_project.operating.doctor import exposure
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError
from memory_project.operating.shared import static_files

TELL_EVERY_S = 10  # seconds between two lines about what `up` waits for
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
                self.wait_until_ready(host, port, run)
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
                f"the demo password. Change each password with `{spoken('changepassword EMAIL')}`."
            )
        static_files.ensure_collected()
        if not no_demo and not is_public and not User.objects.exists():
            self.stdout.write("first run: loading demo content (once)")
            call_command("demo", stdout=io.StringIO())

    def panel(self, host: str, port: int) -> None:
        from memory_project.operating import demo  # noqa: PLC0415 - only for its constants

        hostname = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::") else host
        url = f"http://{hostname}:{port}"
        has_demo = User.objects.filter(email=demo.address("maya")).exists()
        connection = stdio_connection(demo.address("maya") if has_demo else "you@example.org")
        lines = ["", f"  Commonplace is at {url}", ""]
        if has_demo:
            lines += [
                f"  Sign in as {demo.address('maya')} (analyst), {demo.address('jonas')} (analyst),",
                f"  {demo.address('priya')} (curator) or {demo.address('sam')} (admin).",
                f"  Password of all four: {demo.PASSWORD}",
            ]
        else:
            lines += [f"  Create an account: {spoken('createsuperuser')}"]
        lines += ["", "  MCP over stdio, ready to paste into your client:", ""]
        lines += [f"  {line}" for line in snippet(BY_NAME["cursor"], connection).splitlines()]
        lines += [
            "",
            f"  MCP over HTTP: {url}/mcp with a token from {url}/connect/",
            f"  Data is in {settings.COMMONPLACE_HOME}.",
            f"  Connect a client: {spoken('connect CLIENT --write')}, for example claude-code.",
        ]
        if settings.EMBEDDING_PROVIDER == "minilm":
            lines.append("  For memories in other languages than English: EMBEDDING_PROVIDER=e5 (docs/languages.md).")
        lines += ["  Ctrl-C stops everything.", ""]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()

    def wait_until_ready(self, host: str, port: int, run: ProcessGroup) -> None:
        """Wait for the first response of the web server, as long as the processes live."""
        address = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        request = urllib.request.Request(f"http://{address}:{port}/healthz", headers={"Host": "localhost"})
        started = told = time.monotonic()
        while not is_answered(request):
            if run.processes["web"].died():
                raise CommandError("The web server did not start; see its output above.")
            self.look_after(run)
            if time.monotonic() - told > TELL_EVERY_S:
                told = time.monotonic()
                self.stdout.write(f"waiting for the web server, for {told - started:.0f} s so far")
                self.stdout.flush()
            time.sleep(0.2)

    def watch(self, run: ProcessGroup) -> None:
        """Restart processes that end, with growing pauses, until a signal arrives."""
        while True:
            time.sleep(1)
            self.look_after(run)

    def look_after(self, run: ProcessGroup) -> None:
        """Start what has ended. Whatever fails is tried again at the next look: nothing here may end the others."""
        for name, process in run.processes.items():
            if process.died() and process.due is None:
                self.tell(f"{name} ended with exit code {process.child.returncode}: restarting it")
                process.plan_restart()
                run.has_gaps = True
            if process.due is not None and time.monotonic() >= process.due:
                try:
                    process.start()
                except OSError as error:
                    process.plan_restart()
                    self.tell(f"{name} could not be started: {error}")
                run.is_saved = False
        if not run.is_saved:
            try:
                run.save()
            except OSError as error:
                self.tell(f"{run.state} could not be written: {error}")
        if run.has_gaps:
            run.has_gaps = not queue_gap_closing()

    def tell(self, line: str) -> None:
        """Write a line, unless the disk with the log is full."""
        with contextlib.suppress(OSError):
            self.stderr.write(line)


class ProcessGroup:
    """The processes of this run. They are saved in the file `state`, so that a later run can end them after a kill."""

    def __init__(self, state: Path, server: EmbeddedPostgres | None, owns_database: bool) -> None:
        self.state = state
        self.server = server
        self.owns_database = owns_database
        self.processes: dict[str, Process] = {}
        self.is_saved = False
        self.has_gaps = True  # jobs of an earlier worker may be unfinished

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
        self.is_saved = True

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
        self.due: float | None = None  # when it is started again, as a monotonic time, if it has ended
        self.start()

    def start(self) -> None:
        self.child = subprocess.Popen(self.command, cwd=settings.BASE_DIR, process_group=0, stdin=subprocess.DEVNULL)
        self.started = time.monotonic()
        self.due = None

    def died(self) -> bool:
        return self.child.poll() is not None

    def plan_restart(self) -> None:
        self.end_group()  # its own children may still be running
        lived_long = time.monotonic() - self.started > 2 * MAX_PAUSE_S
        self.pause = 1.0 if lived_long else min(self.pause * 2, MAX_PAUSE_S)
        self.due = time.monotonic() + self.pause

    def terminate(self) -> None:
        if not self.died():
            self.child.terminate()  # it ends its own children

    def stop(self) -> None:
        if not self.died():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(stop_within_s())
        self.end_group()

    def end_group(self) -> None:
        leftovers.LeftoverGroup(self.child.pid).end()


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


def queue_gap_closing() -> bool:
    """Let the worker finish the jobs of an earlier one now, and not at the next scheduled run. Returns whether it will.

    The connection may have been lost since its last use, and the database may be away.
    """
    close_old_connections()
    try:
        async_task("memories.tasks.close_gaps")
    except (DatabaseError, psycopg.Error, OSError, EmbeddedPostgresError):
        connection.close()
        return False
    return True


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
                f"Choose another: {spoken(f'up --port {port + 1}')}"
            ) from None


def is_answered(request: urllib.request.Request) -> bool:
    try:
        with urllib.request.urlopen(request, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


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
