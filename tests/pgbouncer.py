"""A real PgBouncer that assigns connections per transaction, in front of the tests' PostgreSQL."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from memory_project.operating.postgres.server import SYSTEM_USER
from tests.http_servers import free_port

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SERVER_CONNECTIONS = 2  # fewer than clients, so that clients take turns on them
CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
query_wait_timeout = 30
"""


class PgBouncer:
    def __init__(self, folder: Path, host: str, port: str, user: str) -> None:
        self.server = {"HOST": host, "PORT": port}
        self.port = free_port()
        self.file = folder / "pgbouncer.ini"
        self.file.write_text(
            CONFIGURATION.format(
                host=host, port=port or 5432, user=user, listen_port=self.port, size=SERVER_CONNECTIONS
            )
        )
        self.log = folder / "pgbouncer.log"

    def start(self) -> None:
        account = {"user": SYSTEM_USER} if os.geteuid() == 0 else {}  # it refuses to run as root
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([str(PROGRAM), str(self.file)], stdout=log, stderr=log, **account)  # type: ignore[call-overload]
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()  # at SIGTERM, later versions wait until all clients have left
        self.process.wait(30)


@contextmanager
def pgbouncer() -> Iterator[PgBouncer]:
    """Let the connections of this process lead through a PgBouncer."""
    if PROGRAM is None:
        pytest.skip("pgbouncer is missing; Debian's package pgbouncer has it")
    parameters = connection.settings_dict
    direct = {name: parameters[name] for name in ("HOST", "PORT")}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        pooler = PgBouncer(Path(folder), direct["HOST"], direct["PORT"], parameters["USER"])
        pooler.start()
        connection.close()
        parameters.update(HOST="127.0.0.1", PORT=str(pooler.port))
        try:
            yield pooler
        finally:
            connection.close()
            parameters.update(direct)
            pooler.stop()
