"""A PostgreSQL cluster that fails over by itself: etcd, two machines with Patroni, HAProxy and PgBouncer.

The programs run with the files of deploy/ha, as docs/ha.md describes it for several machines. The two database machines
are two network namespaces, whose network can be cut. The other programs are on this machine, the three of etcd with an
address each.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd

import psutil
import scratch

FILES = scratch.ROOT / "deploy" / "ha"
BRIDGE = "failover"
# of a network for measurements (RFC 2544), which no other one uses
ADDRESSES = {"db1": "198.18.0.11", "db2": "198.18.0.12"}
ETCDS = {"etcd1": "198.18.0.1", "etcd2": "198.18.0.2", "etcd3": "198.18.0.3"}
PASSWORD = "trial"
PATIENCE_S = 120.0


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise SystemExit(f"{name} is missing; on Debian: apt install etcd-server patroni haproxy pgbouncer iproute2")
    return found


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run([program("ip"), *arguments], check=check, stderr=None if check else subprocess.DEVNULL)


def link(machine: str) -> str:
    """Return the name of a machine's namespace, and of its interface on this side."""
    return f"{BRIDGE}-{machine}"


def make_network() -> None:
    remove_network()
    ip("link", "add", BRIDGE, "type", "bridge")
    for address in ETCDS.values():
        ip("address", "add", f"{address}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    for name, address in ADDRESSES.items():
        ip("netns", "add", link(name))
        ip("link", "add", link(name), "type", "veth", "peer", "name", "eth0", "netns", link(name))
        ip("link", "set", link(name), "master", BRIDGE, "up")
        inside = ("-n", link(name))
        ip(*inside, "address", "add", f"{address}/24", "dev", "eth0")
        ip(*inside, "link", "set", "eth0", "up")
        ip(*inside, "link", "set", "lo", "up")


def is_in_use() -> bool:
    """Return whether another trial runs. A network that one has left behind is no obstacle."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return Path("/sys/class/net", BRIDGE).exists() and probe.connect_ex((ETCDS["etcd1"], 2379)) == 0


def remove_network() -> None:
    for name in ADDRESSES:
        ip("link", "delete", link(name), check=False)
        ip("netns", "delete", link(name), check=False)
    ip("link", "delete", BRIDGE, check=False)


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
    account: struct_passwd  # of the programs
    binaries: Path  # of PostgreSQL
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        if is_in_use():
            raise SystemExit(f"another etcd runs at {ETCDS['etcd1']}:2379: stop it first")
        make_network()
        for name in ETCDS:
            self.start_etcd(name)
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

    def start_etcd(self, name: str) -> None:
        client, peer = f"http://{ETCDS[name]}:2379", f"http://{ETCDS[name]}:2380"
        self.begin(
            name, program("etcd"), "--name", name, "--data-dir", str(self.folder / name),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", ",".join(f"{each}=http://{address}:2380" for each, address in ETCDS.items()),
        )  # fmt: skip

    def start_machine(self, name: str) -> None:
        address = ADDRESSES[name]
        self.begin(
            name, program("patroni"), str(FILES / "patroni.yml"),
            PATRONI_NAME=name,
            PATRONI_ETCD3_HOSTS=",".join(f"{each}:2379" for each in ETCDS.values()),
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
        """Start a program in the background, with its output in a file. That of a machine runs in its namespace."""
        user = (f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups")
        inside = (program("ip"), "netns", "exec", link(name)) if name in ADDRESSES else ()
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*inside, program("setpriv"), *user, *command], cwd=self.folder, env={**os.environ, **settings},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    # -- what Patroni says -------------------------------------------------------------------------------

    def role(self, name: str) -> str:
        """Return primary, sync_standby, replica, or "" if the machine does not answer."""
        import httpx2  # noqa: PLC0415 - after setup()

        try:
            answer = httpx2.get(f"http://{ADDRESSES[name]}:8008/patroni", timeout=1)
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

    def cut_network(self, name: str) -> None:
        """From now on, nothing that a machine sends arrives, and nobody is told."""
        ip("link", "set", link(name), "down")

    def mend_network(self, name: str) -> None:
        ip("link", "set", link(name), "up")

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
                process.terminate()  # it stops its server
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
        for process in self.processes.values():
            process.kill()
            process.wait(60)
        if self.processes:  # otherwise the network is that of another trial
            remove_network()
