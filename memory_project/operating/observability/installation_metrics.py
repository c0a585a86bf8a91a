"""Gauges of the whole installation, read from the database when metrics are collected.

Every process reports the same numbers, so a dashboard takes their maximum. The numbers may be KEPT_S seconds old.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from foundation.database.connections import direct_connection
from foundation.database.identity import identity_of_service
from foundation.database.transaction_settings import identity_statement
from knowledge.models import ChangesetState
from memories.retrieval.indexing import SOURCES
from memory_project import __version__

log = logging.getLogger(__name__)

KEPT_S = 15.0
PREFIX = "commonplace_"
# Numbers that one row holds, in this order.
SINGLE = {
    "tasks_waiting": "Tasks that are due and that no worker has taken.",
    "oldest_task_age_seconds": "Age of the task that waits longest.",
    "schedules_overdue": "Schedules that should have run ten minutes ago. Without a worker, all are overdue.",
    "oldest_index_job_age_seconds": "Age of the oldest open job for a missing vector.",
    "stale_lag_seconds": "Time since memories were last compared with the catalog.",
    "catalog_up": "1 if the last comparison with the catalog was complete.",
    "insights_waiting": "Insights that wait for review.",
    "oldest_insight_age_seconds": "Age of the insight that waits longest for review.",
    "oldest_changeset_age_seconds": "Age of the oldest changeset that is planned or partial.",
    "checks_age_seconds": "Time since a worker has last made the checks of the doctor.",
    "database_connections": "Connections to the database server, of all its clients.",
    "database_connections_max": "Connections that the database server allows.",
    "database_size_bytes": "Size of the database.",
}
NUMBERS = """
    WITH due AS (SELECT lock FROM django_q_ormq WHERE lock <= now()),
        open_jobs AS (SELECT created_at FROM index_jobs WHERE status IN ('pending', 'running')),
        pending AS (SELECT created_at FROM insights JOIN memory_records ON record_id = id WHERE state = 'pending')
    SELECT (SELECT count(*) FROM due),
        (SELECT extract(epoch FROM now() - min(lock)) FROM due),
        (SELECT count(*) FROM django_q_schedule WHERE next_run < now() - interval '10 minutes' AND repeats <> 0),
        (SELECT extract(epoch FROM now() - min(created_at)) FROM open_jobs),
        (SELECT extract(epoch FROM now() - updated_at) FROM catalog_cursors WHERE name = 'watcher'),
        (SELECT (value = '')::int FROM catalog_cursors WHERE name = 'watcher'),
        (SELECT count(*) FROM pending),
        (SELECT extract(epoch FROM now() - min(created_at)) FROM pending),
        (SELECT extract(epoch FROM now() - min(created_at)) FROM changesets WHERE state IN ('planned', 'partial')),
        (SELECT extract(epoch FROM now() - max(at)) FROM examinations),
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        current_setting('max_connections')::int,
        pg_database_size(current_database())"""
# As the worker has last found them. The values of the states are those of STATES.
CHECKS = "SELECT name, finding ->> 'state' FROM examinations ORDER BY name"
STATES = {"unknown": -1, "ok": 0, "warning": 1, "problem": 2}
CHANGESETS = "SELECT state, count(*) FROM changesets GROUP BY state"
# The reconciler opens jobs for missing vectors every five minutes. Looking for the vectors themselves would take a
# second with a million memories.
VECTORS = """
    SELECT source_kind, count(*) FROM index_jobs
    WHERE status IN ('pending', 'running') OR (status = 'failed' AND resolved_at IS NULL) GROUP BY source_kind"""


class Installation(Collector):
    """Collects the gauges. While the database is away, commonplace_database_up is 0, and the others are missing."""

    def describe(self) -> Iterable[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        version = GaugeMetricFamily(f"{PREFIX}build_info", "The version of Commonplace; always 1.", labels=["version"])
        version.add_metric([__version__], 1)
        yield version
        families = _kept()
        yield GaugeMetricFamily(f"{PREFIX}database_up", "1 if the database answers.", value=families is not None)
        yield from families or ()


_guard = threading.Lock()
_last: tuple[float, list[Any] | None] | None = None


def _kept() -> list[Any] | None:
    """Return the gauges, at most KEPT_S seconds old, or None if the database does not answer."""
    global _last
    with _guard:
        if _last is None or time.monotonic() - _last[0] > KEPT_S or _last[1] is None:
            _last = (time.monotonic(), _read())
        return _last[1]


def forget() -> None:
    """Let the next collection read the database."""
    global _last
    _last = None


def _read() -> list[Any] | None:
    try:
        with direct_connection() as direct:
            psycopg.RawCursor(direct).execute(*identity_statement(identity_of_service("operation"), ""))
            numbers = direct.execute(NUMBERS).fetchone() or ()
            changesets = direct.execute(CHANGESETS).fetchall()
            vectors = direct.execute(VECTORS).fetchall()
            checks = direct.execute(CHECKS).fetchall()
    except psycopg.Error as error:
        log.warning("the metrics of the installation are missing: %s", type(error).__name__)
        return None
    families: list[Any] = [
        GaugeMetricFamily(PREFIX + name, help_text, value=float(number or 0))
        for (name, help_text), number in zip(SINGLE.items(), numbers, strict=True)
        if number is not None or not name.startswith(("catalog_", "stale_"))  # unknown before the first comparison
    ]
    families.append(_by_label("changesets", "Changesets, by state.", "state", ChangesetState.values, changesets))
    families.append(_by_label("vectors_missing", "Rows without a vector, by kind.", "kind", sorted(SOURCES), vectors))
    states = GaugeMetricFamily(
        f"{PREFIX}check_state",
        "State of each check of the doctor: -1 unknown, 0 ok, 1 warning, 2 problem.",
        labels=["check"],
    )
    for name, state in checks:
        states.add_metric([name], STATES.get(state, -1))
    families.append(states)
    return families


def _by_label(name: str, help_text: str, label: str, values: Sequence[str], rows: Sequence[Any]) -> Any:
    family = GaugeMetricFamily(PREFIX + name, help_text, labels=[label])
    counts = dict(rows)
    for value in values:
        family.add_metric([value], counts.get(value, 0))
    return family
