"""Databases of earlier versions, kept as dumps, migrate without losing a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from memory_project.operating.postgres.server import APPLICATION, DATABASE, EmbeddedPostgres
from tests.e2e.upgrades import run
from tests.operations.earlier_homes import earlier_home, ids

# repeats the memories in force, each time with another text and vector
MORE = """
    INSERT INTO memory_records ({columns}) SELECT {values}
    FROM memory_records, generate_series(1, 1000) n WHERE status = 'active' LIMIT {count}
"""
NEW_VALUES = {
    "id": "gen_random_uuid()",
    "content": "content || ' ' || n",
    "supersedes_id": "NULL",
    "embedding": "(SELECT array_agg(random() - 0.5) FROM generate_series(1, 384) WHERE n > 0)::vector",
}
ROWS = 2_000
COLUMNS = """
    SELECT column_name FROM information_schema.columns
    WHERE table_name = 'memory_records' AND is_generated = 'NEVER'
"""


@pytest.mark.parametrize("schema", ["before_row_security", "before_validity"])
def test_the_database_of_an_earlier_version_migrates(schema: str) -> None:
    with earlier_home(schema) as (home, server), server.connect(DATABASE) as database:
        before = ids(database)
        run(home, "migrate")
        assert ids(database) == before
        privilege = "SELECT has_table_privilege(%s, 'memory_records', 'INSERT')"
        assert database.execute(privilege, [APPLICATION]).fetchone() == (True,)


def test_the_first_version_migrates_in_a_time_that_grows_with_the_number_of_memories() -> None:
    """The time of these memories is compared with that of building one vector index of them, in seconds of CPU."""
    with earlier_home("first") as (home, server):
        without_s = migrating(home, server)
    with earlier_home("first") as (home, server), server.connect(DATABASE) as database:
        building_s = add_memories(database)
        before = ids(database)
        with_s = migrating(home, server)
        assert ids(database) == before
        assert with_s - without_s < 4 * building_s


def migrating(home: Path, server: EmbeddedPostgres) -> float:
    """Migrate, and return the seconds of CPU that the database took."""
    started_s = cpu_of_ended_sessions(server)
    run(home, "migrate")
    return cpu_of_ended_sessions(server) - started_s


def add_memories(database: psycopg.Connection[Any]) -> float:
    """Add ROWS memories. Returns the seconds of CPU that the build of their vector index took."""
    columns = [name for (name,) in database.execute(COLUMNS).fetchall()]
    values = ", ".join(NEW_VALUES.get(name, name) for name in columns)
    definition = database.execute("SELECT pg_get_indexdef('memory_vectors'::regclass)").fetchone()
    assert definition is not None
    database.execute("DROP INDEX memory_vectors")
    database.execute(MORE.format(columns=", ".join(columns), values=values, count=ROWS))
    session = psutil.Process(database.info.backend_pid)
    before = session.cpu_times()
    database.execute("SET max_parallel_maintenance_workers = 0")
    database.execute(definition[0])
    after = session.cpu_times()
    return float(after.user + after.system - before.user - before.system)


def cpu_of_ended_sessions(server: EmbeddedPostgres) -> float:
    pid = server.status().pid
    times = psutil.Process(pid).cpu_times()
    return float(times.children_user + times.children_system)
