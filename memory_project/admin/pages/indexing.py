"""Indexing page: embedding provider, coverage, throughput, failures by cause, and the actions to fix them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe
from django_q.tasks import async_task

from foundation import embedding
from foundation.operations.errors import NotFound
from knowledge.freshness import stale_detection
from memories.retrieval import index_status
from memory_project.admin.pages.people import operator_of
from memory_project.portal.templatetags.charts import ChartPoint


@require_safe
def indexing(request: HttpRequest, **admin: Any) -> HttpResponse:
    model = index_status.model()
    points, took = index_status.throughput()
    coverage = index_status.coverage(model, kept_s=10)
    context = {
        "state": embedding.state(),
        "model": model,
        "coverage": coverage,
        "is_running": any(row.open_jobs for row in coverage),
        "points": [ChartPoint(f"{timezone.localtime(at):%H:%M}", count) for at, count in points],
        "vector_count": sum(count for _, count in points),
        "took": took,
        "causes": index_status.causes(),
        "catalog_degraded": stale_detection.degraded(),
        "may_act": operator_of(request).is_operator,
    }
    template = "operate/_indexing.html" if request.htmx else "operate/indexing.html"  # type: ignore[attr-defined]
    return render(request, template, {**admin, **context})


@require_POST
def index_action(request: HttpRequest) -> HttpResponse:
    caller = operator_of(request)
    kind = request.POST.get("kind", "")
    cause = request.POST.get("cause", "")
    match request.POST.get("act", ""):
        case "retry":
            count = index_status.retry(caller, kind=kind, cause=cause)
            async_task("memories.tasks.close_gaps")
            text = ngettext("%(n)s failed job is queued again.", "%(n)s failed jobs are queued again.", count)
            messages.success(request, text % {"n": count})
        case "dismiss":
            count = index_status.dismiss(caller, kind=kind, cause=cause)
            text = ngettext("%(n)s failed job is dismissed.", "%(n)s failed jobs are dismissed.", count)
            messages.success(request, text % {"n": count})
        case "reindex":
            index_status.check_reindex(caller, kind=kind)
            async_task("memories.tasks.reindex", kind)
            messages.success(request, gettext("All rows are queued again. The bar below shows the progress."))
        case other:
            raise NotFound(gettext("%(other)r is not a known action") % {"other": other[:40]})
    # “watch” makes the page reload every two seconds, because the queued jobs start only after about a second.
    return redirect(reverse("admin:indexing") + "?watch=1")
