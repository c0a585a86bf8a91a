# Written by write_sync.py from commonplace_client/_async. Change that, and run it again.
"""Insights: what was learned for the data catalog, and its review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from commonplace_client import types
from commonplace_client._sync.connection import Connection
from commonplace_client._values import body, path_id, query


def _path(insight_id: str | UUID, verb: str = "") -> str:
    return f"insights/{path_id('insight_id', insight_id)}/" + (f"{verb}/" if verb else "")


class Insights(Connection):
    def capture(
        self,
        insight_text: str | None = None,
        *,
        category: types.InsightCategory,
        confidence: types.Confidence | None = None,
        source: types.InsightSource | None = None,
        entity_urns: Sequence[str] | None = None,
        related_columns: Sequence[types.Column] | None = None,
        suggested_actions: Sequence[types.Change] | None = None,
        supersedes: str | UUID | None = None,
        finding_id: str | UUID | None = None,
        observation_id: int | None = None,
        visibility: types.Visibility | None = None,
        scope: str | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        valid_while: str | None = None,
        check: Mapping[str, Any] | None = None,
    ) -> types.Captured:
        """Propose something you learned for the data catalog. A curator reviews it."""
        arguments = body(
            insight_text=insight_text,
            category=category,
            confidence=confidence,
            source=source,
            entity_urns=entity_urns,
            related_columns=related_columns,
            suggested_actions=suggested_actions,
            supersedes=supersedes,
            finding_id=finding_id,
            observation_id=observation_id,
            visibility=visibility,
            scope=scope,
            valid_from=valid_from,
            valid_until=valid_until,
            valid_while=valid_while,
            check=check,
        )
        answer: types.Captured = self._post("insights/", arguments)
        return answer

    def insights(
        self,
        *,
        state: types.InsightState | None = None,
        category: types.Category | None = None,
        confidence: types.Confidence | None = None,
        persona: str | None = None,
        captured_by: str | None = None,
        entity_urn: str | None = None,
        captured_after: datetime | str | None = None,
        captured_before: datetime | str | None = None,
        order: types.Order | None = None,
        page_size: int = 100,
    ) -> Iterator[types.Insight]:
        """Iterate over all insights that you may see and that match."""
        filters = query(
            state=state,
            category=category,
            confidence=confidence,
            persona=persona,
            captured_by=captured_by,
            entity_urn=entity_urn,
            captured_after=captured_after,
            captured_before=captured_before,
            order=order,
            limit=page_size,
        )
        return self._items("insights/", filters)

    def insight(self, insight_id: str | UUID) -> types.OneInsight:
        """Return an insight with the evidence for it, and its version under `etag`."""
        answer: types.OneInsight = self._versioned("GET", _path(insight_id))
        return answer

    def edit_insight(
        self,
        insight_id: str | UUID,
        *,
        etag: str,
        content: str | None = None,
        category: types.InsightCategory | None = None,
        confidence: types.Confidence | None = None,
        dimension: types.Dimension | None = None,
        tags: Sequence[str] | None = None,
        entity_urns: Sequence[str] | None = None,
        related_columns: Sequence[types.Column] | None = None,
        scope: str | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        valid_while: str | None = None,
        suggested_actions: Sequence[types.Change] | None = None,
    ) -> types.OneInsight:
        """Edit a pending insight in the version that you read. Raises StaleEdit if it has changed since."""
        changes = body(
            content=content,
            category=category,
            confidence=confidence,
            dimension=dimension,
            tags=tags,
            entity_urns=entity_urns,
            related_columns=related_columns,
            scope=scope,
            valid_from=valid_from,
            valid_until=valid_until,
            valid_while=valid_while,
            suggested_actions=suggested_actions,
        )
        answer: types.OneInsight = self._versioned("PATCH", _path(insight_id), body=changes, etag=etag)
        return answer

    def approve(
        self,
        insight_ids: Sequence[str],
        *,
        review_notes: str | None = None,
        seen: Mapping[str, str] | None = None,
        override: bool | None = None,
    ) -> types.Decided:
        """Approve insights, as a curator.

        `seen` maps ids to the `seen` of the insights that you read. What has changed since is not decided, unless
        `override` is true. Refused decisions are listed under `errors`; that on the only insight is raised.
        """
        return self._decide("approve", insight_ids, seen, override, review_notes)

    def reject(
        self,
        insight_ids: Sequence[str],
        *,
        review_notes: str | None = None,
        seen: Mapping[str, str] | None = None,
        override: bool | None = None,
    ) -> types.Decided:
        """Reject insights, as a curator. `seen` and `override` are those of `approve`."""
        return self._decide("reject", insight_ids, seen, override, review_notes)

    def ask_author(
        self,
        insight_ids: Sequence[str],
        review_notes: str,
        *,
        seen: Mapping[str, str] | None = None,
        override: bool | None = None,
    ) -> types.Decided:
        """Ask the authors of insights a question, as a curator. The insights stay pending."""
        return self._decide("needs-more", insight_ids, seen, override, review_notes)

    def undo_review(
        self, insight_ids: Sequence[str], *, seen: Mapping[str, str] | None = None, override: bool | None = None
    ) -> types.Decided:
        """Take your decision back."""
        return self._decide("undo", insight_ids, seen, override)

    def appeal(self, insight_id: str | UUID, notes: str) -> types.Answered:
        """Ask a curator to look again at a rejected insight of yours."""
        answer: types.Answered = self._post(_path(insight_id, "appeal"), body(notes=notes))
        return answer

    def answer_question(self, insight_id: str | UUID, notes: str) -> types.Answered:
        """Answer a curator's question about an insight of yours."""
        answer: types.Answered = self._post(_path(insight_id, "answer"), body(notes=notes))
        return answer

    def synthesize(
        self, *, entity_urn: str | None = None, insight_ids: Sequence[str] | None = None
    ) -> types.Draft:
        """Draft changes of the catalog from approved insights."""
        arguments = body(entity_urn=entity_urn, insight_ids=insight_ids)
        answer: types.Draft = self._post("insights/synthesize/", arguments)
        return answer

    def _decide(
        self,
        decision: str,
        insight_ids: Sequence[str],
        seen: Mapping[str, str] | None,
        override: bool | None,
        review_notes: str | None = None,
    ) -> types.Decided:
        arguments: dict[str, Any] = body(
            insight_ids=insight_ids, seen=seen, override=override, review_notes=review_notes
        )
        answer: types.Decided = self._post(f"insights/{decision}/", arguments)
        return answer
