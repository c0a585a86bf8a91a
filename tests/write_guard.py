"""Fail a test if any module other than a service writes domain rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from django.apps import apps
from django.db.models import Model, QuerySet

from foundation.database import prepared_statements
from memories.models.record import MemoryRecordQuerySet

ROOT = Path(__file__).resolve().parent.parent
APPS = ("memory_project", "knowledge", "analysis", "memories", "foundation")
# Models that admins edit in Django's own forms, or that Django itself writes.
SET_UP = {"Persona", "Purpose", "PersonaMembership", "User", "DeclaredSource", "ServiceAccount"}
# Layers that are skipped: the guard checks the module that called them.
PASSED_THROUGH = ("migrations", "models", "foundation")
SERVICES = {
    "foundation.work",
    "analysis.action_execution",
    "analysis.actions",
    "analysis.checks",
    "analysis.findings",
    "analysis.ingest",
    "analysis.memory_copies",
    "analysis.records",
    "analysis.sessions",
    "analysis.source_health",
    "knowledge.catalog.bulk_write",
    "knowledge.catalog.document_index",
    "knowledge.catalog.embedded",
    "knowledge.catalog.local_entities",
    "knowledge.catalog.mirror",
    "knowledge.catalog.projections",
    "knowledge.changesets.apply",
    "knowledge.changesets.approvals",
    "knowledge.changesets.erased_entities",
    "knowledge.changesets.redaction",
    "knowledge.changesets.rollback",
    "knowledge.changesets.shared_values",
    "knowledge.changesets.delivery",
    "knowledge.contradictions",
    "knowledge.context.caveat_waivers",
    "knowledge.debt",
    "knowledge.entities.redetection",
    "knowledge.freshness.baselines",
    "knowledge.freshness.stale_detection",
    "knowledge.freshness.own_writes",
    "knowledge.freshness.catalog_events",
    "knowledge.graph.entities",
    "knowledge.graph.graphs",
    "knowledge.graph.maintenance",
    "knowledge.graph.purge",
    "knowledge.graph.relations",
    "knowledge.graph.search",
    "knowledge.insights",
    "knowledge.memory_extension",
    "knowledge.review.clarifications",
    "knowledge.review.decisions",
    "knowledge.review.snooze",
    "knowledge.suggestions",
    "memories.conversation",
    "memories.management",
    "memories.retrieval.index_status",
    "memories.retrieval.indexing",
    "memories.retrieval.passages",
    "memories.retrieval.term_statistics",
    "memories.services",
    "memories.use",
    "memories.writing",
    "memory_project.accounts",
    "memory_project.audit",
    "memory_project.operating.backups",
    "memory_project.operating.demo",
    "memory_project.operating.doctor.machine_facts",
    "memory_project.operating.examinations",
    "memory_project.exchange.exports.progress",
    "memory_project.exchange.imports.restoring",
    "memory_project.exchange.exports.services",
    "memory_project.operating.shared",
    "memory_project.mcp.gateway.alerts",
    "memory_project.mcp.gateway.declarations",
    "memory_project.mcp.gateway.pins",
    "memory_project.mcp.gateway.sign_in",
    "memory_project.mcp.gateway.status",
    "memory_project.mcp.gateway.stored_credentials",
    "memory_project.exchange.imports.jobs",
    "memory_project.exchange.imports.memory_extension",
    "memory_project.exchange.imports.report",
    "memory_project.exchange.imports.staging",
    "memory_project.exchange.imports.taking_over",
    "memory_project.memory_extension",
    "memory_project.notifications",
    "memory_project.portal.pages",
    "memory_project.accounts.preferences.services",
    "memory_project.web.rate_limits",
    "memory_project.rest.idempotency",
    "memory_project.rest.memory_extension",
    "memory_project.schedules",
    "memory_project.exchange.subscriptions.services",
    "memory_project.exchange.subscriptions.synchronization",
    "memory_project.notifications.webhooks.endpoints",
    "memory_project.notifications.webhooks.sending",
}


def is_service(module: str) -> bool:
    return any(module == service or module.startswith(f"{service}.") for service in SERVICES)


def writer() -> str:
    """Return the nearest module of ours on the stack, or an empty string for a test or Django itself."""
    frame: FrameType | None = sys._getframe(3)  # skips the frames of this module
    while frame is not None:
        module = module_of(frame.f_code.co_filename)
        if module.startswith("tests"):
            return ""
        if module and not set(PASSED_THROUGH) & set(module.split(".")):
            return module
        frame = frame.f_back
    return ""


def module_of(filename: str) -> str:
    file = Path(filename)
    if not file.is_relative_to(ROOT):
        return ""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts) if parts[0] in (*APPS, "tests") else ""


def check(model: type[Model]) -> None:
    if model.__module__.partition(".")[0] not in APPS or model.__name__ in SET_UP:
        return
    module = writer()
    assert not module or is_service(module), f"{module} writes {model.__name__}: only services write"


@contextmanager
def services_alone_write() -> Iterator[None]:
    def checked(method: Callable[..., Any], of_model: bool) -> Callable[..., Any]:
        def write(self: Any, *args: Any, **kwargs: Any) -> Any:
            check(type(self) if of_model else self.model)
            return method(self, *args, **kwargs)

        return write

    models = {name: checked(getattr(Model, name), True) for name in ("save_base", "delete")}
    rows = {
        name: checked(getattr(QuerySet, name), False) for name in ("update", "delete", "bulk_create", "bulk_update")
    }
    querysets = {model._default_manager.all().__class__ for model in apps.get_models()} - {QuerySet}
    # MemoryRecordQuerySet.update calls the original, which is guarded
    overridden = [kind for kind in querysets - {MemoryRecordQuerySet} if set(rows) & set(vars(kind))]
    assert not overridden, overridden
    insertion = prepared_statements._values

    def values(new: Model) -> list[Any]:
        check(type(new))
        return insertion(new)

    with ExitStack() as stack:
        stack.enter_context(patch.object(prepared_statements, "_values", values))
        for owner, methods in ((Model, models), (QuerySet, rows)):
            for name, method in methods.items():
                stack.enter_context(patch.object(owner, name, method))
        yield
