"""System page for operators: health, running work and storage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Value
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe
from django_q.models import Failure, OrmQ

from analysis.models import Ingest, IngestState
from foundation.database import identity
from knowledge.models import Changeset, ChangesetState
from memories.models import IndexJob, Job
from memories.models.index_job import JobStatus
from memory_project.admin.pages import checkup
from memory_project.admin.pages.people import operator_of
from memory_project.operating.shared import task_queue

TABLES_SHOWN = 12
FAILURES_SHOWN = 5
SIZES = """
    SELECT relname, pg_total_relation_size(oid), reltuples::bigint, pg_database_size(current_database()) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT %s"""


@dataclass(frozen=True)
class WorkPart:
    name: str
    count: int
    page: str


@require_safe
def system(request: HttpRequest) -> HttpResponse:
    operator_of(request)
    groups = checkup.groups()
    needing_a_look = {result.name for group in groups for result in group.results if result.needs_a_look}
    context = {
        "checkup": groups,
        "work": _work(),
        "unreadable": task_queue.unreadable()[:FAILURES_SHOWN] if "unreadable_tasks" in needing_a_look else [],
        "failures": Failure.objects.order_by("-stopped")[:FAILURES_SHOWN] if "failures" in needing_a_look else [],
        **_storage(),
    }
    return render(request, "operate/system.html", context)


@identity.service("operation")
def _work() -> list[WorkPart]:
    rows: list[tuple[str, Any, str]] = [
        (gettext("jobs"), Job.objects.filter(ended_at=None), reverse("admin:memories_job_changelist")),
        (
            gettext("embeddings to compute"),
            IndexJob.objects.filter(status__in=[JobStatus.PENDING, JobStatus.RUNNING]),
            reverse("admin:indexing"),
        ),
        (gettext("downloads"), Ingest.objects.filter(state=IngestState.RUNNING), reverse("analyses")),
        (
            gettext("changesets not started"),
            Changeset.objects.filter(state=ChangesetState.PLANNED),
            reverse("admin:knowledge_changeset_changelist"),
        ),
        (gettext("queued tasks"), OrmQ.objects.all(), reverse("admin:django_q_ormq_changelist")),
    ]
    counts = [
        rows_of_kind.order_by().annotate(counted=Value(name)).values("counted").annotate(n=Count("pk"))
        for name, rows_of_kind, _ in rows
    ]
    count_of = {row["counted"]: row["n"] for row in counts[0].union(*counts[1:], all=True)}
    return [WorkPart(name, count_of.get(name, 0), page) for name, _, page in rows]


def _storage() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(SIZES, [TABLES_SHOWN])
        rows = cursor.fetchall()
    tables = [(name, size, max(count, 0)) for name, size, count, _ in rows]
    total = rows[0][3] if rows else 0
    disk = shutil.disk_usage(settings.COMMONPLACE_HOME if settings.COMMONPLACE_HOME.exists() else "/")
    return {"database_bytes": total, "tables": tables, "disk_free": disk.free, "disk_total": disk.total}
