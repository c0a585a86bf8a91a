from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from foundation.operations.errors import DomainError
from memory_project.agents import installation, rules
from memory_project.agents.client_files import files
from memory_project.agents.hook_program import connection as connections
from memory_project.agents.hook_program import repository, status
from memory_project.agents.hook_program.programs import PROGRAMS

NAMES = ", ".join(PROGRAMS)
EXECUTABLE = 0o755


class Command(BaseCommand):
    help = "Bring memories into the sessions of agents through their hooks."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        # memory_project/__main__.py handles events before Django is loaded
        parser.add_argument("event", nargs="?", help="an event's name, with its JSON on standard input")
        parser.add_argument("--program", help=f"whose event it is: {NAMES}; default: claude-code")
        way = parser.add_mutually_exclusive_group()
        way.add_argument("--status", action="store_true", help="show connection, server, hooks and the last event")
        way.add_argument("--connect", metavar="URL", help="save address and token (COMMONPLACE_TOKEN, or asked for)")
        way.add_argument("--install", metavar="PROGRAM", choices=list(PROGRAMS), help=f"add the hooks to: {NAMES}")
        way.add_argument("--uninstall", metavar="PROGRAM", choices=list(PROGRAMS), help="remove the hooks again")
        way.add_argument("--rules", metavar="PATH", help="write what is known into a rule file, such as AGENTS.md")
        parser.add_argument("--project", action="store_true", help="the project's file instead of the person's")
        parser.add_argument("--capture", action="store_true", help="with --connect: propose what sessions decide")
        parser.add_argument("--remove", action="store_true", help="with --rules: remove the block again")
        parser.add_argument("--json", action="store_true", help="with --status: print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["status"]:
                self.show_status(is_json=options["json"])
            elif options["connect"] is not None:
                self.connect(options["connect"], capture=options["capture"])
            elif options["install"]:
                self.install(options["install"], is_project=options["project"])
            elif options["uninstall"]:
                self.uninstall(options["uninstall"], is_project=options["project"])
            elif options["rules"]:
                self.write_rules(Path(options["rules"]), is_removal=options["remove"])
            elif options["event"]:
                raise CommandError("EVENT: reads the event's JSON from standard input, which is a terminal here.")
            else:
                raise CommandError("Pass EVENT, --status, --connect, --install, --uninstall or --rules.")
        except DomainError as error:
            raise CommandError(error.message) from None
        except (OSError, ValueError, connections.ServerFailed) as error:
            raise CommandError(str(error)) from None

    def show_status(self, *, is_json: bool) -> None:
        report = {**status.report(), "installed": installed_hooks()}
        self.stdout.write(installation.as_json(report) if is_json else status.as_text(report))

    def connect(self, url: str, *, capture: bool) -> None:
        token = os.environ.get(connections.TOKEN_VARIABLE, "").strip()
        if not token:
            token = (getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline(10_000)).strip()
        path = connections.save(url, token, capture=capture)
        self.stdout.write(f"Wrote {path}. `commonplace hook --status` shows whether the server is reached.")
        saved = connections.load()
        if saved is not None and saved.is_readable_on_the_way:
            self.stderr.write("Warning: the token is sent without encryption. Use an https address.")

    def install(self, name: str, *, is_project: bool) -> None:
        title = PROGRAMS[name].title
        changes = installation.plan_install(name, is_project=is_project)
        if not changes:
            self.stdout.write(f"The hooks of {title} are up to date.")
        for change in changes:
            self.stdout.write(change.diff())
            backup = files.write(change, is_secret=False, is_shared=is_project)
            if name == "cline":
                change.path.chmod(EXECUTABLE)
            kept = f" The earlier text is in {backup}." if backup else ""
            self.stdout.write(f"Wrote {change.path}.{kept} Start a new session of {title}.")

    def uninstall(self, name: str, *, is_project: bool) -> None:
        changes = installation.plan_uninstall(name, is_project=is_project)
        if not changes:
            self.stdout.write(f"{PROGRAMS[name].title} has no hooks of Commonplace there.")
        for change in changes:
            self.stdout.write(change.diff())
            if change.after:
                backup = files.write(change, is_secret=False, is_shared=is_project)
                self.stdout.write(f"Wrote {change.path}. The earlier text is in {backup}.")
            else:
                change.path.unlink()
                self.stdout.write(f"Removed {change.path}: it had nothing else in it.")

    def write_rules(self, path: Path, *, is_removal: bool) -> None:
        if is_removal:
            change = files.plan_edit(path.expanduser(), rules.without_block)
        else:
            connection = connections.load()
            if connection is None:
                raise ValueError("There is no connection. Run `commonplace hook --connect URL` first.")
            change = rules.plan_rules(path, connection)
        if not change.is_needed:
            return self.stdout.write(f"{change.path} is up to date.")
        backup = files.write(change, is_secret=False, is_shared=True)
        self.stdout.write(f"Wrote {change.path}.{f' The earlier text is in {backup}.' if backup else ''}")
        if not is_removal and repository.repository_of(change.path.parent).root:
            self.stderr.write(
                "Warning: the block quotes memories that you may read. Whoever can read the repository will read them,"
                " once the file is committed."
            )


def installed_hooks() -> list[dict[str, Any]]:
    """Return where our hooks are, in the person's files and in those of the current folder."""
    found = []
    for name in PROGRAMS:
        for is_project in (False, True):
            try:
                events = installation.installed_events(name, is_project=is_project)
            except DomainError:
                continue
            if events:
                path = installation.place_of(name, is_project=is_project)
                found.append({"program": name, "path": str(path), "events": events})
    return [*found, *installation.installed_plugins()]
