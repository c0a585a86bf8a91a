"""Conversations, the user's decisions and the cache of answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import django_filters
from django.db.models import QuerySet
from typing_extensions import TypedDict

from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memories import responses
from memories.conversation import mcp_tools as tools
from memories.conversation import queries
from memories.conversation.statistics import living
from memories.models import MemoryRecord, Tier
from memories.responses import MemoryResponse
from memory_project.rest.endpoints import of_tool, route
from memory_project.rest.lists import Listing, each

TAG = "conversations"


class TurnResponse(MemoryResponse):
    conversation_id: str
    tier: str
    role: str
    author: str
    expires_at: str | None


class DecisionResponse(TypedDict):
    key: str
    value: str
    created_at: str
    updated_at: str
    expires_at: str | None


class CachedAnswerResponse(TypedDict):
    id: str
    query: str
    response: str
    entity_urns: list[str]
    hits: int
    created_at: str
    expires_at: str


class TurnFilter(django_filters.FilterSet):
    conversation_id = django_filters.CharFilter()
    tier = django_filters.ChoiceFilter(choices=[choice for choice in Tier.choices if choice[0]])
    created_after = django_filters.IsoDateTimeFilter("created_at", "gte")
    created_before = django_filters.IsoDateTimeFilter("created_at", "lte")


class DecisionFilter(django_filters.FilterSet):
    key = django_filters.CharFilter()


def _turns(caller: Caller) -> QuerySet[MemoryRecord]:
    return living(caller.email).defer("search")


def _turn_items(caller: Caller, rows: Sequence[MemoryRecord]) -> list[TurnResponse]:
    items: list[TurnResponse] = []
    for row, memory in zip(rows, responses.memory_responses(rows), strict=True):
        item: TurnResponse = {
            **memory,
            "conversation_id": row.conversation_id,
            "tier": row.tier,
            "role": row.role,
            "author": row.author,
            "expires_at": row.expires_at.isoformat() if row.expires_at else None,
        }
        items.append(item)
    return items


TURNS = Listing(
    "list_turns",
    _turns,
    _turn_items,
    TurnResponse,
    TurnFilter,
    tool="recall_memory",
    summary="List what was said in your conversations, and what was kept of it",
)
DECISIONS = Listing(
    "list_decisions",
    queries.decisions,
    each(partial(response_of, DecisionResponse)),
    DecisionResponse,
    DecisionFilter,
    tool="recall_decision",
    summary="List your decisions",
)
CACHE = Listing(
    "list_cached_answers",
    queries.cached_answers,
    each(partial(response_of, CachedAnswerResponse)),
    CachedAnswerResponse,
    tool="check_cache",
    summary="List your cached answers",
)

urlpatterns = [
    route(TAG, "conversations/turns/", get=TURNS, post=of_tool(tools.store_memory, "", "store_messages", status=201)),
    route(TAG, "conversations/recall/", post=of_tool(tools.recall_memory, "", "recall_conversations")),
    route(TAG, "conversations/search/", post=of_tool(tools.hybrid_search, "", "search_conversations")),
    route(TAG, "conversations/delete/", post=of_tool(tools.delete_memory, "", "delete_turns")),
    route(TAG, "conversations/health/", get=of_tool(tools.memory_health, "", "conversation_health")),
    route(TAG, "conversations/wipe/", post=of_tool(tools.wipe_user_data, "", "wipe_user_data")),
    route("decisions", "decisions/", get=DECISIONS, post=of_tool(tools.store_decision, "", "store_decision")),
    route("decisions", "decisions/recall/", post=of_tool(tools.recall_decision, "", "recall_decision")),
    route("cache", "cache/", get=CACHE, post=of_tool(tools.store_cache, "", "store_cached_answer", status=201)),
    route("cache", "cache/check/", post=of_tool(tools.check_cache, "", "check_cache")),
    route("cache", "cache/invalidate/", post=of_tool(tools.cache_invalidate, "", "invalidate_cache")),
]
