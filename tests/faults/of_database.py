"""A database whose connections are used up, that stands still, or whose index is damaged."""

from __future__ import annotations

import os
import signal
import time

import psycopg

from tests.faults.installation import Installation, eventually
from tests.faults.table import fault
from tests.faults.workload import Workload

BLOCK = 8192  # bytes of a page


@fault("other programs use up the connections for 15 s", silent_s=40)
def connections_are_used_up(place: Installation, work: Workload) -> None:
    held = []
    try:
        while True:
            held.append(place.postgres.connect("commonplace"))
    except psycopg.OperationalError:
        pass
    # the pool of the web server loses what it has, too
    held[0].execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'commonplace_app'")
    try:
        while True:
            held.append(place.postgres.connect("commonplace"))
    except psycopg.OperationalError:
        pass
    time.sleep(15)
    for connection in held:
        connection.close()


@fault("the database stands still for 10 s", silent_s=40)
def database_stands_still(place: Installation, work: Workload) -> None:
    with place.postgres.connect("commonplace") as connection:
        rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
    backends = [int(str(pid)) for (pid,) in rows]
    server = place.postgres.status().pid
    assert server
    for pid in [server, *backends]:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(10)
    for pid in [*backends, server]:
        os.kill(pid, signal.SIGCONT)


@fault("all connections of the database are ended", silent_s=15, in_pairs=True)
def connections_are_ended(place: Installation, work: Workload) -> None:
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'commonplace_app'"
    for _ in range(3):
        eventually(lambda: place.sql(ending))
        time.sleep(1)


@fault("the index of the text search is damaged, and the server restarts", silent_s=150)
def index_is_damaged(place: Installation, work: Workload) -> None:
    """Until an operator rebuilds the index, calls that need it fail; nothing that was stored is lost."""
    (index,) = place.sql("""
        SELECT pg_relation_filepath(i.oid) FROM pg_index JOIN pg_class AS i ON i.oid = indexrelid
        JOIN pg_am ON pg_am.oid = i.relam AND amname = 'gin'
        JOIN pg_attribute AS a ON a.attrelid = i.oid AND a.attname = 'search'
        WHERE indrelid = 'memory_records'::regclass""")[0]
    place.sql("CHECKPOINT")
    server = place.postgres.status().pid
    assert server
    os.kill(server, signal.SIGKILL)
    path = place.postgres.data / index
    size = path.stat().st_size
    with open(path, "r+b") as file:
        for block in range(1, size // BLOCK):
            file.seek(block * BLOCK)
            file.write(os.urandom(BLOCK))
    time.sleep(15)  # the server is running again, with the damaged index
    rebuilt = place.run("rebuild_search")
    assert rebuilt.returncode == 0, rebuilt.stderr
