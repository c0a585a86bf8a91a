"""Conversations: messages, and what the server keeps of them. They are visible to their user alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from commonplace_client import types
from commonplace_client._async.connection import Connection
from commonplace_client._values import body, query


class Conversations(Connection):
    _email = ""

    async def account(self) -> types.Account:
        """Return who you are on this connection."""
        answer: types.Account = await self._get("me/")
        return answer

    async def store_messages(self, conversation_id: str, messages: Sequence[types.Message]) -> types.Stored:
        """Store messages of a conversation, new or known.

        They expire after a day. What matters in them is kept for longer, in the server's own words.
        """
        arguments = body(user_id=await self._user_id(), conversation_id=conversation_id, messages=messages)
        answer: types.Stored = await self._post("conversations/turns/", arguments)
        return answer

    async def recall_conversations(
        self,
        query: str,
        *,
        memory_type: types.Dimension | None = None,
        tags: Sequence[str] | None = None,
        limit: int | None = None,
        tier: Sequence[types.Tier] | None = None,
    ) -> types.FoundTurns:
        """Search your conversations: messages of the last day, and what was kept of older ones."""
        arguments = body(
            user_id=await self._user_id(), query=query, memory_type=memory_type, tags=tags, limit=limit, tier=tier
        )
        answer: types.FoundTurns = await self._post("conversations/recall/", arguments)
        return answer

    def turns(
        self,
        *,
        conversation_id: str | None = None,
        tier: types.Tier | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        order: types.Order | None = None,
        page_size: int = 100,
    ) -> AsyncIterator[types.Turn]:
        """Iterate over the messages of your conversations and what was kept of them."""
        filters = query(
            conversation_id=conversation_id,
            tier=tier,
            created_after=created_after,
            created_before=created_before,
            order=order,
            limit=page_size,
        )
        return self._items("conversations/turns/", filters)

    async def _user_id(self) -> str:
        # The server asks for the address again, although the token names it.
        if not self._email:
            self._email = (await self.account())["email"]
        return self._email
