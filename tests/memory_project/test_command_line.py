"""The command line: help in groups, examples that parse, suggestions, errors in one line, and JSON for scripts."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError
from django.db import DataError, OperationalError, ProgrammingError
from django.test import override_settings
from django.utils import timezone

import memory_project
from foundation.operations.errors import NotFound
from memory_project.__main__ import spoken
from memory_project.management import command_line
from memory_project.management.command_line import DESCRIPTIONS, EXAMPLES, CommandLine, run
from memory_project.models import ApiToken, User
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError

OURS = {
    name
    for name, app in get_commands().items()
    if str(app).partition(".")[0] in ("memory_project", "foundation", "memories", "knowledge", "analysis")
}
INSTALLED = sorted(EXAMPLES.keys() & get_commands().keys())


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    CommandLine(["manage.py", *arguments]).execute()
    return capsys.readouterr().out


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    """Run a command that fails, and return its exit code and what the terminal shows."""
    with pytest.raises(SystemExit) as stopped:
        run(["manage.py", *arguments])
    code = stopped.value.code
    # Python prints a text and exits with 1
    return (1, f"{code}\n") if isinstance(code, str) else (code, capsys.readouterr().err)


# -- help ------------------------------------------------------------------------------------------------------


def test_each_command_of_ours_is_in_exactly_one_group() -> None:
    listed = [name for commands in command_line.GROUPS.values() for name in commands]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) >= OURS


@pytest.mark.parametrize("name", INSTALLED)
def test_the_help_of_a_command_ends_with_an_example_that_its_parser_accepts(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    last = output(capsys, "help", name).rstrip().splitlines()[-1]
    words = shlex.split(last.removeprefix("Example: "))
    assert (last[:9], words[:2]) == ("Example: ", ["manage.py", name])
    parser = load_command_class(str(get_commands()[name]), name).create_parser("manage.py", name)
    parser.parse_args(words[2:])  # exits if an argument is unknown or missing


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_help_shows_a_line_for_each_command_and_nothing_of_django(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = output(capsys, *arguments).splitlines()
    commands = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert set(commands) == set(INSTALLED)
    assert all(len(line.split()) > 3 and len(line) <= 90 for line in commands.values())
    assert [line[:-1] for line in lines if line.endswith(":")] == list(command_line.GROUPS)


def test_a_command_that_is_not_installed_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(command_line.GROUPS, "Spare", {"not_installed": ""})
    text = output(capsys, "help")
    assert "not_installed" not in text
    assert "Spare" not in text


@pytest.mark.parametrize("arguments", [["help", "--all"], ["--help", "--all"], ["--all"]])
def test_all_lists_the_commands_of_django_too(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, *arguments)
    assert all(f"    {name}\n" in f"{text}\n" for name in get_commands())


def test_each_description_is_of_an_installed_command_of_others() -> None:
    assert DESCRIPTIONS.keys() <= get_commands().keys() - OURS


def test_a_module_is_called_by_the_name_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    CommandLine(["/somewhere/memory_project/__main__.py", "help", "createtoken"]).execute()
    assert "usage: commonplace createtoken" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("createtokn", "createtoken"), ("create-token", "createtoken"), ("bakup", "backup"), ("mirgate", "migrate")],
)
@pytest.mark.parametrize("before", [[], ["help"]])
def test_a_misspelt_command_is_a_usage_error_that_suggests_the_right_one(
    before: list[str], typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = failure(capsys, *before, typed)
    assert code == 2
    assert f"Did you mean {meant}" in text
    assert text.count("\n") == 1


def test_a_command_like_no_other_gets_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = failure(capsys, "xyzzy")
    assert (code, "mean" in text, "help" in text) == (2, False, True)


def test_wrong_arguments_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert failure(capsys, "createtoken")[0] == 2


# -- errors ----------------------------------------------------------------------------------------------------


def caused_by(error: Exception, cause: psycopg.Error) -> Exception:
    error.__cause__ = cause
    return error


UNDEFINED_TABLE = caused_by(ProgrammingError('relation "x" does not exist'), psycopg.errors.UndefinedTable())
CANCELED = caused_by(OperationalError("canceling statement due to timeout"), psycopg.errors.QueryCanceled())
SHUT_DOWN = caused_by(OperationalError("terminating connection"), psycopg.errors.AdminShutdown())
UNDEFINED_COLUMN = caused_by(ProgrammingError("column x does not exist"), psycopg.errors.UndefinedColumn())


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (NotFound("there is no such changeset", field="id", allowed="an id of the list"), "id: there is no such"),
        (ImproperlyConfigured("TIME_ZONE is not valid"), "TIME_ZONE"),
        (EmbeddedPostgresError("the disk is full"), "the disk is full"),
        (OperationalError("connection refused\n\tIs the server running?"), "does not answer"),
        (UNDEFINED_TABLE, "`migrate`"),
        (CANCELED, "stopped the command. It reports: canceling"),
        (SHUT_DOWN, "does not answer"),
        (FileNotFoundError(2, "No such file or directory", "metadata.json"), "metadata.json: No such file"),
    ],
)
def test_an_error_that_the_operator_can_correct_is_one_line(
    error: Exception, fix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BaseCommand, "execute", raising(error))
    code, text = failure(capsys, "tools")
    assert (code, text.count("\n")) == (1, 1)
    assert fix in text
    with pytest.raises(type(error)):
        run(["manage.py", "tools", "--traceback"])


@pytest.mark.parametrize(
    "error", [UNDEFINED_COLUMN, DataError("division by zero"), BrokenPipeError(), ValueError("a defect")]
)
def test_a_defect_keeps_its_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseCommand, "execute", raising(error))
    with pytest.raises(type(error)):
        run(["manage.py", "tools"])


def test_a_database_that_is_away_is_reported_in_one_line_with_the_reason() -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_POOL_SIZE"}
    with socket.socket() as closed:  # bound and not listening, so that the port refuses connections
        closed.bind(("127.0.0.1", 0))
        address = f"postgres://someone:secret@127.0.0.1:{closed.getsockname()[1]}/nowhere"
        process = subprocess.run(
            [sys.executable, "-m", "memory_project", "createtoken", "ana@example.org"],
            cwd=settings.BASE_DIR,
            env=inherited | {"DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "memory_project.settings"},
            capture_output=True,
            text=True,
        )
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (1, "", 1)
    assert "refused" in process.stderr
    assert "DATABASE_URL" in process.stderr
    assert "secret" not in process.stderr


def raising(error: Exception) -> object:
    def execute(self: BaseCommand, *args: object, **options: object) -> None:
        raise error

    return execute


# -- JSON ------------------------------------------------------------------------------------------------------


def printed(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.django_db
def test_a_token_as_json_is_the_whole_of_standard_output(alice_user: User) -> None:
    entry = printed("createtoken", alice_user.email, "--name", "laptop", "--days", "0", "--json")
    token = ApiToken.objects.get()
    assert token.prefix in entry.pop("token")
    assert entry == {"name": "laptop", "email": alice_user.email, "expires_at": None}
    assert datetime.fromisoformat(printed("createtoken", alice_user.email, "--json")["expires_at"]) > timezone.now()


def test_the_tools_as_json_are_those_of_the_list() -> None:
    entries = printed("tools", "--json")
    out = io.StringIO()
    call_command("tools", stdout=out)
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert [[entry["name"], f"{entry['characters']:,}"] for entry in entries] == lines[: len(entries)]
    assert lines[-1] == ["all", f"{sum(entry['characters'] for entry in entries):,}"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with override_settings(DATABASE_URL="", COMMONPLACE_HOME=tmp_path):
        yield tmp_path


def test_the_status_of_the_database_as_json(home: Path) -> None:
    entry = printed("db", "status", "--json")
    assert (entry["running"], entry["pid"], entry["data"]) == (False, None, str(EmbeddedPostgres(home).data))


@pytest.mark.usefixtures("home")
def test_json_belongs_to_the_status() -> None:
    with pytest.raises(CommandError, match="--json belongs to `status`") as refused:
        call_command("db", "stop", "--json")
    assert refused.value.returncode == 2


# -- how the program was started ---------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--version"], ["version"], ["up", "--version"], ["serve", "--version"]])
def test_the_version_is_ours(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        run(["commonplace", *arguments])
    assert capsys.readouterr().out == f"{memory_project.__version__}\n"


@pytest.mark.parametrize("line", ["up --port 9123", "serve --processes 2 --port=9123"])
def test_the_stated_address_follows_the_options(line: str, home: Path) -> None:
    """Metadata, mails, links and `connect` take it from the settings, which are loaded after the options are read."""
    code = (
        "import sys; from memory_project.__main__ import take_address; take_address(sys.argv[1:]);"
        "from memory_project import settings as s; print(s.COMMONPLACE_URL, s.OAUTH2_PROVIDER['OIDC_ISS_ENDPOINT'])"
    )
    for given, expected in (
        ("", "http://localhost:9123"),
        ("https://memory.example.org", "https://memory.example.org"),
    ):
        environment = {**os.environ, "COMMONPLACE_HOME": str(home)} | ({"COMMONPLACE_URL": given} if given else {})
        done = subprocess.run(
            [sys.executable, "-c", code, *line.split()],
            env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.split() == [expected, expected], done.stderr


def test_hints_fit_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spoken("createsuperuser") == ".venv/bin/python manage.py createsuperuser"
    monkeypatch.setenv("COMMONPLACE_IN_CONTAINER", "1")
    assert spoken("createsuperuser") == "docker compose exec web commonplace createsuperuser"
