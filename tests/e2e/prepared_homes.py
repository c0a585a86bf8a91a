"""Home folders that are prepared once and copied, for tests of an installation that don't test how it is made.

test_up.py starts in an empty folder, as a person does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from memory_project.operating.postgres.server import EmbeddedPostgres
from tests.e2e.processes import ROOT, command, environment, folder_and_port

Content = Literal["tables", "demo"]
MAKE_TABLES = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("collectstatic", interactive=False, verbosity=0)
"""


@contextmanager
def prepared_home(content: Content) -> Iterator[tuple[Path, int]]:
    """Yield a home and a free port. The home has all tables and static files, and with "demo" also the demo content.

    Nothing runs in it.
    """
    original = _original(content)  # this takes a while, in which others could take the port
    with folder_and_port() as (home, port):
        _copy(original, home)
        yield home, port


@cache
def _original(content: Content) -> Path:
    home = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.chmod(home, 0o755)
    if content == "demo":
        _copy(_original("tables"), home)
        _run(home, "demo")
    else:
        _run(home, "shell", "--no-imports", "--command", MAKE_TABLES)
    EmbeddedPostgres(home).stop()
    return home


def _copy(source: Path, target: Path) -> None:
    # shutil.copytree would not keep the owner of the database's files
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def _run(home: Path, *arguments: str) -> None:
    done = subprocess.run(command(*arguments), env=environment(home, 8000), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
