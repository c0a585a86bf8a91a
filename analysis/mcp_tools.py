"""The six analysis tools: what an agent may ask."""

from __future__ import annotations

import json
from typing import Annotated, Any

from django.conf import settings
from django.urls import reverse
from pydantic import Field

from analysis import actions, export, ingest, nested, sessions, telling
from analysis import findings as kept
from analysis.asking import query as asking
from analysis.execution import Acted
from analysis.shapes import ActShape, ClearShape, ExportShape, IngestShape, QueryShape, StoreShape
from memories.access import Caller
from memories.contract.budget import within_budget
from memories.contract.errors import Invalid, check_choice
from memories.contract.toolset import reply, tool

MODES = ("describe", "semantic", "aggregate", "filter", "sample")
TAKES = {
    "describe": frozenset({"analysis_id", "model", "where"}),
    "semantic": frozenset({"analysis_id", "model", "query", "category", "top_k", "threshold"}),
    "aggregate": frozenset({"analysis_id", "model", "where", "group_by", "metrics", "top_n"}),
    "filter": frozenset({"analysis_id", "model", "where", "limit", "sort", "fields", "cursor"}),
    "sample": frozenset({"analysis_id", "model", "where", "sample_size", "stratify_by", "proximity", "seed"}),
}

AnalysisId = Annotated[
    str, Field(description="The session's key, of your choice.", json_schema_extra={"maxLength": sessions.ID_MOST})
]
Where = Annotated[
    dict[str, Any] | None,
    Field(
        description="Which records: {field: value} exactly, or {field: {$gt, $gte, $lt, $lte, $eq, $ne, $in, $nin, "
        "$exists, $contains, $not: …}}; $and, $or, $not join conditions. Numbers and dates are compared as such."
    ),
]
UserId = Annotated[str, Field(description="For service accounts: the user on whose behalf; otherwise only yourself.")]
Objects = list[dict[str, Any]]


@tool(toolset="analysis", title="Ingest a data set", open_world=True)
def analysis_ingest(
    caller: Caller,
    analysis_id: AnalysisId,
    model: Annotated[str, Field(description="What to download; for children of a model, parent_model instead.")] = "",
    filters: Annotated[dict[str, Any] | None, Field(description="The model's own search filters.")] = None,
    page: Annotated[int, Field(description="One page, unless ingest_all.", json_schema_extra={"minimum": 1})] = 1,
    per_page: Annotated[int, Field(description="Records a page.", json_schema_extra={"minimum": 1})] = ingest.PER_PAGE,
    fields: Annotated[list[str] | None, Field(description="Only these; ids are always kept.")] = None,
    ingest_all: Annotated[bool, Field(description="All pages, up to 50 a call.")] = False,
    resume: Annotated[bool, Field(description="With ingest_all: go on where the last call ended.")] = False,
    parent_model: Annotated[str, Field(description="Nested: whose children to fetch.")] = "",
    child_resource: Annotated[str, Field(description="Nested: which children.")] = "",
    parent_ids: Annotated[
        list[str] | None,
        Field(description="Nested: at most 25; without, all ingested parents.", json_schema_extra={"maxItems": 25}),
    ] = None,
    user_id: UserId = "",
) -> IngestShape:
    """Download records for analysis without reading them: they are kept aside, and only a status comes back.

    Begin here when a data set is too large to read. Then describe, aggregate, filter and sample with
    analysis_query, keep what you find with analysis_store, and clear at the end. The model `memory` needs no source.
    """
    if parent_model:
        return _nested(caller, analysis_id, parent_model, child_resource, parent_ids, fields or [], user_id)
    if not model:
        raise Invalid("is missing", field="model", allowed="a model, or parent_model with child_resource")
    got = ingest.ingest(
        caller=caller,
        analysis_id=analysis_id,
        model=model,
        filters=filters,
        page=page,
        per_page=per_page,
        fields=fields or [],
        ingest_all=ingest_all,
        resume=resume,
        user_id=user_id,
    )
    return telling.ingest_reply(got)


def _nested(
    caller: Caller,
    analysis_id: str,
    parent_model: str,
    child_resource: str,
    parent_ids: list[str] | None,
    fields: list[str],
    user_id: str,
) -> IngestShape:
    got = nested.ingest(
        caller=caller,
        analysis_id=analysis_id,
        parent_model=parent_model,
        child_resource=child_resource,
        parent_ids=parent_ids,
        fields=fields,
        user_id=user_id,
    )
    shape: IngestShape = {
        "analysis_id": got.analysis_id,
        "model": got.model,
        "records": got.records,
        "parents": got.parents,
        "failed_parents": dict(list(got.failed.items())[: telling.FAILED_SHOWN]),
        "notes": got.notes,
    }
    all_failed = bool(got.failed) and len(got.failed) == got.parents
    return reply(shape, text=telling.nested(got), context=telling.CONSUMED, is_error=all_failed)


@tool(toolset="analysis", title="Store findings")
def analysis_store(
    caller: Caller,
    analysis_id: AnalysisId,
    findings: Annotated[
        Objects, Field(description="1 to 25 of {finding, category?, metadata?}.", json_schema_extra={"maxItems": 25})
    ],
    persistent: Annotated[bool, Field(description="Keep beyond an hour.")] = False,
) -> StoreShape:
    """Keep what you concluded about a data set, to be found again by meaning in this analysis. Not for raw records.

    A finding that colleagues should know goes further with capture_insight and its finding_id.
    """
    rows, note = kept.store(caller=caller, analysis_id=analysis_id, findings=findings, persistent=persistent)
    shape: StoreShape = {
        "analysis_id": analysis_id,
        "stored": len(rows),
        "ids": [row.pk.hex for row in rows],
        "persistent": persistent,
        "note": note,
    }
    return reply(shape, text=telling.stored(analysis_id, rows, persistent, note), context=telling.CONSUMED)


@tool(toolset="analysis", title="Query a data set", read_only=True, idempotent=True, command="mode", takes=TAKES)
def analysis_query(
    caller: Caller,
    analysis_id: AnalysisId,
    mode: Annotated[str, Field(description="One of: " + ", ".join(MODES))],
    model: Annotated[str, Field(description="Needed when the analysis holds several.")] = "",
    query: Annotated[str, Field(description="semantic: what to find.")] = "",
    category: Annotated[str, Field(description="semantic: only findings of this category.")] = "",
    top_k: Annotated[int, Field(description="semantic: 1 to 200.")] = kept.TOP_K,
    threshold: Annotated[
        float, Field(description="semantic: least similarity, 0 to 1, where no word matches.")
    ] = kept.THRESHOLD,
    group_by: Annotated[
        str | dict[str, Any] | list[Any] | None,
        Field(description='aggregate: a field, {field, bucket: "month"} for dates, or a list of at most 3 of these.'),
    ] = None,
    metrics: Annotated[
        Objects | None,
        Field(description="aggregate: {op: count, sum, avg, min, max, percentile; field; p}; at most 5."),
    ] = None,
    top_n: Annotated[int, Field(description="aggregate: groups shown, 1 to 200; the rest is counted.")] = asking.TOP_N,
    where: Where = None,
    limit: Annotated[int, Field(description="filter: 1 to 200.", json_schema_extra={"maximum": 200})] = asking.LIMIT,
    sort: Annotated[str, Field(description="filter: a field; -field descends.")] = "",
    fields: Annotated[list[str] | None, Field(description="filter: only these fields.")] = None,
    cursor: Annotated[str, Field(description="filter: where the last page ended.")] = "",
    sample_size: Annotated[int, Field(description="sample: 1 to 50.", json_schema_extra={"maximum": 50})] = 5,
    stratify_by: Annotated[str | list[str] | None, Field(description="sample: every value is represented.")] = None,
    proximity: Annotated[
        dict[str, Any] | None, Field(description='sample: {field, origin, window: "7 days", bucket?: "1 day"}.')
    ] = None,
    seed: Annotated[int | None, Field(description="sample: the same seed draws the same rows.")] = None,
) -> QueryShape:
    """Ask an ingested data set: its shape (describe), distributions, rows, samples, or findings by meaning (semantic).

    Describe first. Ground yourself with aggregate, look with filter and sample, and recall with semantic.
    """
    check_choice("mode", mode, MODES)
    session = sessions.find(caller, analysis_id)
    if mode == "semantic":
        return telling.semantic(session, query, category, model, top_k, threshold)
    if mode == "describe":
        return telling.described(caller, session, model, where)
    asked = asking.scope(session, model, where)
    if mode == "aggregate":
        return telling.aggregated(asked, group_by or "", metrics or [], top_n)
    if mode == "filter":
        if not where:
            raise Invalid("is missing", field="where", allowed="conditions; sample takes none")
        return telling.filtered(asked, limit, sort, fields or [], cursor)
    return telling.sampled(asked, sample_size, stratify_by or [], proximity, seed)


@tool(toolset="analysis", title="Act on records", destructive=True, open_world=True)
def analysis_act(
    caller: Caller,
    analysis_id: AnalysisId = "",
    model: Annotated[str, Field(description="A writable model of the analysis.")] = "",
    action: Annotated[str, Field(description="update or delete.")] = "",
    where: Where = None,
    attributes: Annotated[dict[str, Any] | None, Field(description="For update: what to set on every record.")] = None,
    dry_run: Annotated[bool, Field(description="Show scope and snapshot age, call nothing.")] = False,
    confirm: Annotated[str, Field(description="The dry run's token; needed for more than 50 records.")] = "",
    revalidate: Annotated[
        bool, Field(description="Read each record first, and skip those that changed since.")
    ] = False,
    action_id: Annotated[str, Field(description="Go on with an interrupted action instead.")] = "",
    user_id: UserId = "",
) -> ActShape:
    """Update or delete the matching records upstream, without their ids passing through the context.

    Do a dry run first. A partial failure is reported; call again with action_id to go on with what failed.
    """
    if action_id and (dry_run or action or where or attributes or confirm or revalidate):
        raise Invalid(
            "stands alone: it goes on with what was asked then", field="action_id", allowed="nothing beside it"
        )
    if action_id:
        return _acted(actions.resume(caller=caller, action_id=action_id))
    asked: dict[str, Any] = {
        "caller": caller,
        "analysis_id": analysis_id,
        "model": model,
        "action": action,
        "attributes": attributes,
        "where": where,
    }
    if dry_run:
        return _previewed(actions.dry_run(**asked))
    return _acted(actions.act(**asked, confirm=confirm, revalidate=revalidate, user_id=user_id))


def _previewed(preview: actions.Preview) -> ActShape:
    shape: ActShape = {
        "matched_count": preview.matched,
        "sample_ids": preview.sample_ids,
        "sample_data": within_budget(preview.sample_data)[0],
        "confirm": preview.confirm,
    }
    if preview.earliest:
        shape["ingestedAtRange"] = {"earliest": preview.earliest.isoformat(), "latest": preview.latest.isoformat()}
    if preview.uncastable:
        shape["uncastable"] = preview.uncastable
    notes = [f"{preview.without_id} more records match, but have no id to act on"] if preview.without_id else []
    if preview.interrupted:
        shape["interrupted"] = [action.pk.hex for action in preview.interrupted]
        notes.append(telling.BROKE_OFF.format(action=preview.interrupted[0]))
    if notes:
        shape["note"] = "; ".join(notes)
    return shape


def _acted(done: Acted) -> ActShape:
    made, counts = done.action, done.counts
    summary: dict[str, Any] = {
        "total": done.total,
        "succeeded": counts.get("succeeded", 0),
        "failed": counts.get("failed", 0),
        "action": made.kind,
    }
    summary |= {name: counts[name] for name in ("drifted", "unknown") if name in counts}
    errors = [
        {"index": place, "id": item.record_id, "status": item.outcome, "errors": [item.error]}
        | ({"status_code": item.status_code} if item.status_code else {})
        for place, item in enumerate(done.errors)
    ]
    shape: ActShape = {
        "action_id": made.pk.hex,
        "state": made.state,
        "summary": summary,
        "sample_errors": errors,
    }
    if counts.get("unknown"):
        shape["note"] = "of some records it is unknown what became of them: look at them, or call again with action_id"
    all_failed = bool(done.total) and summary["succeeded"] == 0 and "drifted" not in summary
    return reply(shape, text=json.dumps(shape, indent=2, ensure_ascii=False), is_error=all_failed)


@tool(toolset="analysis", title="Clear an analysis", destructive=True, idempotent=True)
def analysis_clear(caller: Caller, analysis_id: AnalysisId) -> ClearShape:
    """Delete an analysis: its records and findings, persistent ones too. What was done upstream stays on record."""
    records, findings = sessions.clear(caller=caller, analysis_id=analysis_id)
    shape: ClearShape = {"analysis_id": analysis_id, "records": records, "findings": findings}
    text = f'Cleared {records} ingested record(s) and {findings} finding(s) for analysis "{analysis_id}".'
    return reply(shape, text=text)


@tool(toolset="analysis", title="Export records", read_only=True, idempotent=True)
def analysis_export(
    caller: Caller,
    analysis_id: AnalysisId,
    model: Annotated[str, Field(description="Needed when the analysis holds several.")] = "",
    where: Where = None,
    format: Annotated[str, Field(description="csv or jsonl.")] = "csv",
    fields: Annotated[list[str] | None, Field(description="Only these columns.")] = None,
) -> ExportShape:
    """Make the matching records a file for a person: answers an address that only you can open, for an hour."""
    one, token = export.prepare(
        caller=caller, analysis_id=analysis_id, model=model, where=where, format=format, fields=fields or []
    )
    url = f"{settings.COMMONPLACE_URL}{reverse('analysis-export')}?export={token}"
    shape: ExportShape = {"url": url, "format": one.format, "total": one.total, "valid_minutes": export.VALID_S // 60}
    return reply(shape, text=f"{one.total} record(s) as {one.format}, for {shape['valid_minutes']} minutes: {url}")
