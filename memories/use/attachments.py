"""Impressions: which memories were attached to the tool responses of a connection.

An unchanged memory is attached at most once an hour per connection. A session of an agent, as its hooks report it, is
a connection of its own, in which a memory is attached once. Pages show how often a memory was attached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Q
from django.utils import timezone

from foundation.database import prepared_statements
from foundation.people.caller import Caller
from memories.models import Impression, MemoryRecord
from memories.models.impression import KEPT_DAYS

AGAIN_AFTER = timedelta(hours=1)  # time until an unchanged memory may be attached again on the same connection
LATEST = 5  # number of the caller's own impressions that a memory's page lists
SESSION = "session "  # prefix of the connections that stand for an agent's session
# Tool of the impressions of a session that starts with an empty context: what was attached before counts no longer.
SESSION_START = "hooks/session-start"
MAX_IMPRESSIONS = 500  # maximum number of impressions read for one connection, the newest

OF_CONNECTION = """
    SELECT record_id, id, version, terms, used_at IS NOT NULL FROM memory_showings
    WHERE connection = %(connection)s AND at > %(since)s ORDER BY at DESC, id DESC LIMIT %(most)s"""
# Those since the latest start of the session, or all of a session whose start nobody reported.
OF_SESSION = """
    SELECT record_id, id, version, terms, used_at IS NOT NULL FROM memory_showings
    WHERE connection = %(connection)s AND at >= coalesce((
        SELECT max(at) FROM memory_showings WHERE connection = %(connection)s AND tool = %(session_start)s
    ), '-infinity') ORDER BY at DESC, id DESC LIMIT %(most)s"""
# The commit does not wait for the disk: if the last rows are lost, a memory is attached once more.
INSERT = """
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO memory_showings (record_id, connection, "to", tool, version, at, terms)
    SELECT record, %(connection)s, %(to)s, %(tool)s, version, %(at)s, terms::int[]
    FROM quick, unnest(%(records)s::uuid[], %(versions)s::text[], %(terms)s::text[]) AS given(record, version, terms)"""


@dataclass(frozen=True)
class AttachmentUsage:
    """Numbers of times a memory was attached in the last KEPT_DAYS days. Other people are counted, not named."""

    own: int  # impressions of the caller's tool calls
    others: int  # impressions of other people's tool calls
    other_people: int  # number of these people
    measured: int = 0  # impressions since the last change of the memory that could show a use (attachment_use.py)
    used: int = 0  # those of them that showed one
    latest: list[Impression] = field(default_factory=list)  # the caller's newest impressions


def in_session(caller: Caller, program: str, session: str) -> Caller:
    """Return the caller on the connection that stands for a session of an agent's program.

    The session's name comes from the program, so it counts only within the caller's own sessions.
    """
    key = hashlib.sha256("\0".join([caller.email, program, session]).encode()).hexdigest()
    return replace(caller, connection=f"{SESSION}{key[:32]}")


@dataclass(frozen=True)
class LastImpression:
    """The last impression of a memory on a connection."""

    impression: int  # its id
    version: str
    terms: Sequence[int] | None  # keyed hashes of the memory's words that the call did not have; None: not counted
    is_used: bool


def recent_impressions(caller: Caller) -> dict[UUID, LastImpression]:
    """Return the memories attached on the caller's connection: record id → its last impression.

    Those attached more than AGAIN_AFTER ago are left out, or in a session, those attached before its latest start.
    """
    if not caller.connection:
        return {}
    is_session = caller.connection.startswith(SESSION)
    values = {
        "connection": caller.connection,
        "session_start": SESSION_START,
        "since": timezone.now() - AGAIN_AFTER,
        "most": MAX_IMPRESSIONS,
    }
    # On the primary, because the last call may have been a moment ago.
    rows = prepared_statements.rows(OF_SESSION if is_session else OF_CONNECTION, values, primary=True, public=True)
    found: dict[UUID, LastImpression] = {}
    for pk, impression, version, terms, is_used in rows:
        found.setdefault(pk, LastImpression(impression, version, terms, is_used))
    return found


def record_impressions(
    caller: Caller, tool: str, versions: Mapping[UUID, str], terms: Mapping[UUID, Sequence[int]] | None = None
) -> None:
    """Store that these memories were attached.

    Those with `terms`, as in LastImpression, are counted by attachment_use.py.
    """
    counted = terms or {}
    values = {
        "records": list(versions),
        "versions": list(versions.values()),
        "terms": [_as_array(counted.get(pk)) for pk in versions],
        "connection": caller.connection,
        "to": caller.email,
        "tool": tool,
        "at": timezone.now(),
    }
    prepared_statements.rows(INSERT, values, primary=True, public=True)


def _as_array(terms: Sequence[int] | None) -> str | None:
    """Return PostgreSQL's text of an array. Arrays of arrays must have the same length."""
    return f"{{{','.join(map(str, terms))}}}" if terms else None


def usage_of(caller: Caller, record: MemoryRecord) -> AttachmentUsage:
    """Count the impressions of a memory that the caller may read.

    Other people's impressions are counted for the memory's owner and admins only, and are neither named nor dated:
    they would tell what a colleague works on.
    """
    rows = Impression.objects.filter(record=record, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    own = Q(to=caller.email)
    others = ~Q(to=caller.email)
    measured = Q(terms__isnull=False, at__gt=record.counted_from or record.created_at)
    counts = rows.aggregate(
        own=Count("pk", filter=own),
        others=Count("pk", filter=others),
        other_people=Count("to", filter=others, distinct=True),
        measured=Count("pk", filter=measured),
        used=Count("used_at", filter=measured),
    )
    if not caller.can_edit_for(record.created_by):
        counts |= {"others": 0, "other_people": 0, "measured": 0, "used": 0}
    latest = list(rows.filter(own).order_by("-at")[:LATEST]) if counts["own"] else []
    return AttachmentUsage(**counts, latest=latest)


def impression_counts(record_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return how often each memory was attached in the last KEPT_DAYS days. Memories never attached are missing."""
    rows = Impression.objects.filter(record__in=record_ids, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    return dict(rows.order_by().values_list("record_id").annotate(n=Count("pk")))
