"""The memory toolset over MCP: what is asked is in operations.py, what is done in services and search."""

from __future__ import annotations

from django.conf import settings

from memories import operations, queries, responses, services
from memories.contract.budget import within_budget
from memories.contract.tools import Answer, Hints, Tool, tool
from memories.history import history
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memories.rendering import as_text
from memories.responses import (
    ChangedShape,
    GotShape,
    HistoryShape,
    PageShape,
    PrunedShape,
    RecallShape,
    RememberedShape,
)
from memories.retrieval.recall import recall
from memories.writing import erasure, feedback, pruning


def _remember(caller: Caller, ask: operations.Remember) -> RememberedShape:
    answer = services.remember(ask, caller=caller)
    return _remembered(answer, "this is already remembered" if answer.existing else "remembered")


def _update(caller: Caller, ask: operations.Revise) -> ChangedShape:
    record = services.revise(ask, caller=caller)
    return _changed(record, record.waits or "updated")


def _supersede(caller: Caller, ask: operations.Supersede) -> RememberedShape:
    answer = services.supersede(ask, caller=caller)
    waits = answer.record.supersedes_id is None
    return _remembered(answer, f"{'proposed in place of' if waits else 'corrects'} {ask.record_id.hex}")


def _forget(caller: Caller, ask: operations.Forget) -> ChangedShape:
    return _changed(services.forget(ask, caller=caller), "forgotten; restore brings it back")


def _restore(caller: Caller, ask: operations.Restore) -> ChangedShape:
    return _changed(services.restore(ask, caller=caller), "restored")


def _verify(caller: Caller, ask: operations.Verify) -> ChangedShape:
    return _changed(services.verify(ask, caller=caller), "still true, as of now")


def _feedback(caller: Caller, ask: operations.MarkFeedback) -> ChangedShape:
    if ask.verdict == operations.WITHDRAW:
        feedback.withdraw(caller=caller, record_id=ask.record_id)
    else:
        feedback.mark(ask, caller=caller)
    return _changed(queries.get(caller, ask.record_id), "noted")


def _history(caller: Caller, ask: operations.ShowHistory) -> HistoryShape:
    record = queries.get(caller, ask.record_id)
    changes, omitted = within_budget([responses.change_shape(change) for change in history(caller, record)])
    shape: HistoryShape = {
        "id": record.pk.hex,
        "status": record.status,
        "history": changes,
        "total": len(changes) + omitted,
    }
    if omitted:
        shape["omitted"] = omitted
    return shape


def _share(caller: Caller, ask: operations.Share) -> ChangedShape:
    record = services.share(ask, caller=caller)
    return _changed(record, f"visible to {record.visibility}")


def _erase(caller: Caller, ask: operations.Erase) -> ChangedShape:
    erasure.erase(ask, caller=caller)
    return {"id": ask.record_id.hex, "status": "erased", "message": "erased for good"}


def _get(caller: Caller, ask: operations.GetMemory) -> GotShape:
    return {"memory": responses.memory_shape(queries.get(caller, ask.record_id)), "about": responses.QUOTED}


def _list(caller: Caller, ask: operations.ListMemories) -> PageShape:
    return responses.page_shape(queries.listing(caller, ask), ask.limit, ask.offset)


def _review_stale(caller: Caller, ask: operations.ReviewStale) -> PageShape:
    page = responses.page_shape(queries.stale(caller), ask.limit, ask.offset)
    return {**page, "message": f"{page['total']} stale: verify, update, supersede or forget each"}


memory_manage = Tool(
    name="memory_manage",
    toolset="memory",
    title="Manage memories",
    description="Keep, change, correct and look through long-term memories shared with your persona.\n\n"
    "Remember what a colleague would want to know next month: definitions, exceptions, migrations, preferences. "
    "Not what the data itself says, and nothing secret.",
    chooser="command",
    choices={
        "remember": _remember,
        "update": _update,
        "supersede": _supersede,
        "forget": _forget,
        "restore": _restore,
        "verify": _verify,
        "feedback": _feedback,
        "history": _history,
        "share": _share,
        "erase": _erase,
        "get": _get,
        "list": _list,
        "review_stale": _review_stale,
    },
    hints=Hints(destructive=True),
)


@tool(toolset="memory", title="Recall memories", hints=Hints(read_only=True, idempotent=True))
def memory_recall(caller: Caller, ask: operations.RecallMemories) -> Answer[RecallShape]:
    """Find what is known: by meaning and words (semantic), exact words (lexical), or by catalog entity.

    `auto` uses whatever you pass and returns one ranking. Ask before analysing: definitions, exceptions
    and corrections that colleagues and agents learned are here.
    """
    shape = responses.recall_shape(recall(ask, caller=caller), explain=ask.explain)
    return Answer(shape, text=as_text(shape))


@tool(toolset="memory", title="Store a note")
def memory_store(caller: Caller, ask: operations.StoreNote) -> RememberedShape:
    """Keep one short text for yourself alone; memory_recall finds it. What colleagues should know: memory_manage."""
    answer = services.store_note(ask, caller=caller)
    return _remembered(answer, "this is already stored" if answer.existing else "stored")


@tool(toolset="memory", title="Prune notes", hints=Hints(destructive=True))
def memory_prune(caller: Caller, ask: operations.PruneNotes) -> PrunedShape:
    """Archive your own old notes of memory_store: all past an age, the less used ones, or near-duplicates.

    Nothing else is touched: no shared, verified, proposed or corrected memory.
    """
    pruned = pruning.prune(ask, caller=caller)
    shape: PrunedShape = {"pruned": len(pruned), "dry_run": ask.dry_run, "examples": pruning.examples(pruned)}
    if not ask.dry_run and pruned:
        shape["message"] = f"archived; memory_manage restore brings one back for {settings.SOFT_DELETE_PURGE_DAYS} days"
    return shape


TOOLS = [memory_manage, memory_recall, memory_store, memory_prune]


def _remembered(answer: services.Remembered, message: str) -> RememberedShape:
    shape: RememberedShape = {
        "id": answer.record.pk.hex,
        "status": answer.record.status,
        "message": message,
        "existing": answer.existing,
    }
    if answer.similar:
        shape["similar_existing"] = [responses.similar_shape(similar) for similar in answer.similar]
    if answer.note:
        shape["note"] = answer.note
    return shape


def _changed(record: MemoryRecord, message: str) -> ChangedShape:
    return {"id": record.pk.hex, "status": record.status, "message": message}
