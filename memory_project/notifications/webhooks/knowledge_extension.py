"""Events about insights."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.extensions import KnowledgeExtension
from knowledge.insights.events import APPLIED, CAPTURED, ROLLED_BACK
from knowledge.models import DecisionKind, Insight
from memory_project.notifications.webhooks.events import emit

DECISIONS = {
    DecisionKind.APPROVED, DecisionKind.REJECTED, DecisionKind.TAKEN_BACK, DecisionKind.APPEALED,
    DecisionKind.EDIT_APPROVED, DecisionKind.EDIT_REJECTED,
}  # fmt: skip
OTHERS = {CAPTURED: "insight.captured", APPLIED: "insight.applied", ROLLED_BACK: "insight.rolled_back"}


class WebhooksKnowledgeExtension(KnowledgeExtension):
    def insight_reviewed(self, kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
        if kind in DECISIONS:
            emit("insight.decided", [insight.pk], decision=str(kind))
        elif kind in OTHERS:
            emit(OTHERS[kind], [insight.pk])
