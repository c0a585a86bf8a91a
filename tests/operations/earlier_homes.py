"""Homes of earlier versions, with rows."""

from __future__ import annotations

import lzma
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER, SUPERUSER, EmbeddedPostgres
from tests.e2e.processes import folder_and_port
from tests.e2e.upgrades import DATA

# the first version had a superuser only
WITHOUT_ROLES = f"""
    REASSIGN OWNED BY {OWNER} TO {SUPERUSER}; DROP OWNED BY {OWNER}, {APPLICATION};
    ALTER DATABASE {DATABASE} OWNER TO {SUPERUSER}; DROP ROLE {OWNER}, {APPLICATION};
"""


@contextmanager
def earlier_home(schema: str) -> Iterator[tuple[Path, EmbeddedPostgres]]:
    """Yield a home with the database of an earlier version, whose server runs."""
    with folder_and_port() as (home, _):
        server = EmbeddedPostgres(home)
        server.ensure_running()
        dump = home / "database.dump"
        dump.write_bytes(lzma.decompress((DATA / "schemas" / f"{schema}.dump.xz").read_bytes()))
        role = SUPERUSER if schema == "first" else OWNER
        listing = subprocess.run(
            [server.binaries / "pg_restore", "--list", dump], capture_output=True, text=True, check=True
        ).stdout
        (home / "entries").write_text("\n".join(line for line in listing.splitlines() if " EXTENSION " not in line))
        options = ["--no-owner", "--single-transaction", f"--use-list={home / 'entries'}", f"--dbname={DATABASE}"]
        target = [f"--host={server.socket_dir}", f"--username={role}"]
        # a forced policy would keep the owner from loading rows
        variables = {"PGOPTIONS": "-c commonplace.sees_all=on"}
        subprocess.run([server.binaries / "pg_restore", *options, *target, dump], check=True, env=variables)
        if schema == "first":
            with server.connect(DATABASE) as database:
                database.execute(WITHOUT_ROLES)
        yield home, server


def ids(database: psycopg.Connection[Any]) -> set[Any]:
    return set(database.execute("SELECT id, content, status FROM memory_records").fetchall())
