"""Counts of the calls about each entity, by person and week, added as calls happen.

The counts name people, so nobody but a person reads them, apart from the service that computes the debt. The texts of
calls are not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from knowledge.models import CatalogCursor, EntityUse
from knowledge.models.debt import EVERYONE

KEPT_WEEKS = 13  # weeks for which uses count
SETTLED = timedelta(minutes=2)  # a row that is younger may have neighbors that are not committed yet
CALLS, IMPRESSIONS = "debt: calls", "debt: impressions"  # names of the cursors

ADD = """
    INSERT INTO entity_uses (urn, persona, owner, week, calls, unanswered, recalled)
    SELECT * FROM unnest(%(urns)s::text[], %(personas)s::text[], %(owners)s::text[], %(weeks)s::date[],
                         %(calls)s::int[], %(unanswered)s::int[], %(recalled)s::int[])
    ON CONFLICT (urn, persona, owner, week) DO UPDATE SET
        calls = entity_uses.calls + EXCLUDED.calls,
        unanswered = entity_uses.unanswered + EXCLUDED.unanswered,
        recalled = entity_uses.recalled + EXCLUDED.recalled"""
# Memories attached to calls. Private ones are left out, because a number of them would tell that there are some.
ADD_IMPRESSIONS = """
    INSERT INTO entity_uses (urn, persona, owner, week, calls, unanswered, recalled)
    SELECT urn, CASE memory.visibility WHEN 'everyone' THEN %(everyone)s ELSE memory.persona END, shown."to",
           date_trunc('week', shown.at AT TIME ZONE 'UTC')::date, 0, 0, count(*)
    FROM memory_showings shown
    JOIN memory_records memory ON memory.id = shown.record_id AND memory.visibility <> 'private'
    CROSS JOIN LATERAL (SELECT DISTINCT unnest(memory.entity_urns || memory.detected_urns) AS urn) about
    WHERE shown.at > %(since)s AND shown.at <= %(until)s AND shown."to" <> ''
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (urn, persona, owner, week) DO UPDATE SET recalled = entity_uses.recalled + EXCLUDED.recalled"""


@dataclass(frozen=True)
class Use:
    """A use of an entity in one week. The counts are in `Counts`."""

    urn: str
    persona: str
    owner: str
    week: date


@dataclass
class Counts:
    calls: int = 0
    unanswered: int = 0
    recalled: int = 0


def monday_of(at: datetime) -> date:
    """Return the Monday of the week in UTC."""
    day = at.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def read_until(name: str) -> datetime:
    """Return up to when a cursor has read, or the start of the weeks that count."""
    start = timezone.now() - timedelta(weeks=KEPT_WEEKS)
    return max(_stored(name) or start, start)


def _stored(name: str) -> datetime | None:
    row = CatalogCursor.objects.filter(pk=name).first()
    return datetime.fromisoformat(row.value) if row and row.value else None


def add_calls(uses: Mapping[Use, Counts], *, since: datetime, until: datetime) -> None:
    """Add counts of calls after `since` and up to `until`, and remember that they were read.

    A crash loses nothing. Calls that another process has counted meanwhile are not counted again.
    """
    rows = [(use, counts) for use, counts in uses.items() if use.owner]
    with transaction.atomic():
        _lock(CALLS)
        read = _stored(CALLS)
        if rows and (read is None or read <= since):
            with connection.cursor() as cursor:
                cursor.execute(ADD, _columns(rows))
        _move_cursor(CALLS, max(until, read or until))


def _columns(rows: list[tuple[Use, Counts]]) -> dict[str, list[object]]:
    return {
        "urns": [use.urn for use, _ in rows],
        "personas": [use.persona or EVERYONE for use, _ in rows],
        "owners": [use.owner for use, _ in rows],
        "weeks": [use.week for use, _ in rows],
        "calls": [counts.calls for _, counts in rows],
        "unanswered": [counts.unanswered for _, counts in rows],
        "recalled": [counts.recalled for _, counts in rows],
    }


def add_impressions() -> int:
    """Count the memories that were attached since the last run, by entity. Return the number of changed counts."""
    until = timezone.now() - SETTLED
    with transaction.atomic():
        _lock(IMPRESSIONS)
        since = read_until(IMPRESSIONS)
        with connection.cursor() as cursor:
            cursor.execute(ADD_IMPRESSIONS, {"since": since, "until": until, "everyone": EVERYONE})
            count = int(cursor.rowcount)
        _move_cursor(IMPRESSIONS, until)
    return count


def delete_old() -> int:
    oldest = monday_of(timezone.now()) - timedelta(weeks=KEPT_WEEKS)
    return EntityUse.objects.filter(week__lt=oldest).delete()[0]


def start_again() -> None:
    """Forget all counts, so that the next run reads everything that the audit log still has."""
    with transaction.atomic():
        EntityUse.objects.all().delete()
        CatalogCursor.objects.filter(pk__in=[CALLS, IMPRESSIONS]).delete()


def _lock(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 4))", [name])


def _move_cursor(name: str, until: datetime) -> None:
    values = {"value": until.isoformat(), "updated_at": timezone.now()}
    CatalogCursor.objects.update_or_create(pk=name, defaults=values)
