from __future__ import annotations

import time
from uuid import UUID

from django.db.models import Q

from knowledge.changesets import erased_entities
from knowledge.contradictions import scan
from knowledge.entities import redetection
from knowledge.freshness import stale_detection
from knowledge.models import InsightState
from memories.tasks import TASK_SECONDS
from memories.use import attachment_use
from memories.writing import entity_detection

ENTITIES_PER_RUN = 2_000  # that a run compares with the catalog


def take_baselines(record_id: str) -> int:
    return stale_detection.catch_up([UUID(record_id)]).baselines_taken


def erase_from_catalog(changeset_id: str) -> str:
    return erased_entities.carry_out(UUID(changeset_id))


def check_freshness() -> str:
    """Compare memories with the catalog, and return a summary for the operator.

    If the comparison was incomplete or used a copy of the catalog, the summary says why.
    """
    waiting = erased_entities.carry_out_open()
    report = stale_detection.check_all_entities(ENTITIES_PER_RUN)
    stale_detection.report(report.note)
    summary = f"{report.checked} checked, {report.stale} stale, {report.to_verify} to verify"
    if waiting:
        summary += f"; {waiting} changesets that remove erased texts wait"
    return f"{summary}; degraded: {report.note}" if report.note else summary


def find_contradictions() -> str:
    """Compare new and changed memories with others and with the catalog, for about TASK_SECONDS."""
    outdated = scan.forget_outdated()
    compared, found = scan.scan(TASK_SECONDS)
    return f"{compared} memories compared, {found} new contradictions, {outdated} outdated"


def quiet_unused_memories() -> int:
    """Let memories that nobody uses be attached on request only. Those applied to the catalog are left as they are."""
    return attachment_use.quiet_unused(never=Q(insight__state=InsightState.APPLIED))


def link_memories() -> str:
    """Detect entities in memories where this is due, for about TASK_SECONDS, and in memories that name new entities."""
    deadline = time.monotonic() + TASK_SECONDS
    named = redetection.look_for_new_entities()
    completed = 0
    while time.monotonic() < deadline and (count := entity_detection.detect_batch()):
        completed += count
    return f"{completed} memories read, {named} of them because of new entities"
