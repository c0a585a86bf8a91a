"""The MCP tools for conversations, the semantic cache, decisions, web search and wiping a user's data."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from memories.contract.errors import Invalid
from memories.contract.tools import Hints, ToolResponse, tool
from memories.contract.urls import url_for
from memories.conversation import cache, decisions, deletion, operations, recall, statistics, turns, web_search, wipe
from memories.conversation.responses import (
    CachedResponse,
    CacheResponse,
    DecidedResponse,
    DecisionAnswerResponse,
    DeletedResponse,
    HealthResponse,
    InvalidatedResponse,
    ResultsResponse,
    StoredResponse,
    WebResponse,
    WipedResponse,
    decision_response,
    near_response,
    results_response,
)
from memories.identity.caller import Caller

READS = Hints(read_only=True, idempotent=True)
WIPED_TABLES = {"memory_records": "memories_deleted", "conversation_cache": "cache_deleted", "audit": "audit_deleted"}


@tool(toolset="conversation", title="Store messages", quotes=False)
def store_memory(caller: Caller, operation: operations.StoreMessages) -> StoredResponse:
    """Keep messages of a conversation for a day; what people said at some length becomes long-term.

    A human message of more than 30 characters is also a long-term memory, which a worker enriches.
    """
    stored = turns.store_messages(operation, caller=caller)
    response: StoredResponse = {"stm_ids": [turn.pk.hex for turn in stored.turns], "count": len(stored.turns)}
    if stored.note:
        response["note"] = stored.note
    return response


@tool(toolset="conversation", title="Recall conversations", hints=READS)
def recall_memory(caller: Caller, operation: operations.RecallConversations) -> ResultsResponse:
    """Find what was said, by recency, importance and relevance. Company knowledge is found by memory_recall."""
    return results_response(operation.user_id, recall.recall_conversations(operation, caller=caller), "final_score")


@tool(toolset="conversation", title="Search conversations by meaning and words", hints=READS)
def hybrid_search(caller: Caller, operation: operations.SearchHybrid) -> ResultsResponse:
    """Find what was said by meaning and by words, fused by reciprocal rank."""
    return results_response(operation.user_id, recall.search_hybrid(operation, caller=caller), "rrf_score")


@tool(toolset="conversation", title="Delete memories of conversations", hints=Hints(destructive=True), quotes=False)
def delete_memory(caller: Caller, operation: operations.DeleteMemories) -> DeletedResponse:
    """Delete what was said, by id, tags or time; it is purged some weeks later. dry_run counts only."""
    result = deletion.delete_memories(operation, caller=caller)
    response: DeletedResponse = {"deleted_count": result.count, "dry_run": result.dry_run}
    if result.copies:
        response["copies_deleted"] = result.copies
    return response


@tool(toolset="conversation", title="Check the cache", hints=READS)
def check_cache(caller: Caller, operation: operations.CheckCache) -> CacheResponse:
    """Look for the stored answer to a question that says the same in other words.

    A miss lists similar questions under near, with what differs. If one of them has the answer, fetch it with its
    cache_id.
    """
    lookup = cache.check_cache(operation, caller=caller)
    response: CacheResponse = {"cache_hit": lookup.hit is not None}
    if lookup.hit:
        entry = lookup.hit.entry
        response |= {"query": entry.query, "response": entry.response, "score": round(lookup.hit.score, 4)}
    if lookup.near:
        response["near"] = [near_response(question) for question in lookup.near]
    if lookup.note:
        response["note"] = lookup.note
    return response


@tool(toolset="conversation", title="Store in the cache", quotes=False)
def store_cache(caller: Caller, operation: operations.StoreCache) -> CachedResponse:
    """Keep the answer to a question, for questions that say the same, until it expires."""
    entry, note = cache.store_cache(operation, caller=caller)
    response: CachedResponse = {"cache_id": entry.pk.hex, "expires_at": entry.expires_at.isoformat()}
    if note:
        response["note"] = note
    return response


@tool(
    toolset="conversation", title="Invalidate the cache", hints=Hints(destructive=True, idempotent=True), quotes=False
)
def cache_invalidate(caller: Caller, operation: operations.InvalidateCache) -> InvalidatedResponse:
    """Drop cached answers: those whose question matches a pattern, those about an entity, or all."""
    return {"user_id": operation.user_id, "deleted_count": cache.invalidate_cache(operation, caller=caller)}


@tool(toolset="conversation", title="Search the web", hints=Hints(read_only=True, open_world=True))
def search_web(caller: Caller, operation: operations.SearchWeb) -> WebResponse:
    """Search the web with Tavily. Results are quotations of strangers; none becomes a memory by itself."""
    results: Any = web_search.search_web(operation, caller=caller)
    return {"results": results, "query": operation.query}


@tool(toolset="conversation", title="Health of a user's memory", hints=READS, quotes=False)
def memory_health(caller: Caller, operation: operations.ShowHealth) -> HealthResponse:
    """Count a user's memories of conversations by tier and by state of enrichment."""
    counts: Any = {"user_id": operation.user_id} | statistics.show_health(operation, caller=caller)
    return counts  # type: ignore[no-any-return]  # the keys of HealthResponse


@tool(toolset="conversation", title="Wipe a user's data", hints=Hints(destructive=True), quotes=False)
def wipe_user_data(caller: Caller, operation: operations.Wipe) -> ToolResponse[WipedResponse]:
    """Delete all data of a user for good. The person confirms it in the browser, unless the token may wipe."""
    try:
        outcome = wipe.request_wipe(operation, caller=caller)
    except Invalid as error:
        response: Any = {"error": error.message, "code": error.code, "user_id": operation.user_id}
        return ToolResponse(response, is_error=True)
    if outcome.request:
        address = f"{settings.COMMONPLACE_URL}{url_for('wipe', outcome.request.pk.hex)}"
        message = f"Prepared. Nothing has been deleted yet. Ask the person to open {address} and confirm there."
        return ToolResponse(
            {
                "user_id": operation.user_id,
                "status": "waits_for_confirmation",
                "confirm_at": address,
                "counts": outcome.counts,
                "message": message,
            }
        )
    counts = dict(outcome.counts)
    wiped: Any = {"user_id": operation.user_id} | {key: counts.pop(table, 0) for table, key in WIPED_TABLES.items()}
    return ToolResponse(wiped | ({"others_deleted": counts} if any(counts.values()) else {}), unsigned=True)


@tool(toolset="conversation", title="Store a decision", hints=Hints(idempotent=True), quotes=False)
def store_decision(caller: Caller, operation: operations.StoreDecision) -> DecidedResponse:
    """Keep a preference, choice or setting under a key; the same key again overwrites it, and history stays."""
    decision, action = decisions.store_decision(operation, caller=caller)
    return {"key": decision.key, "action": action, "user_id": operation.user_id}


@tool(toolset="conversation", title="Recall a decision", hints=READS)
def recall_decision(caller: Caller, operation: operations.RecallDecision) -> DecisionAnswerResponse:
    """The decision under a key, unless there is none or it has expired."""
    decision = decisions.recall_decision(operation, caller=caller)
    if decision is None:
        return {"key": operation.key, "found": False}
    return {"key": operation.key, "found": True, "decision": decision_response(operation.user_id, decision)}


TOOLS = [
    store_memory,
    recall_memory,
    delete_memory,
    check_cache,
    store_cache,
    cache_invalidate,
    hybrid_search,
    search_web,
    memory_health,
    wipe_user_data,
    store_decision,
    recall_decision,
]
