"""MCP tools of the analysis and query toolsets. Their arguments are declared in operations.py."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from django.conf import settings

from analysis import actions, child_ingest, export, findings, ingest, operations, rendering, sessions
from analysis.action_execution import ActionResult
from analysis.querying import query
from analysis.responses import (
    ActResponse,
    AggregateResponse,
    ClearResponse,
    DescribeResponse,
    ExportResponse,
    IngestResponse,
    NestedResponse,
    PreviewResponse,
    RowsResponse,
    SemanticResponse,
    SqlResponse,
    StoreResponse,
    SummaryResponse,
)
from analysis.sql import execute
from analysis.sql.engines import DIALECTS
from foundation.links import url_for
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from foundation.tools.budget import fit_items
from foundation.tools.confirmation import ConfirmationQuestion, quoted
from foundation.tools.declaration import Hints, Tool, ToolResponse, tool


def _ingest(caller: Caller, operation: operations.IngestRecords) -> ToolResponse[IngestResponse]:
    return rendering.ingest_answer(ingest.ingest(caller, operation))


def _ingest_children(caller: Caller, operation: operations.IngestChildren) -> ToolResponse[NestedResponse]:
    result = child_ingest.ingest(caller, operation)
    failed_parents = dict(list(result.failed.items())[: rendering.FAILED_SHOWN])
    response = response_of(NestedResponse, result, failed_parents=failed_parents)
    all_failed = bool(result.failed) and len(result.failed) == result.parents
    return ToolResponse(response, rendering.nested_text(result), rendering.CONSUMED, is_error=all_failed)


analysis_ingest = Tool(
    name="analysis_ingest",
    toolset="analysis",
    title="Ingest a data set",
    description="Download a data set that is too large to read into an analysis on the server. Returns only a status."
    "\n\nThen query it with analysis_query, store conclusions with analysis_store, and delete it with analysis_clear. "
    "The data set `memory` holds the memories that you may read.",
    choices={"": _ingest, "parent_model": _ingest_children},
    rare=("resume", "user_id", "parent_model", "child_resource", "parent_ids"),
    hints=Hints(open_world=True),
)


@tool(toolset="analysis", title="Store findings", quotes=False, rare=["memory_ids"])
def analysis_store(caller: Caller, operation: operations.StoreFindings) -> ToolResponse[StoreResponse]:
    """Store conclusions about an ingested data set, to be found later by analysis_query semantic. Not for raw records.

    To tell colleagues, pass the id of a finding to capture_insight as finding_id.
    """
    rows, note = findings.store(caller, operation)
    response: StoreResponse = {
        "analysis_id": operation.analysis_id,
        "stored": len(rows),
        "ids": [row.pk.hex for row in rows],
        "persistent": operation.persistent,
        "note": note,
    }
    return ToolResponse(
        response, rendering.store_text(operation.analysis_id, rows, operation.persistent, note), rendering.CONSUMED
    )


def _describe(caller: Caller, operation: operations.Describe) -> ToolResponse[DescribeResponse]:
    return rendering.describe_answer(caller, sessions.get_session(caller, operation.analysis_id), operation)


def _semantic(caller: Caller, operation: operations.SearchFindings) -> ToolResponse[SemanticResponse]:
    return rendering.semantic_answer(caller, sessions.get_session(caller, operation.analysis_id), operation)


def _scope(caller: Caller, operation: operations.Aggregate | operations.Filter | operations.Sample) -> query.QueryScope:
    session = sessions.get_session(caller, operation.analysis_id)
    return query.scope_for(caller, session, operation.model, operation.where)


def _aggregate(caller: Caller, operation: operations.Aggregate) -> ToolResponse[AggregateResponse]:
    return rendering.aggregate_answer(_scope(caller, operation), operation)


def _filter(caller: Caller, operation: operations.Filter) -> ToolResponse[RowsResponse]:
    return rendering.filter_answer(_scope(caller, operation), operation)


def _sample(caller: Caller, operation: operations.Sample) -> ToolResponse[RowsResponse]:
    return rendering.sample_answer(_scope(caller, operation), operation)


analysis_query = Tool(
    name="analysis_query",
    toolset="analysis",
    title="Query a data set",
    description="Query an ingested data set.\n\nCall describe first to learn the fields, then aggregate for the whole, "
    "and filter or sample for single records.",
    selector="mode",
    needs_choice=True,
    choices={
        "describe": _describe,
        "semantic": _semantic,
        "aggregate": _aggregate,
        "filter": _filter,
        "sample": _sample,
    },
    rare=("category", "threshold", "stratify_by", "proximity", "seed"),
    hints=Hints(read_only=True, idempotent=True),
)


def _act(caller: Caller, operation: operations.RunAction) -> ToolResponse[ActResponse] | PreviewResponse:
    return (
        _previewed(actions.dry_run(caller, operation)) if operation.dry_run else _acted(actions.act(caller, operation))
    )


def _ask_act(caller: Caller, operation: operations.RunAction) -> ConfirmationQuestion | None:
    if operation.dry_run or operation.confirm:
        return None
    preview = actions.dry_run(caller, operation)
    if preview.matched <= actions.MAX_UNCONFIRMED:
        return None
    values = f" Values: {quoted(json.dumps(dict(operation.attributes or {}), ensure_ascii=False))}."
    message = (
        f"{operation.action.title()} {preview.matched} {operation.model} records in the source? This can't be undone "
        f"here. The records were copied between {preview.earliest} and {preview.latest}."
        f"{values if operation.action == 'update' else ''}"
    )
    if preview.interrupted:
        message += " An earlier action was interrupted: this starts over and may repeat requests."
    return ConfirmationQuestion(message, preview.digest, confirm=preview.confirm)


def _resume(caller: Caller, operation: operations.ResumeAction) -> ToolResponse[ActResponse]:
    return _acted(actions.resume(caller, action_id=operation.action_id))


def _previewed(preview: actions.ActionPreview) -> PreviewResponse:
    response: PreviewResponse = {
        "matched_count": preview.matched,
        "sample_ids": preview.sample_ids,
        "sample_data": fit_items(preview.sample_data)[0],
        "confirm": preview.confirm,
    }
    if preview.earliest:
        response["ingestedAtRange"] = {"earliest": preview.earliest.isoformat(), "latest": preview.latest.isoformat()}
    if preview.uncastable:
        response["uncastable"] = preview.uncastable
    notes = [f"{preview.without_id} more records match, but lack an id and are skipped"] if preview.without_id else []
    if preview.interrupted:
        response["interrupted"] = [action.pk.hex for action in preview.interrupted]
        notes.append(rendering.BROKE_OFF.format(action=preview.interrupted[0]))
    if notes:
        response["note"] = "; ".join(notes)
    return response


def _acted(acted: ActionResult) -> ToolResponse[ActResponse]:
    counts = acted.counts
    summary: SummaryResponse = {
        "total": acted.total,
        "succeeded": counts.get("succeeded", 0),
        "failed": counts.get("failed", 0),
        "action": acted.action.kind,
    }
    if "drifted" in counts:
        summary["drifted"] = counts["drifted"]
    if "unknown" in counts:
        summary["unknown"] = counts["unknown"]
    errors: list[dict[str, Any]] = [
        {"index": index, "id": item.record_id, "status": item.outcome, "errors": [item.error]}
        | ({"status_code": item.status_code} if item.status_code else {})
        for index, item in enumerate(acted.errors)
    ]
    response: ActResponse = {
        "action_id": acted.action.pk.hex,
        "state": acted.action.state,
        "summary": summary,
        "sample_errors": errors,
    }
    if counts.get("unknown"):
        response["note"] = "the outcome of some records is unknown: check them upstream, or call again with action_id"
    all_failed = bool(acted.total) and summary["succeeded"] == 0 and "drifted" not in summary
    return ToolResponse(response, json.dumps(response, ensure_ascii=False), is_error=all_failed)


analysis_act = Tool(
    name="analysis_act",
    toolset="analysis",
    title="Act on records",
    description="Update or delete the matching records of an analysis in the system that they came from.\n\n"
    "Do a dry run first. If some records fail, call again with the action_id to retry those.",
    choices={"": _act, "action_id": _resume},
    confirms={"": _ask_act},
    is_available=actions.has_writable_models,
    rare=("user_id", "revalidate"),
    hints=Hints(destructive=True, open_world=True),
)


@tool(toolset="analysis", title="Clear an analysis", hints=Hints(destructive=True, idempotent=True), quotes=False)
def analysis_clear(caller: Caller, operation: operations.Clear) -> ToolResponse[ClearResponse]:
    """Delete an analysis with its downloaded records and all findings. The records upstream stay as they are."""
    records, cleared = sessions.clear(caller, analysis_id=operation.analysis_id)
    response: ClearResponse = {"analysis_id": operation.analysis_id, "records": records, "findings": cleared}
    text = f'Cleared {records} ingested record(s) and {cleared} finding(s) for analysis "{operation.analysis_id}".'
    return ToolResponse(response, text)


@tool(
    toolset="analysis", title="Export records", hints=Hints(read_only=True, idempotent=True), rare=["model", "fields"]
)
def analysis_export(caller: Caller, operation: operations.Export) -> ToolResponse[ExportResponse]:
    """Export the matching records as a file. Returns a link for your user, which works for an hour."""
    prepared, token = export.prepare(caller, operation)
    url = f"{settings.COMMONPLACE_URL}{url_for('analysis-export', token)}"
    response: ExportResponse = {
        "url": url,
        "format": prepared.format,
        "total": prepared.total,
        "valid_minutes": export.VALID_S // 60,
    }
    text = f"{prepared.total} record(s) as {prepared.format}, for {response['valid_minutes']} minutes: {url}"
    return ToolResponse(response, text)


@tool(toolset="query", title="Query a warehouse", hints=Hints(read_only=True, open_world=True))
def query_sql(caller: Caller, operation: operations.QuerySql) -> SqlResponse:
    """Query a data warehouse in SQL. It only reads. Memories about the tables are returned with the rows."""
    answer = execute.run_query(caller, operation)
    result = answer.result
    response: SqlResponse = {
        "columns": result.columns,
        "rows": result.rows,
        "row_count": len(result.rows),
        "source": answer.source.name,
        "dialect": DIALECTS[answer.source.engine],
        "took_ms": round(answer.took_ms, 1),
    }
    if notes := execute.notes_of(result, operation.sql):
        response["note"] = "; ".join(notes)
    return response


query_sql = replace(query_sql, is_available=lambda caller: bool(execute.readable_sources(caller)))

TOOLS = [analysis_ingest, analysis_store, analysis_query, analysis_act, analysis_clear, analysis_export]
QUERY_TOOLS = [query_sql]
