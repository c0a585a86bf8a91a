"""System page for operators: health, sources, upstream servers, webhooks, running work and storage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import connection
from django.db.models import Count, Value
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe
from django_q.models import Failure, OrmQ, Schedule

from analysis import source_health
from analysis.models import Action, ActionState, Ingest, IngestState
from foundation import embedding
from foundation.database import identity
from foundation.operations.errors import DomainError, NotFound
from knowledge.freshness import stale_detection
from knowledge.models import Changeset, ChangesetState
from memories.models import Batch, IndexJob
from memories.models.index_job import JobStatus
from memories.retrieval import index_status
from memory_project import schedules
from memory_project.admin.pages import checkup
from memory_project.admin.pages.people import operator_of
from memory_project.mcp.gateway import health, trial
from memory_project.mcp.gateway.health import Health
from memory_project.models import Webhook
from memory_project.notifications import chat_channel
from memory_project.operating.replica import looks
from memory_project.operating.shared import shared_cache, shared_files, task_queue
from memory_project.web.error_labels import message_with_label
from memory_project.web.locale import number

LATE = timedelta(minutes=10)  # if a schedule is overdue for longer, no worker is running
TABLES_SHOWN = 12
FAILURES_SHOWN = 5
SIZES = """
    SELECT relname, pg_total_relation_size(oid), reltuples::bigint FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT %s"""


@dataclass(frozen=True)
class SystemPart:
    name: str
    state: str  # ok, stale (degraded) or failed: the color of the badge
    detail: str

    @property
    def label(self) -> str:
        return {"ok": gettext("ok"), "stale": gettext("degraded")}.get(self.state, gettext("failed"))


@dataclass(frozen=True)
class WorkPart:
    name: str
    count: int
    page: str


@require_safe
def system(request: HttpRequest) -> HttpResponse:
    operator_of(request)
    upstreams = health.look()
    unreadable = task_queue.unreadable()
    context = {
        "parts": [*_parts(len(unreadable)), *_upstream_part(upstreams)],
        "checkup": checkup.groups(),
        "upstreams": upstreams,
        "sources": source_health.states(),
        "webhooks": Webhook.objects.select_related("persona"),
        "webhook_hosts": settings.WEBHOOK_HOSTS,
        "work": _work(),
        "unreadable": unreadable[:FAILURES_SHOWN],
        "failures": Failure.objects.order_by("-stopped")[:FAILURES_SHOWN],
        **_storage(),
    }
    return render(request, "operate/system.html", context)


@require_POST
def test_connection(request: HttpRequest) -> HttpResponse:
    """Test a source by reading a row, a webhook by posting its current numbers, or an upstream by listing its tools."""
    caller = operator_of(request)
    try:
        match request.POST.get("kind", ""):
            case "source":
                name = request.POST.get("name", "")
                error = source_health.test(caller, name=name)
            case "webhook":
                webhook = (
                    Webhook.objects.select_related("persona").filter(persona__name=request.POST.get("name")).first()
                )
                if webhook is None:
                    raise NotFound(gettext("no such webhook"))
                name = str(webhook)
                error = chat_channel.send(webhook)
            case "upstream":
                name = request.POST.get("name", "")
                error = trial.try_upstream(caller, name=name).problem
            case other:
                raise NotFound(gettext("%(other)r can't be tested") % {"other": other[:40]})
    except DomainError as refusal:
        messages.error(request, message_with_label(refusal))
    else:
        report = messages.error if error else messages.success
        report(request, f"{name}: {error or gettext('the test succeeded')}.")
    return redirect(reverse("admin:system"))


def _parts(unreadable: int) -> list[SystemPart]:
    """Return the state of what runs. Row-level security and backups are among the checks of the same page."""
    state = embedding.state()
    catalog = stale_detection.degraded()
    overdue = Schedule.objects.filter(next_run__lt=timezone.now() - LATE).exclude(repeats=schedules.PAUSED).count()
    worker = _worker(overdue, OrmQ.objects.count(), unreadable)
    is_model_on = state["state"] in ("ready", "idle", "loading")
    version = connection.cursor().connection.info.server_version // 10_000
    complete = gettext("the last comparison with the memories was complete")
    left, total = index_status.remaining(index_status.model(), kept_s=60)
    amount = {"left": number(left), "total": number(total)}
    provider = f"{state['state']}: {state.get('detail') or '–'}"
    if left:
        provider += f"; {gettext('%(left)s of %(total)s texts left to embed') % amount}"
    return [
        SystemPart(gettext("Database"), "ok", f"PostgreSQL {version}"),
        *_replica_part(),
        SystemPart(gettext("Embeddings"), "ok" if is_model_on else "stale", provider),
        SystemPart(gettext("Catalog"), "stale" if catalog else "ok", catalog or complete),
        SystemPart(gettext("Background work"), "failed" if overdue or unreadable else "ok", worker),
        *_shared_parts(),
    ]


def _replica_part() -> list[SystemPart]:
    if not settings.DATABASE_REPLICA_URL:
        return []
    state, seconds = looks.current_state()
    details = {
        "ok": gettext("%(seconds)s s behind the primary"),
        "behind": gettext("%(seconds)s s behind; the primary is read instead"),
        "away": gettext("it can't be reached; the primary is read instead"),
        "no replica": gettext("this server is no replica of the database; name another one in DATABASE_REPLICA_URL"),
    }
    detail = details[state] % {"seconds": number_format(seconds, 1)}
    return [SystemPart(gettext("Read replica"), "ok" if state == "ok" else "stale", detail)]


def _shared_parts() -> list[SystemPart]:
    """Return what this machine does not share with the others as it should."""
    parts = []
    if problem := shared_cache.problem():
        text = gettext("the Redis of CACHE_URL does not answer (%(problem)s): PostgreSQL keeps the limits meanwhile")
        parts.append(SystemPart(gettext("Shared cache"), "stale", text % {"problem": problem}))
    if hosts := shared_files.hosts_of_other_folders():
        text = gettext(
            "other machines (%(hosts)s) keep their files elsewhere: set COMMONPLACE_FILES to a shared folder"
        )
        parts.append(SystemPart(gettext("Shared files"), "stale", text % {"hosts": ", ".join(hosts)}))
    return parts


def _upstream_part(upstreams: Health) -> list[SystemPart]:
    if not upstreams.states and not upstreams.findings:
        return []
    used = [one for one in upstreams.states if one.state != health.DISABLED]
    well = sum(one.state in (health.OK, health.NEVER) and not one.findings for one in used)
    detail = gettext("%(well)s of %(all)s without problems") % {"well": well, "all": len(used)}
    return [SystemPart(gettext("Upstream servers"), "stale" if upstreams.findings else "ok", detail)]


def _worker(overdue: int, queued: int, unreadable: int) -> str:
    if unreadable:
        text = ngettext(
            "%(n)s queued task can't be read by any worker",
            "%(n)s queued tasks can't be read by any worker",
            unreadable,
        )
        return text % {"n": unreadable}
    if not overdue:
        return ngettext("%(n)s task queued", "%(n)s tasks queued", queued) % {"n": queued}
    text = ngettext(
        "no worker is running: %(n)s schedule is overdue", "no worker is running: %(n)s schedules are overdue", overdue
    )
    return text % {"n": overdue}


@identity.service("operation")
def _work() -> list[WorkPart]:
    rows: list[tuple[str, Any, str]] = [
        (gettext("bulk actions"), Batch.objects.filter(finished_at=None), reverse("admin:memories_batch_changelist")),
        (
            gettext("embeddings to compute"),
            IndexJob.objects.filter(status__in=[JobStatus.PENDING, JobStatus.RUNNING]),
            reverse("admin:indexing"),
        ),
        (gettext("downloads"), Ingest.objects.filter(state=IngestState.RUNNING), reverse("analyses")),
        (gettext("actions on sources"), Action.objects.filter(state=ActionState.RUNNING), reverse("analyses")),
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
        cursor.execute("SELECT pg_database_size(current_database())")
        (total,) = cursor.fetchone() or (0,)
        cursor.execute(SIZES, [TABLES_SHOWN])
        tables = [(name, size, max(count, 0)) for name, size, count in cursor.fetchall()]
    disk = shutil.disk_usage(settings.COMMONPLACE_HOME if settings.COMMONPLACE_HOME.exists() else "/")
    return {"database_bytes": total, "tables": tables, "disk_free": disk.free, "disk_total": disk.total}
