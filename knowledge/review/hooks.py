"""What becomes of an insight when its memory is changed by other ways, and what review holds back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django_q.tasks import async_task

from knowledge.changesets import rollback, suggested
from knowledge.freshness import baselines
from knowledge.insights import redaction
from knowledge.models import EntityBaseline, Insight, InsightState
from knowledge.review import clarifications, decisions
from memories.contract.errors import Conflict
from memories.extensions import Review
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memories.writing.bulk_actions import BulkAction


class InsightReview(Review):
    """What curators approved stays in force; what waits or was rejected goes through review."""

    def check_share(self, record: MemoryRecord) -> None:
        if Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).exists():
            raise Conflict("waits for review: it becomes visible when it is approved", field="id")

    def check_restore(self, record: MemoryRecord) -> None:
        rejected = Insight.objects.filter(pk=record.pk, state=InsightState.REJECTED).first()
        if rejected is not None:
            way = "appeal with a reason (capture_insight appeals, or My Insights)"
            raise Conflict(f"was rejected by {rejected.reviewed_by}: {way}", field="id")

    def check_erase(self, record: MemoryRecord) -> None:
        insight = Insight.objects.filter(pk=record.pk, changeset__isnull=False).first()
        if insight is not None and insight.changeset_id:
            changeset = insight.changeset_id.hex
            raise Conflict(
                f"is in the catalog by the changeset {changeset}: a curator must roll that back first", field="id"
            )

    def defer_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        return decisions.defer_edit(caller, record, changes)

    def defer_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        return decisions.defer_correction(record)

    def proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        decisions.keep_proposal(record, replaces)

    def corrected(self, record: MemoryRecord) -> None:
        Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).update(state=InsightState.SUPERSEDED)


def ground(record: MemoryRecord, is_new: bool) -> None:
    """How the named entities are now, once the memory is saved: at once from our own tables, otherwise by a worker."""
    if not baselines.urns_of(record) and (is_new or not EntityBaseline.objects.filter(record=record).exists()):
        return
    if settings.DATAHUB_GMS_URL:
        transaction.on_commit(partial(async_task, "knowledge.tasks.ground", record.pk.hex))
    else:
        transaction.on_commit(partial(baselines.take_baselines, [record.pk]))


class InsightCopies:
    """memories.extensions.Copies: of what was written to the catalog, hashes stay."""

    def erase(self, record_id: UUID, texts: Sequence[str]) -> None:
        redaction.redact(record_id, texts)

    def follow(self, record_ids: Sequence[UUID]) -> None:
        """Insights are read by who reads their memory."""


# What curators do to many insights at once.
INSIGHT_ACTIONS = {
    "approve": BulkAction(
        "Approved",
        lambda caller, pk, words: decisions.approve(caller=caller, insight_id=pk, notes=words.note),
        inverse="undo_review",
        kind="insight",
    ),
    "reject": BulkAction(
        "Rejected",
        lambda caller, pk, words: decisions.reject(caller=caller, insight_id=pk, notes=words.note),
        inverse="undo_review",
        kind="insight",
    ),
    "undo_review": BulkAction(
        "Back to waiting",
        lambda caller, pk, words: decisions.undo_review(caller=caller, insight_id=pk),
        kind="insight",
    ),
    "needs_more": BulkAction(
        "Back to the author, with a question",
        lambda caller, pk, words: clarifications.request_changes(caller=caller, insight_id=pk, notes=words.note),
        kind="insight",
    ),
    "hand_over": BulkAction(
        "Handed to a colleague",
        lambda caller, pk, words: clarifications.reassign(
            caller=caller, insight_id=pk, to=words.choice, notes=words.note
        ),
        kind="insight",
    ),
    "apply": BulkAction(
        "Applied",
        lambda caller, pk, words: suggested.apply(caller=caller, insight_id=pk),
        inverse="roll_back_insight",
        kind="insight",
        is_slow=True,
    ),
    "roll_back_insight": BulkAction(
        "Rolled back",
        lambda caller, pk, words: suggested.roll_back(caller=caller, insight_id=pk),
        kind="insight",
        is_slow=True,
    ),
    "roll_back": BulkAction(
        "Rolled back",
        lambda caller, pk, words: rollback.roll_back(caller=caller, changeset_id=pk),
        kind="changeset",
        is_slow=True,
    ),
}
