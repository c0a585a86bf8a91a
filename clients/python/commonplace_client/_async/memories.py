"""Memories: recall, remember, list, and each verb on one memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from commonplace_client import types
from commonplace_client._async.connection import Connection
from commonplace_client._values import body, path_id, query


def _path(memory_id: str | UUID, verb: str = "") -> str:
    return f"memories/{path_id('memory_id', memory_id)}/" + (f"{verb}/" if verb else "")


class Memories(Connection):
    async def recall(
        self,
        query: str = "",
        *,
        strategy: types.Strategy | None = None,
        entity_urns: Sequence[str] | None = None,
        dimension: types.Dimension | None = None,
        tags: Sequence[str] | None = None,
        include_stale: bool | None = None,
        as_of: datetime | str | None = None,
        limit: int | None = None,
        explain: bool | None = None,
    ) -> types.Recall:
        """Find memories that answer a question, or that are about entities."""
        arguments = body(
            query=query,
            strategy=strategy,
            entity_urns=entity_urns,
            dimension=dimension,
            tags=tags,
            include_stale=include_stale,
            as_of=as_of,
            limit=limit,
            explain=explain,
        )
        answer: types.Recall = await self._post("memories/recall/", arguments)
        return answer

    async def context_for(self, urns: Sequence[str], *, question: str | None = None) -> types.Context:
        """Return what colleagues and agents know about entities, given by URN or name."""
        answer: types.Context = await self._get("context/", query(urn=urns, question=question))
        return answer

    async def briefing(
        self,
        entities: Sequence[str] | None = None,
        *,
        since: datetime | str | None = None,
        interview: bool | None = None,
        max_tokens: int | None = None,
    ) -> types.Briefing:
        """Return what is certain, changed, contested and asked of you, about entities or your recent work.

        With `interview`, also return questions about what is missing on entities that you know.
        """
        parameters = query(entities=entities, since=since, interview=interview, max_tokens=max_tokens)
        answer: types.Briefing = await self._get("memories/briefing/", parameters)
        return answer

    async def remember(
        self,
        content: str,
        *,
        dimension: types.Dimension | None = None,
        category: types.Category | None = None,
        confidence: types.Confidence | None = None,
        source: types.Source | None = None,
        summary: str | None = None,
        entity_urns: Sequence[str] | None = None,
        related_columns: Sequence[types.Column] | None = None,
        tags: Sequence[str] | None = None,
        language: types.Language | None = None,
        visibility: types.Visibility | None = None,
        scope: str | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        valid_while: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        check: Mapping[str, Any] | None = None,
    ) -> types.Remembered:
        """Store a fact. A text that you have stored already is not stored twice."""
        arguments = body(
            content=content,
            dimension=dimension,
            category=category,
            confidence=confidence,
            source=source,
            summary=summary,
            entity_urns=entity_urns,
            related_columns=related_columns,
            tags=tags,
            language=language,
            visibility=visibility,
            scope=scope,
            valid_from=valid_from,
            valid_until=valid_until,
            valid_while=valid_while,
            metadata=metadata,
            check=check,
        )
        answer: types.Remembered = await self._post("memories/", arguments)
        return answer

    def memories(
        self,
        *,
        status: types.Status | None = None,
        validity: types.Validity | None = None,
        dimension: types.Dimension | None = None,
        category: types.Category | None = None,
        confidence: types.Confidence | None = None,
        source: types.ListedSource | None = None,
        visibility: types.Visibility | None = None,
        persona: str | None = None,
        created_by: str | None = None,
        tag: str | None = None,
        entity_urn: str | None = None,
        unsettled: bool | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        updated_after: datetime | str | None = None,
        order: types.Order | None = None,
        page_size: int = 100,
    ) -> AsyncIterator[types.Memory]:
        """Iterate over all memories that you may see and that match. Pages are fetched as they are needed."""
        filters = query(
            status=status,
            validity=validity,
            dimension=dimension,
            category=category,
            confidence=confidence,
            source=source,
            visibility=visibility,
            persona=persona,
            created_by=created_by,
            tag=tag,
            entity_urn=entity_urn,
            unsettled=unsettled,
            created_after=created_after,
            created_before=created_before,
            updated_after=updated_after,
            order=order,
            limit=page_size,
        )
        return self._items("memories/", filters)

    async def get(self, memory_id: str | UUID) -> types.OneMemory:
        """Return a memory with its corrections and history, and its version under `etag`."""
        answer: types.OneMemory = await self._versioned("GET", _path(memory_id))
        return answer

    async def update(
        self,
        memory_id: str | UUID,
        *,
        etag: str,
        content: str | None = None,
        dimension: types.Dimension | None = None,
        category: types.Category | None = None,
        confidence: types.Confidence | None = None,
        summary: str | None = None,
        entity_urns: Sequence[str] | None = None,
        related_columns: Sequence[types.Column] | None = None,
        tags: Sequence[str] | None = None,
        language: types.Language | None = None,
        visibility: types.Visibility | None = None,
        scope: str | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        valid_while: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        check: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> types.Revised:
        """Change your own memory. What is not given stays as it is.

        `etag` names the version that you read; "*" changes any version. Raises StaleEdit with the current state if
        somebody has changed the memory meanwhile.
        """
        changes = body(
            content=content,
            dimension=dimension,
            category=category,
            confidence=confidence,
            summary=summary,
            entity_urns=entity_urns,
            related_columns=related_columns,
            tags=tags,
            language=language,
            visibility=visibility,
            scope=scope,
            valid_from=valid_from,
            valid_until=valid_until,
            valid_while=valid_while,
            metadata=metadata,
            check=check,
            reason=reason,
        )
        answer: types.Revised = await self._versioned("PATCH", _path(memory_id), body=changes, etag=etag)
        return answer

    async def supersede(
        self,
        memory_id: str | UUID,
        content: str,
        *,
        etag: str | None = None,
        dimension: types.Dimension | None = None,
        category: types.Category | None = None,
        confidence: types.Confidence | None = None,
        summary: str | None = None,
        entity_urns: Sequence[str] | None = None,
        related_columns: Sequence[types.Column] | None = None,
        tags: Sequence[str] | None = None,
        language: types.Language | None = None,
        visibility: types.Visibility | None = None,
        scope: str | None = None,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        valid_while: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        check: Mapping[str, Any] | None = None,
        keep_checks: bool | None = None,
        reason: str | None = None,
    ) -> types.Corrected:
        """Correct a memory by a new one. The old text is kept as the earlier belief."""
        correction = body(
            content=content,
            dimension=dimension,
            category=category,
            confidence=confidence,
            summary=summary,
            entity_urns=entity_urns,
            related_columns=related_columns,
            tags=tags,
            language=language,
            visibility=visibility,
            scope=scope,
            valid_from=valid_from,
            valid_until=valid_until,
            valid_while=valid_while,
            metadata=metadata,
            check=check,
            keep_checks=keep_checks,
            reason=reason,
        )
        answer: types.Corrected = await self._post(_path(memory_id, "supersede"), correction, etag)
        return answer

    async def forget(
        self, memory_id: str | UUID, *, reason: str | None = None, etag: str | None = None
    ) -> types.Changed:
        """Archive a memory. `restore` brings it back."""
        answer: types.Changed = await self._versioned(
            "DELETE", _path(memory_id), params=query(reason=reason), etag=etag
        )
        return answer

    async def restore(
        self, memory_id: str | UUID, *, reason: str | None = None, etag: str | None = None
    ) -> types.Changed:
        """Put an archived or stale memory back in force."""
        answer: types.Changed = await self._verb(memory_id, "restore", body(reason=reason), etag)
        return answer

    async def verify(self, memory_id: str | UUID, *, note: str | None = None, etag: str | None = None) -> types.Changed:
        """Confirm that a memory is still true. With `etag`, only in the version that you read."""
        answer: types.Changed = await self._verb(memory_id, "verify", body(note=note), etag)
        return answer

    async def settle(
        self,
        memory_id: str | UUID,
        *,
        entity_urns: Sequence[str] | None = None,
        related_columns: Sequence[types.Column] | None = None,
        reason: str | None = None,
        etag: str | None = None,
    ) -> types.Changed:
        """Say which entities an unsettled memory is about; without any, that it is about nothing in the catalog."""
        answer = body(entity_urns=entity_urns, related_columns=related_columns, reason=reason)
        settled: types.Changed = await self._verb(memory_id, "settle", answer, etag)
        return settled

    async def extend(
        self, memory_id: str | UUID, by: types.Extension, *, reason: str | None = None, etag: str | None = None
    ) -> types.Revised:
        """Move the end of a memory by a month or a quarter, or remove it."""
        answer: types.Revised = await self._verb(memory_id, "extend", body(by=by, reason=reason), etag)
        return answer

    async def feedback(
        self, memory_id: str | UUID, verdict: types.Verdict, *, note: str | None = None, etag: str | None = None
    ) -> types.Changed:
        """Mark a memory as useful or wrong, or withdraw your earlier verdict."""
        answer: types.Changed = await self._verb(memory_id, "feedback", body(verdict=verdict, note=note), etag)
        return answer

    async def report(
        self,
        *,
        used: Sequence[str | UUID] | None = None,
        wrong: Sequence[str | UUID] | None = None,
        outdated: Sequence[str | UUID] | None = None,
        note: str | None = None,
        withdraw: Sequence[str | UUID] | None = None,
        cited_in: str | None = None,
    ) -> types.Reported:
        """Report which memories an answer used, and which proved wrong or outdated. `withdraw` removes your reports.

        `cited_in` is the address or title of a document that cites the used ones. You are told when they change.
        """
        arguments = body(used=used, wrong=wrong, outdated=outdated, note=note, withdraw=withdraw, cited_in=cited_in)
        answer: types.Reported = await self._post("memories/reports/", arguments)
        return answer

    async def reports(self, memory_id: str | UUID) -> types.Reports:
        """Return how often a memory was reported as used, and who reported it as wrong or outdated."""
        answer: types.Reports = await self._get(_path(memory_id, "reports"))
        return answer

    async def share(
        self, memory_id: str | UUID, visibility: types.Visibility, *, reason: str | None = None, etag: str | None = None
    ) -> types.Changed:
        """Change who may read a memory."""
        answer: types.Changed = await self._verb(memory_id, "share", body(visibility=visibility, reason=reason), etag)
        return answer

    async def erase(self, memory_id: str | UUID, *, confirm: bool, etag: str | None = None) -> types.Erased:
        """Erase a memory and its history for good. `confirm` must be true."""
        answer: types.Erased = await self._verb(memory_id, "erase", body(confirm=confirm), etag)
        return answer

    async def history(self, memory_id: str | UUID) -> types.History:
        """Return the edits and corrections of a memory."""
        answer: types.History = await self._get(_path(memory_id, "history"))
        return answer

    async def _verb(self, memory_id: str | UUID, verb: str, arguments: Mapping[str, Any], etag: str | None) -> Any:
        return await self._versioned("POST", _path(memory_id, verb), body=arguments, etag=etag)
