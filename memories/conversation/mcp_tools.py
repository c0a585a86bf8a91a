"""The MCP tools for conversations, the semantic cache, decisions, web search and wiping a user's data."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from foundation.links import url_for
from foundation.operations.errors import Invalid
from foundation.people.caller import WIPE, Caller
from foundation.tools.confirmation import ConfirmationQuestion
from foundation.tools.declaration import Hints, ToolResponse, tool
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

READS = Hints(read_only=True, idempotent=True)
WIPED_TABLES = {"memory_records": "memories_deleted", "conversation_cache": "cache_deleted", "audit": "audit_deleted"}


@tool(toolset="conversation", title="Store messages", quotes=False)
def store_memory(caller: Caller, operation: operations.StoreMessages) -> StoredResponse:
    """Store messages of a chat. They expire after a day; human messages over 30 characters also become long-term."""
    stored = turns.store_messages(caller, operation)
    response: StoredResponse = {"stm_ids": [turn.pk.hex for turn in stored.turns], "count": len(stored.turns)}
    if stored.note:
        response["note"] = stored.note
    return response


@tool(toolset="conversation", title="Recall conversations", hints=READS)
def recall_memory(caller: Caller, operation: operations.RecallConversations) -> ResultsResponse:
    """Search a user's conversations by relevance, recency and importance. For company data, use memory_recall."""
    return results_response(operation.user_id, recall.recall_conversations(caller, operation), "final_score")


@tool(toolset="conversation", title="Search conversations by meaning and words", hints=READS)
def hybrid_search(caller: Caller, operation: operations.SearchHybrid) -> ResultsResponse:
    """Search a user's conversations by meaning and by exact words; best if the wording matters."""
    return results_response(operation.user_id, recall.search_hybrid(caller, operation), "rrf_score")


def _ask_delete(caller: Caller, operation: operations.DeleteMemories) -> ConfirmationQuestion | None:
    if operation.memory_id or operation.confirm or operation.dry_run:
        return None
    ids, copies = deletion.selected_ids(caller, operation)
    if not ids:
        return None
    message = (
        f"Delete {len(ids)} conversation memories of {operation.user_id} and {len(copies)} copies of them? "
        f"They can be restored for {settings.SOFT_DELETE_PURGE_DAYS} days."
    )
    return ConfirmationQuestion(message, sorted(pk.hex for pk in ids | copies))


@tool(
    toolset="conversation",
    title="Delete memories of conversations",
    hints=Hints(destructive=True),
    quotes=False,
    asks=_ask_delete,
)
def delete_memory(caller: Caller, operation: operations.DeleteMemories) -> DeletedResponse:
    """Delete a user's memories of conversations by id, tags or time. They are purged some weeks later."""
    result = deletion.delete_memories(caller, operation)
    response: DeletedResponse = {"deleted_count": result.count, "dry_run": result.dry_run}
    if result.copies:
        response["copies_deleted"] = result.copies
    return response


@tool(toolset="conversation", title="Check the cache", hints=READS)
def check_cache(caller: Caller, operation: operations.CheckCache) -> CacheResponse:
    """Look up an answer that store_cache stored for the same question, also in other words.

    A miss lists similar questions as `near`: if one asks the same, call again with its cache_id.
    """
    lookup = cache.check_cache(caller, operation)
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
    """Store the answer to a question, which check_cache returns when the same question is asked again."""
    entry, note = cache.store_cache(caller, operation)
    response: CachedResponse = {"cache_id": entry.pk.hex, "expires_at": entry.expires_at.isoformat()}
    if note:
        response["note"] = note
    return response


@tool(
    toolset="conversation", title="Invalidate the cache", hints=Hints(destructive=True, idempotent=True), quotes=False
)
def cache_invalidate(caller: Caller, operation: operations.InvalidateCache) -> InvalidatedResponse:
    """Delete answers of store_cache by question, by entity, or all."""
    return {"user_id": operation.user_id, "deleted_count": cache.invalidate_cache(caller, operation)}


@tool(toolset="conversation", title="Search the web", hints=Hints(read_only=True, open_world=True))
def search_web(caller: Caller, operation: operations.SearchWeb) -> WebResponse:
    """Search the web with Tavily. Nothing of it is stored."""
    results: Any = web_search.search_web(caller, operation)
    return {"results": results, "query": operation.query}


@tool(toolset="conversation", title="Health of a user's memory", hints=READS, quotes=False)
def memory_health(caller: Caller, operation: operations.ShowHealth) -> HealthResponse:
    """Count a user's memories of conversations, by tier and by state of enrichment."""
    counts: Any = {"user_id": operation.user_id} | statistics.show_health(caller, operation)
    return counts  # type: ignore[no-any-return]  # the keys of HealthResponse


def _ask_wipe(caller: Caller, operation: operations.Wipe) -> ConfirmationQuestion | None:
    if operation.confirm:
        return None
    counts = wipe.preview(caller, operation)
    rows = ", ".join(f"{count} in {table}" for table, count in counts.items()) or "none"
    step = "This can't be undone." if WIPE in caller.rights else "You confirm once more in the browser."
    message = f"Delete all data of {operation.user_id} for good? Rows: {rows}. {step}"
    # the counts are left out, because the audit log grows with each call
    return ConfirmationQuestion(message, operation.user_id)


@tool(toolset="conversation", title="Wipe a user's data", hints=Hints(destructive=True), quotes=False, asks=_ask_wipe)
def wipe_user_data(caller: Caller, operation: operations.Wipe) -> ToolResponse[WipedResponse]:
    """Delete all data of a user for good. Usually returns a link where the person confirms it."""
    try:
        outcome = wipe.request_wipe(caller, operation)
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
    """Store a preference, choice or setting under a key. An earlier value is replaced but kept in the history."""
    decision, action = decisions.store_decision(caller, operation)
    return {"key": decision.key, "action": action, "user_id": operation.user_id}


@tool(toolset="conversation", title="Recall a decision", hints=READS)
def recall_decision(caller: Caller, operation: operations.RecallDecision) -> DecisionAnswerResponse:
    """Return the decision that is stored under a key."""
    decision = decisions.recall_decision(caller, operation)
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
