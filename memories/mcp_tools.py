"""MCP tools of the toolsets memory, notes and reports. Their arguments are declared in operations.py."""

from __future__ import annotations

from django.conf import settings

from foundation.people.caller import Caller
from foundation.tools.budget import fit_items
from foundation.tools.confirmation import ConfirmationQuestion, quoted
from foundation.tools.declaration import Hints, Tool, ToolResponse, tool
from memories import extensions, operations, queries, responses, services
from memories.history import history
from memories.models import MemoryRecord, Status
from memories.rendering import entity_name, page_answer, recall_answer
from memories.responses import (
    ChangedResponse,
    ErasedResponse,
    GotResponse,
    HistoryResponse,
    PageResponse,
    PrunedResponse,
    RecallResponse,
    RememberedResponse,
)
from memories.retrieval.recall import recall
from memories.use import reports
from memories.use.report_responses import ReportedResponse, reported_response
from memories.writing import entity_assignment, erasure, feedback, pruning


def _remember(caller: Caller, operation: operations.Remember) -> RememberedResponse:
    result = services.remember(caller, operation)
    response = _remembered(result, "this is already remembered" if result.existing else "remembered")
    return {**response, **responses.unsettled_response(caller, result.record)}


def _update(caller: Caller, operation: operations.Revise) -> ChangedResponse:
    record = services.revise(caller, operation)
    return _changed(record, record.pending_message or record.edit_note or "updated")


def _supersede(caller: Caller, operation: operations.Supersede) -> RememberedResponse:
    result = services.supersede(caller, operation)
    is_proposal = result.record.supersedes_id is None
    message = "proposed as a correction of" if is_proposal else "corrects"
    return _remembered(result, f"{message} {operation.record_id.hex}")


def _forget(caller: Caller, operation: operations.Forget) -> ChangedResponse:
    return _changed(services.forget(caller, operation), "forgotten; restore brings it back")


def _restore(caller: Caller, operation: operations.Restore) -> ChangedResponse:
    record = services.restore(caller, operation)
    if record.status == Status.STALE:
        return _changed(record, f"restored; it is stale, because {record.stale_reason}. If it is still true, verify it")
    return _changed(record, "restored")


def _verify(caller: Caller, operation: operations.Verify) -> ChangedResponse:
    return _changed(services.verify(caller, operation), "still true, as of now")


def _settle(caller: Caller, operation: operations.AssignEntities) -> ChangedResponse:
    record = entity_assignment.assign_entities(caller, operation)
    about = ", ".join(map(entity_name, record.entity_urns)) or "nothing in the catalog"
    return _changed(record, record.pending_message or f"settled: it is about {about}")


def _feedback(caller: Caller, operation: operations.MarkFeedback) -> ChangedResponse:
    if operation.verdict == operations.WITHDRAW:
        feedback.withdraw(caller, record_id=operation.record_id)
        return _changed(queries.get(caller, operation.record_id), "noted")
    mark = feedback.mark(caller, operation)
    record = queries.get(caller, operation.record_id)
    return _changed(record, "noted" if mark.counts else f"noted for you only: you don't hold persona {record.persona}")


def _history(caller: Caller, operation: operations.ShowHistory) -> HistoryResponse:
    record = queries.get(caller, operation.record_id)
    changes, omitted = fit_items([responses.change_response(change) for change in history(caller, record)])
    response: HistoryResponse = {
        "id": record.pk.hex,
        "status": record.status,
        "history": changes,
        "total": len(changes) + omitted,
    }
    if omitted:
        response["omitted"] = omitted
    return response


def _share(caller: Caller, operation: operations.Share) -> ChangedResponse:
    record = services.share(caller, operation)
    return _changed(record, f"visible to {record.visibility}")


def _attach(caller: Caller, operation: operations.ChooseAttachment) -> ChangedResponse:
    record = services.choose_attachment(caller, operation)
    return _changed(record, f"attached to answers: {record.attachment}")


def _erase(caller: Caller, operation: operations.Erase) -> ErasedResponse:
    erased = erasure.erase(caller, operation)
    response: ErasedResponse = {
        "id": operation.record_id.hex,
        "status": "erased",
        "message": "erased for good",
        "removed": dict(erased.removed),
        "same_words": dict(erased.same_words),
    }
    if erased.same_words:
        response["message"] += "; other texts that you can read have the same words, and stay: they are no copies"
    return response


def _ask_erase(caller: Caller, operation: operations.Erase) -> ConfirmationQuestion | None:
    if operation.confirm:
        return None
    record = erasure.check_erase(caller, operation)
    message = (
        f"Erase this memory of {record.created_by} for good, with its history and its copies? This can't be undone. "
        f"Its text: {quoted(record.content)}"
    )
    return ConfirmationQuestion(message, [record.pk.hex, record.content])


def _get(caller: Caller, operation: operations.GetMemory) -> GotResponse:
    record = queries.get(caller, operation.record_id)
    response: GotResponse = {"memory": responses.memory_response(record), "about": responses.QUOTED}
    response.update(responses.unsettled_response(caller, record))  # type: ignore[typeddict-item]
    if checks := extensions.described_checks(caller, record.pk):
        response["checks"] = [dict(check) for check in checks]
    return response


def _list(caller: Caller, operation: operations.ListMemories) -> ToolResponse[PageResponse]:
    rows = queries.list_memories(caller, operation)
    return page_answer(responses.page_response(rows, operation.limit, operation.offset))


def _review_stale(caller: Caller, operation: operations.ReviewStale) -> ToolResponse[PageResponse]:
    page = responses.page_response(queries.stale_memories(caller), operation.limit, operation.offset)
    page["message"] = f"{page['total']} stale: verify each that still holds, and supersede what is wrong"
    return page_answer(page)


memory_manage = Tool(
    name="memory_manage",
    toolset="memory",
    title="Manage memories",
    description="Store, correct, share and list memories about company data. To search them, use memory_recall.\n\n"
    "Remember what a colleague would want to know next month and can't see in the data: definitions, exceptions, "
    "migrations, preferences. Never secrets. If a memory is wrong, supersede it. Without a command, returns the "
    "arguments of each, and what the rare ones mean.",
    selector="command",
    other_tools=dict.fromkeys(("search", "find", "recall", "query"), "memory_recall"),
    choices={
        "remember": _remember,
        "update": _update,
        "supersede": _supersede,
        "forget": _forget,
        "restore": _restore,
        "verify": _verify,
        "settle": _settle,
        "feedback": _feedback,
        "history": _history,
        "share": _share,
        "attach": _attach,
        "erase": _erase,
        "get": _get,
        "list": _list,
        "review_stale": _review_stale,
    },
    confirms={"erase": _ask_erase},
    hints=Hints(destructive=True),
    reading=("history", "get", "list", "review_stale"),
    rare=("valid_while", "scope", "summary", "language", "metadata", "check", "keep_checks", "attachment", "confirm"),
)


@tool(
    toolset="memory",
    further_toolsets=["notes"],
    title="Recall memories",
    rare=["explain"],
    hints=Hints(read_only=True, idempotent=True),
)
def memory_recall(caller: Caller, operation: operations.RecallMemories) -> ToolResponse[RecallResponse]:
    """Search what people and agents have learned about company data: definitions, exceptions, corrections.

    Call it before you analyze data or answer a question about it. Pass a query, entities, or both.
    """
    return recall_answer(recall(caller, operation, distant=True), explain=operation.explain)


@tool(toolset="reports", title="Report on memories", hints=Hints(idempotent=True), quotes=False)
def memory_feedback(caller: Caller, operation: operations.ReportMemories) -> ReportedResponse:
    """Report which recalled memories an answer used, and which proved wrong or outdated.

    Owners and curators see that. It changes no ranking and no status: correct a memory with memory_manage, supersede.
    """
    return reported_response(reports.report(caller, operation))


@tool(toolset="notes", title="Store a note", quotes=False)
def memory_store(caller: Caller, operation: operations.StoreNote) -> RememberedResponse:
    """Store a short private note that only you can find again, with memory_recall.

    For what colleagues should know, use memory_manage with the command remember.
    """
    result = services.store_note(caller, operation)
    return _remembered(result, "this is already stored" if result.existing else "stored")


@tool(toolset="notes", title="Prune notes", hints=Hints(destructive=True), quotes=False)
def memory_prune(caller: Caller, operation: operations.PruneNotes) -> PrunedResponse:
    """Archive old or repeated notes that you stored with memory_store. It never touches other memories."""
    pruned = pruning.prune(caller, operation)
    response: PrunedResponse = {
        "pruned": len(pruned),
        "dry_run": operation.dry_run,
        "examples": pruning.examples(pruned),
    }
    if not operation.dry_run and pruned:
        response["message"] = (
            f"archived; memory_manage restore brings one back for {settings.SOFT_DELETE_PURGE_DAYS} days"
        )
    return response


TOOLS = [memory_manage, memory_recall]
REPORTS = [memory_feedback]
NOTES = [memory_recall, memory_store, memory_prune]


def _remembered(result: services.Remembered, message: str) -> RememberedResponse:
    response: RememberedResponse = {
        "id": result.record.pk.hex,
        "status": result.record.status,
        "message": message,
        "existing": result.existing,
    }
    if result.similar:
        response["similar_existing"] = [responses.similar_response(similar) for similar in result.similar]
    if result.note:
        response["note"] = result.note
    if detected := responses.detected_response(result.record):
        response["detected"] = detected
    return response


def _changed(record: MemoryRecord, message: str) -> ChangedResponse:
    response: ChangedResponse = {"id": record.pk.hex, "status": record.status, "message": message}
    if detected := responses.detected_response(record):
        response["detected"] = detected
    return response
