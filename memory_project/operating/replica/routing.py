"""The decision whether an operation reads from the replica: one query to the primary, and one to the replica.

A person reads from the replica if it has replayed

- the person's last call that may have changed something (read your own writes), and
- every transaction that changed or removed what others read, such as an erasure, a correction or a share with fewer
  people. These must hold for everybody at once, so triggers note them in the transaction itself.

What others have added may appear on the replica later, up to DATABASE_REPLICA_MAX_LAG_S.
"""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections

from foundation.database import prepared_statements, replica
from memory_project.operating.replica.watch import Watch

log = logging.getLogger(__name__)

# In a restored database, a position may be one of another server, beyond the end of the log: then the end counts.
PRIMARY = """
    SELECT least(
               pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'),
               coalesce((SELECT position FROM replica_positions written
                         JOIN memory_project_user person ON person.id = written.person_id
                         WHERE person.email = %(email)s), 0))::bigint,
           pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint,
           pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
           ARRAY(SELECT id FROM replica_barriers WHERE xact >= %(confirmed)s),
           (SELECT system_identifier FROM pg_control_system())"""
# A server that was promoted, or that is a replica of another database, has replayed nothing of ours.
REPLICA = """
    SELECT CASE WHEN pg_is_in_recovery() AND (SELECT system_identifier FROM pg_control_system()) = %(system)s
           THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END,
           (SELECT count(*) FROM replica_barriers WHERE id = ANY(%(barriers)s::bigint[]))"""
# Committed asynchronously: if the server crashes, the log ends before the position anyway, or soon after it.
WRITTEN = """
    WITH quick AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true),
               pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS now)
    INSERT INTO replica_positions AS written (person_id, position)
    SELECT person.id, quick.now FROM memory_project_user person, quick WHERE person.email = %(email)s
    ON CONFLICT (person_id) DO UPDATE SET position = CASE
        WHEN written.position BETWEEN excluded.position AND pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')
        THEN written.position ELSE excluded.position END"""

watch = Watch()


def decide(reading: replica.Reading, email: str) -> bool:
    """Return whether this person's operation reads from the replica. Sets `reading.lag_s` if it is too far behind."""
    if not watch.may_try():
        return False
    confirmed = watch.confirmed_xact
    try:
        primary = prepared_statements.rows(PRIMARY, {"email": email, "confirmed": confirmed}, primary=True)
    except DatabaseError:  # the operation meets the error itself
        return False
    position, flushed, horizon, barriers, system = primary[0]
    found = _query_replica({"barriers": barriers, "system": system})
    if found is None:
        return False
    replayed, present = found
    watch.note(flushed, replayed)
    if watch.lag_s > settings.DATABASE_REPLICA_MAX_LAG_S:
        reading.lag_s = watch.lag_s
    elif horizon < confirmed:  # the ids of transactions began anew, because the server is another one
        watch.confirmed_xact = 0
    elif replayed >= position and present == len(barriers):
        watch.confirm(horizon)
        return True
    return False


def current_state() -> tuple[str, float]:
    """Look at the replica now, and return "ok", "behind", "away" or "no replica", and its lag in seconds."""
    decide(replica.Reading(), "")
    return watch.summary(), watch.lag_s


def _query_replica(values: dict[str, Any]) -> tuple[int, int] | None:
    """Return how far the replica has replayed the log, and how many of the barriers it has; None if it is unusable."""
    connection = connections[replica.ALIAS]
    try:
        replayed, present = prepared_statements.execute(connection, REPLICA, values)[0]
    except (DatabaseError, InterfaceError):
        connection.close()
        watch.lost()
        return None
    if replayed is None:
        watch.no_replica()
        return None
    return replayed, present


def note_write(email: str) -> None:
    """Let this person read from the replica only if it has replayed what was committed until now."""
    try:
        prepared_statements.rows(WRITTEN, {"email": email}, primary=True)
    except (DatabaseError, InterfaceError):
        log.exception("could not note a change: its author may read from the replica before it has replayed the change")
