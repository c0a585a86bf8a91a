"""The project's hooks in the memories app: audit and notifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q

from foundation.people.caller import Caller
from foundation.tools.declaration import Call, ContextBlock
from memories.extensions import MemoryExtension
from memories.models import MemoryRecord
from memory_project.audit import statements
from memory_project.mcp import feedback_request
from memory_project.models import AuditEvent, Notification
from memory_project.notifications import citations, inbox, validity


class ProjectMemoryExtension(MemoryExtension):
    def record_saved(self, record: MemoryRecord, *, created: bool) -> None:
        inbox.notify_mentions(record)

    def record_changed(self, record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
        inbox.clear_outdated(record, before["status"])
        validity.note_validity(record, change, before)
        if change == "verify" or before["content"] != record.content:
            inbox.clear_reports(record)

    def record_stale(self, record: MemoryRecord, caller: Caller) -> None:
        inbox.notify_stale(record, caller)

    def verification_outdated(self, record: MemoryRecord, caller: Caller, verifiers: Sequence[str]) -> None:
        inbox.notify_outdated(record, caller, verifiers)

    def record_reported(self, record: MemoryRecord, caller: Caller) -> None:
        inbox.notify_reported(record, caller)

    def report_withdrawn(self, record: MemoryRecord, caller: Caller) -> None:
        inbox.clear_reports_of(record, caller)

    def recent_statement(self, caller: Caller, call: str) -> tuple[str, str] | None:
        return statements.recent_statement(caller, call)

    def citing_documents_outdated(self, documents: Mapping[UUID, str], by: str) -> None:
        citations.notify_outdated(documents, by)

    def citing_documents_resolved(self, document_ids: Sequence[UUID]) -> None:
        citations.clear(document_ids)

    def after_call(self, caller: Caller, call: Call) -> Iterable[ContextBlock]:
        return feedback_request.after_recall(caller, call)

    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        # Audit events stay, but lose their arguments and messages.
        events = AuditEvent.objects.filter(record_ids__contains=[record_id])
        emptied = events.update(arguments={"erased": True}, message="")
        return {"audit events": emptied, "notifications": Notification.objects.filter(record_id=record_id).delete()[0]}

    def owner_wiped(self, owner: str, pseudonym: str) -> Mapping[str, int]:
        # The audit log keeps that calls happened, but not who made them, their arguments or the memories they named.
        service, _, user = owner.partition("#")
        rule = Q(email=service, arguments__user_id=user) if user else Q(email=owner)
        emptied = AuditEvent.objects.filter(rule).update(
            email="", persona="", arguments={"wiped": True}, message="", record_ids=[], trace_id=""
        )
        return {"audit": emptied}
