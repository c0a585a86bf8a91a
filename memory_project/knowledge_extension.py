"""The project's hooks in the knowledge app: notifications of review events and suggestions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from foundation.people.caller import Caller
from knowledge.extensions import KnowledgeExtension
from knowledge.insights.events import APPLIED, ROLLED_BACK
from knowledge.models import Changeset, Decision, Insight, InterviewQuestion, Suggestion
from memories.models import MemoryRecord, Outdated
from memories.use.citations import changes
from memory_project.notifications import digest_and_alerts, inbox


class ProjectKnowledgeExtension(KnowledgeExtension):
    def built_in_prompts(self) -> Collection[str]:
        from memory_project.mcp.prompts import BUILT_IN_NAMES  # noqa: PLC0415 - imports the MCP SDK, which is slow

        return BUILT_IN_NAMES

    def insight_reviewed(self, kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
        inbox.notify_review(kind, insight, by=by, notes=notes, people=people)
        if kind == ROLLED_BACK:
            changes.note_reason([insight.pk], Outdated.ROLLED_BACK, by=by)
        elif kind == APPLIED:
            changes.clear([insight.pk], Outdated.ROLLED_BACK, by=by)

    def decision_overturned(self, insight: Insight, decision: Decision) -> None:
        digest_and_alerts.queue_overturned(insight, decision)

    def changeset_decided(self, changeset: Changeset, kind: str, *, by: str) -> None:
        inbox.notify_changeset(changeset, kind, by=by)

    def question_asked(self, question: InterviewQuestion) -> None:
        inbox.notify_question(question)

    def question_decided(self, question: InterviewQuestion) -> None:
        inbox.clear_question(question)

    def suggestions_staged(self, suggestion: Suggestion) -> None:
        inbox.notify_suggestions(suggestion)

    def suggestions_decided(self, owner: str, *, are_left: bool) -> None:
        if not are_left:
            inbox.clear_suggestions(owner)

    def scope_proposed(self, record: MemoryRecord, caller: Caller) -> None:
        inbox.notify_scope_proposed(record, caller)

    def scope_proposal_ended(self, record_id: UUID) -> None:
        inbox.clear_scope_proposal(record_id)
