"""Sessions that keep a migration waiting, such as those of a server of an earlier version that still runs."""

from __future__ import annotations

from django.db import connection

LOCK_TIMEOUT_S = 10
LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's error code when lock_timeout has passed
# Locks can be read by every role, states of other roles' sessions can't. A session that waits for its client holds no
# locks, unless it is within a transaction.
BLOCKERS = """
    SELECT pid, max(application_name), max(usename::text), max(state),
        date_trunc('second', now() - max(xact_start))::text
    FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_class ON pg_class.oid = relation
    WHERE locktype = 'relation' AND granted AND relkind = 'r' AND relnamespace = 'public'::regnamespace
        AND datname = current_database() AND pid <> pg_backend_pid()
    GROUP BY pid ORDER BY max(xact_start) LIMIT 5
"""


def limit_waiting() -> None:
    """Let the statements of this session fail if they have waited LOCK_TIMEOUT_S for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{LOCK_TIMEOUT_S}s"])


def is_lock_timeout(error: BaseException) -> bool:
    return getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE


def describe() -> str:
    """Return which programs hold a lock on a table, and what to stop."""
    with connection.cursor() as cursor:
        cursor.execute(BLOCKERS)
        sessions = [_session(*row) for row in cursor.fetchall()]
    if not sessions:
        return "No other program uses a table any more: run the command again."
    return (
        f"In use by: {'; '.join(sessions)}. Stop every server, worker and stdio client of the earlier version (`up`, "
        "`serve`, `qcluster`, `mcp`), then run the command again."
    )


def _session(pid: int, name: str | None, role: str | None, state: str | None, age: str | None) -> str:
    known = [f"process {pid} of PostgreSQL", role and f"role {role}", state, age and f"for {age}"]
    return f"{name or 'a program'} ({', '.join(part for part in known if part)})"
