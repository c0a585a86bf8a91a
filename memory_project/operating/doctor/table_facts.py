"""Facts about an installation from its own tables, read in one statement."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from foundation.database import identity, sql_files
from knowledge.freshness.stale_detection import WATCHER
from memory_project import schedules
from memory_project.operating.doctor import machine_facts
from memory_project.operating.shared import secret_key_check, shared_files

SQL = sql_files.statements(__file__)
LATE = timedelta(minutes=10)  # if a schedule is overdue for longer, no worker is running
JSON_COLUMNS = ("vectors", "search_settings", "clocks", "disk_readings", "queue_readings")
SAMPLE = 1_000  # memories whose model and language are looked at
FAILURES_KNOWN = timedelta(days=7)  # for which a failure of a source or an upstream counts


@dataclass(frozen=True)
class TableFacts:
    overdue: int  # schedules
    idle_s: float | None  # seconds since the last task ended
    queued: int
    waiting_s: float | None  # age of the oldest task that no worker has taken
    unreadable: int  # queued tasks that no worker could read
    failed: int  # tasks in the last day
    failed_jobs: int
    late_jobs: int
    jobs: int  # work of people that is left
    job_wait_s: float | None  # time since the last turn of the job that waits longest for its next one
    defective_jobs: int  # whose last turn ended with an unexpected error
    vectors: Mapping[str, int]  # number of those looked at, by the model that has computed them
    known_languages: int  # memories looked at whose language was detected
    other_languages: int  # those of them that are not in English
    catalog_problem: str | None  # of the last comparison; None before the first one
    key_fingerprint: str | None
    other_folders: Sequence[str]  # machines that use another folder of shared files than this one
    other_models: Sequence[str]  # machines with another embedding model than this one
    clocks: Mapping[str, float]  # seconds that the database's clock is ahead of a machine's, by the machine
    disk_readings: Sequence[machine_facts.Reading]  # free bytes for the data of this machine
    queue_readings: Sequence[machine_facts.Reading]  # number of queued tasks
    failing_upstreams: Sequence[str]
    failing_sources: Sequence[str]
    backup_age_s: float | None
    backup_problem: str  # of the last scheduled backup
    backups_here: Sequence[str]  # paths on this machine
    tried_backup: str  # path of the backup that was last restored on trial
    trial_problem: str
    trial_age_s: float | None
    search_settings: Mapping[str, str | None]  # those of DATABASE_SEARCH, as they are within a transaction


def _folder_id() -> str:
    """Return the id of the folder of shared files, or "" if it is unknown: then no other folder differs from it."""
    try:
        return shared_files.known_folder_id()
    except OSError:  # the check of shared files says why
        return ""


def read() -> TableFacts:
    """Read the facts on the connection of this thread. Raises DatabaseError, for example before the first migration."""
    values: dict[str, Any] = {
        "paused": schedules.PAUSED,
        "late": LATE,
        "sample": SAMPLE,
        "watcher": WATCHER.email,
        "key": secret_key_check.FACT,
        "files": shared_files.FACT,
        "files_known": shared_files.KNOWN,
        "folder": _folder_id(),
        "model": machine_facts.MODEL,
        "own_model": machine_facts.configured_model(),
        "clock": machine_facts.CLOCK,
        "disk": f"{machine_facts.DISK}{machine_facts.machine()}",
        "queue": machine_facts.QUEUE,
        "machines_known": machine_facts.KNOWN,
        "failures_known": FAILURES_KNOWN,
        "host": socket.gethostname(),
        "search": list(settings.DATABASE_SEARCH),
    }
    with identity.service("operation"), connection.cursor() as cursor:
        cursor.execute(SQL["tables"], values)
        names = [column.name for column in cursor.description]
        found = dict(zip(names, cursor.fetchone(), strict=True))
    return TableFacts(**{**found, **{name: json.loads(found[name]) for name in JSON_COLUMNS}})
