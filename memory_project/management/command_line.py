"""The command line: our commands in groups with examples, suggestions for misspelt names, and errors in one line."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from functools import partial

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility, get_commands
from django.core.management.base import BaseCommand
from django.db import Error, InterfaceError, OperationalError, ProgrammingError

from foundation.database import restore_marker
from foundation.operations.errors import DomainError
from memory_project import __version__
from memory_project.operating.postgres.server import EmbeddedPostgresError

EXIT_USAGE = 2
# PostgreSQL's error codes
UNDEFINED_TABLE = "42P01"
UNREACHABLE = ("08", "57P")  # a failed connection has no code at all

# group → command → the arguments of its example. Names that are not installed are left out of the help.
GROUPS = {
    "Run": {
        "up": "--port 8080",
        "serve": "--host 0.0.0.0 --processes 2",
        "qcluster": "",
        "watch_catalog": "",
        "db": "status",
    },
    "Connect": {
        "connect": "claude-code",
        "hook": "--install claude-code",
        "mcp": "--as ana@example.org --toolsets memory,query",
        "createtoken": "ana@example.org --name laptop --days 30",
        "tools": "--json",
    },
    "People": {
        "createsuperuser": "--email ana@example.org",
        "changepassword": "ana@example.org",
        "signinlink": "ana@example.org",
        "rekey_owner": "ana@example.org ana@example.com",
    },
    "Data": {
        "demo": "",
        "load_catalog": "metadata.json --known-only",
        "sync_catalog": "",
        "import": "facts.csv --as ana@example.org --yes",
        "subscriptions": "add /srv/docs --as ana@example.org",
        "import_memory_json": "memory.json --as ana@example.org",
        "export": "--as ana@example.org --output mine.jsonl",
        "replay_changeset": "7f3a2b1c --export changes.json",
        "backup": "commonplace.backup",
        "restore": "commonplace.backup",
    },
    "Maintenance": {
        "doctor": "--processes 4",
        "migrate": "",
        "change_key": "",
        "collectstatic": "--no-input",
        "embed": "--all",
        "link_memories": "--all",
        "rebuild_debt": "--all",
        "rebuild_search": "",
    },
}
# commands that run until they are stopped, and that must not start while a restore is unfinished
SERVERS = ("serve", "qcluster", "mcp", "watch_catalog")
EXAMPLES = {name: arguments for commands in GROUPS.values() for name, arguments in commands.items()}

# commands of Django and its apps whose own descriptions name the framework instead of the purpose
DESCRIPTIONS = {
    "createsuperuser": "Create an account with all rights.",
    "changepassword": "Change a person's password.",
    "collectstatic": "Copy the static files to the folder from which they are served.",
}


class CommandLine(ManagementUtility):
    def __init__(self, argv: list[str]) -> None:
        program = os.path.basename(argv[0])
        # `python -m memory_project` has the name of a file that nobody can call
        super().__init__(["commonplace" if program == "__main__.py" else argv[0], *argv[1:]])
        self.prog_name = os.path.basename(self.argv[0])
        if self.argv[1:2] in (["--help"], ["-h"], ["--all"]):
            self.argv[1:2] = ["help", *(["--all"] if "--all" in self.argv else [])]

    def execute(self) -> None:
        if self.argv[1:] in (["--version"], ["version"]):
            sys.stdout.write(f"{__version__}\n")
            return
        super().execute()

    def main_help_text(self, commands_only: bool = False) -> str:
        if commands_only or "--all" in self.argv:
            return super().main_help_text(commands_only)
        installed = get_commands()
        lines = [f"Usage: {self.prog_name} COMMAND [arguments]"]
        for group, commands in GROUPS.items():
            names = [name for name in commands if name in installed]
            if names:
                lines += ["", f"{group}:", *(f"  {name:<20}{self.describe(name)}" for name in names)]
        lines += ["", f"`{self.prog_name} help COMMAND` shows the arguments of a command and an example;"]
        lines += [f"`{self.prog_name} help --all` also lists the commands of Django and of its apps."]
        if self.settings_exception is not None:
            lines += ["", f"The settings are not valid, so that most commands are missing: {self.settings_exception}"]
        return "\n".join(lines)

    def describe(self, name: str) -> str:
        """Return the first sentence of a command's description."""
        text = DESCRIPTIONS.get(name) or super().fetch_command(name).help
        return text.partition(". ")[0].rstrip(".")

    def fetch_command(self, subcommand: str) -> BaseCommand:
        installed = get_commands()
        if subcommand not in installed:
            _ = settings.INSTALLED_APPS  # raises the error of invalid settings, which hide our commands
            self.refuse_unknown(subcommand, installed)
        command = super().fetch_command(subcommand)
        if (
            subcommand in SERVERS
            and self.argv[1:2] == [subcommand]
            and not {"-h", "--help", "--version"} & set(self.argv)
        ):
            restore_marker.refuse()
        if subcommand in EXAMPLES:
            command.get_version = lambda: __version__  # type: ignore[method-assign]
            example = f"Example: {self.prog_name} {subcommand} {EXAMPLES[subcommand]}".strip()
            command.create_parser = partial(command.create_parser, epilog=example)  # type: ignore[method-assign]
        return command

    def refuse_unknown(self, name: str, installed: dict[str, str]) -> None:
        ours = [known for known in EXAMPLES if known in installed]
        similar = get_close_matches(name, ours, n=2) or get_close_matches(name, installed, n=2)
        suggestion = f" Did you mean {' or '.join(similar)}?" if similar else ""
        sys.stderr.write(f"Unknown command {name!r}.{suggestion} `{self.prog_name} help` lists the commands.\n")
        sys.exit(EXIT_USAGE)


def run(argv: list[str]) -> None:
    """Run a command. An error that the operator can correct ends the process with one line and exit code 1."""
    try:
        CommandLine(argv).execute()
    except (DomainError, ImproperlyConfigured, EmbeddedPostgresError, Error, OSError) as error:
        message = operator_message(error)
        if not message or "--traceback" in argv:
            raise
        sys.exit(message)
    except KeyboardInterrupt:
        sys.exit(130)  # what shells report for a process that Ctrl-C ended


def operator_message(error: Exception) -> str:
    """Return one line for an error that the operator can correct, or "" for a defect, which needs its traceback."""
    text = " ".join(str(error).split())
    if isinstance(error, DomainError | ImproperlyConfigured | EmbeddedPostgresError):
        return text
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else ""
    code = getattr(error.__cause__, "sqlstate", None) or ""
    if isinstance(error, ProgrammingError) and code == UNDEFINED_TABLE:
        return "The database has not been migrated to this version. Run the command `migrate` first."
    if unfinished_restore := restore_marker.message_of(error):
        return unfinished_restore
    if not isinstance(error, OperationalError | InterfaceError):
        return ""
    if code and not code.startswith(UNREACHABLE):
        return f"The database stopped the command. It reports: {text}"
    advice = "Check that the server of DATABASE_URL runs." if settings.DATABASE_URL else "See the command `db status`."
    return f"The database does not answer. {advice} The reason: {text}"
