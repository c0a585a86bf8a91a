"""A PostgreSQL cluster that fails over by itself: etcd, two machines with Patroni, HAProxy and PgBouncer.

The programs run with the files of deploy/ha, as docs/ha.md describes it for a trial on one machine: the two machines
are two loopback addresses.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import scratch

FILES = scratch.ROOT / "deploy" / "ha"
ADDRESSES = {"db1": "127.0.0.11", "db2": "127.0.0.12"}
ETCD = "http://127.0.0.1:2379"
PASSWORD = "trial"
PATIENCE_S = 120.0


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise SystemExit(f"{name} is missing; on Debian: apt install etcd-server patroni haproxy pgbouncer")
    return found


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.1)


@dataclass
class Cluster:
    """The programs of one trial. `folder` must be one that the account of the servers can enter."""

    folder: Path
    account: Mapping[str, int]  # user and group of the servers, if this process runs as root
    binaries: Path  # of PostgreSQL
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 2379)) == 0:
                raise SystemExit("another etcd runs at 127.0.0.1:2379: stop it first")
        self.begin("etcd", program("etcd"), "--data-dir", str(self.folder / "etcd"),
                   "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD)  # fmt: skip
        for name in ADDRESSES:
            self.start_machine(name)
            wait_until(lambda name=name: self.role(name) != "", f"{name} runs")  # type: ignore[misc]
        wait_until(self.is_whole, "a synchronous standby")
        shutil.copy(FILES / "pgbouncer.ini", self.folder)
        (self.folder / "userlist.txt").write_text(f'"commonplace_app" "{PASSWORD}"\n')
        self.begin("haproxy", program("haproxy"), "-f", str(FILES / "haproxy.cfg"), **self.haproxy_settings())
        self.begin("pgbouncer", program("pgbouncer"), "pgbouncer.ini")

    def haproxy_settings(self) -> dict[str, str]:
        web = {"WEB": "127.0.0.1:8000", "WEB1": "127.0.0.1:8001", "WEB2": "127.0.0.1:8002"}
        return {name.upper(): address for name, address in ADDRESSES.items()} | web

    def start_machine(self, name: str) -> None:
        address = ADDRESSES[name]
        self.begin(
            name, program("patroni"), str(FILES / "patroni.yml"),
            PATRONI_NAME=name,
            PATRONI_ETCD3_HOSTS="127.0.0.1:2379",
            PATRONI_RESTAPI_LISTEN=f"{address}:8008",
            PATRONI_RESTAPI_CONNECT_ADDRESS=f"{address}:8008",
            PATRONI_POSTGRESQL_LISTEN=f"{address}:5432",
            PATRONI_POSTGRESQL_CONNECT_ADDRESS=f"{address}:5432",
            PATRONI_POSTGRESQL_DATA_DIR=str(self.folder / name),
            PATRONI_POSTGRESQL_BIN_DIR=str(self.binaries),
            PATRONI_POSTGRESQL_PGPASS=str(self.folder / f"{name}.pgpass"),
            PATRONI_SUPERUSER_USERNAME="postgres", PATRONI_SUPERUSER_PASSWORD=PASSWORD,
            PATRONI_REPLICATION_USERNAME="replicator", PATRONI_REPLICATION_PASSWORD=PASSWORD,
        )  # fmt: skip

    def begin(self, name: str, *command: str, **settings: str) -> None:
        """Start a program in the background, with its output in a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, **settings}, stdout=log, stderr=log,
                start_new_session=True, **self.account,
            )  # type: ignore[call-overload]  # fmt: skip

    # -- what Patroni says -------------------------------------------------------------------------------

    def role(self, name: str) -> str:
        """Return primary, sync_standby, replica, or "" if the machine does not answer."""
        import httpx2  # noqa: PLC0415 - after setup()

        try:
            answer = httpx2.get(f"http://{ADDRESSES[name]}:8008/patroni", timeout=2)
        except httpx2.HTTPError:
            return ""
        found = json.loads(answer.text)
        if found.get("state") != "running":
            return ""
        role = "primary" if found["role"] in ("master", "primary") else "replica"
        return "sync_standby" if found.get("sync_standby") else role

    def primary(self) -> str:
        return next((name for name in ADDRESSES if self.role(name) == "primary"), "")

    def is_whole(self) -> bool:
        return {self.role(name) for name in ADDRESSES} == {"primary", "sync_standby"}

    # -- faults ------------------------------------------------------------------------------------------

    def kill_machine(self, name: str) -> None:
        """End Patroni and PostgreSQL of a machine at once."""
        self._kill(self._server(name), psutil.Process(self.processes[name].pid))
        self.processes[name].wait()

    def kill_server(self, name: str) -> None:
        """End PostgreSQL of a machine, whose Patroni notices it."""
        self._kill(self._server(name))

    def _server(self, name: str) -> psutil.Process:
        return psutil.Process(int((self.folder / name / "postmaster.pid").read_text().split()[0]))

    def _kill(self, *processes: psutil.Process) -> None:
        family = [child for process in processes for child in process.children(recursive=True)]
        for process in [*processes, *family]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs([*processes, *family], timeout=10)

    def stop(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is not None:
                continue
            if name in ADDRESSES:
                process.terminate()  # Patroni stops its server
                continue
            process.kill()
        for process in self.processes.values():
            process.wait(60)
