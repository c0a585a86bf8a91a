"""Extension points of the knowledge app. memories/extensions.py explains how an app registers its extension."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from foundation.extensions import Extensions
from foundation.people.caller import Caller
from knowledge.models import Changeset, Decision, Insight, InterviewQuestion, Suggestion
from memories.models import MemoryRecord


@dataclass(frozen=True)
class Origin:
    """A text to capture an insight from, with its entities and its provenance."""

    text: str
    entity_urns: list[str]
    provenance: dict[str, Any]
    place: str = ""  # the name of the TextPlace that has the text, and the row there
    row: object = None


class KnowledgeExtension:
    """Base class of extensions: an app overrides the hooks that it needs.

    The hooks about reviews run inside the transaction of the review step.
    """

    def observation(self, caller: Caller, number: int) -> Origin | None:
        """Return the content of the observation with this number in the caller's graph, or None if there is none."""
        return None

    def built_in_prompts(self) -> Collection[str]:
        """Return the names of the MCP server's built-in prompts. Curators can't add prompts with these names."""
        return ()

    def insight_reviewed(self, kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
        """Called after an insight is captured, after each step in its review, and after it is applied or rolled back.

        `kind` is a DecisionKind, or CAPTURED, APPLIED, ROLLED_BACK or OVERTURNED of insights/events.py. `by` is the
        e-mail address of the person who acted, and `people` are the e-mail addresses of the other people concerned.
        """

    def decision_overturned(self, insight: Insight, decision: Decision) -> None:
        """Called after a curator decided otherwise on an insight than `decision.overturns` had."""

    def changeset_decided(self, changeset: Changeset, kind: str, *, by: str) -> None:
        """Called after a changeset began to wait for a second approval, and after a curator decided about it.

        `kind` is a ChangesetVerdict, or PROPOSED of insights/events.py. `by` is the e-mail address of the curator.
        """

    def question_asked(self, question: InterviewQuestion) -> None:
        """Called after a question about an entity was stored for a person, perhaps by that person."""

    def question_decided(self, question: InterviewQuestion) -> None:
        """Called after the person answered such a question or passed over it."""

    def suggestions_staged(self, suggestion: Suggestion) -> None:
        """Called after suggestions for a person were stored, with one of them."""

    def suggestions_decided(self, owner: str, *, are_left: bool) -> None:
        """Called after a person, `owner`, decided about suggestions. `are_left` tells whether others still wait."""

    def scope_proposed(self, record: MemoryRecord, caller: Caller) -> None:
        """Called after `caller` proposed a scope for a memory of somebody else."""

    def scope_proposal_ended(self, record_id: UUID) -> None:
        """Called after a proposal of a memory's scope was undone, or the memory got a scope."""


EXTENSIONS: Extensions[KnowledgeExtension] = Extensions()

insight_reviewed = EXTENSIONS.tell(KnowledgeExtension.insight_reviewed)
decision_overturned = EXTENSIONS.tell(KnowledgeExtension.decision_overturned)
changeset_decided = EXTENSIONS.tell(KnowledgeExtension.changeset_decided)
question_asked = EXTENSIONS.tell(KnowledgeExtension.question_asked)
question_decided = EXTENSIONS.tell(KnowledgeExtension.question_decided)
suggestions_staged = EXTENSIONS.tell(KnowledgeExtension.suggestions_staged)
suggestions_decided = EXTENSIONS.tell(KnowledgeExtension.suggestions_decided)
scope_proposed = EXTENSIONS.tell(KnowledgeExtension.scope_proposed)
scope_proposal_ended = EXTENSIONS.tell(KnowledgeExtension.scope_proposal_ended)

observation = EXTENSIONS.first(KnowledgeExtension.observation)

built_in_prompts = EXTENSIONS.listed(KnowledgeExtension.built_in_prompts)
