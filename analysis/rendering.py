"""Responses of the analysis tools: text for agents, and structured content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analysis import findings, sessions, sources
from analysis.child_ingest import ChildIngestResult
from analysis.ingest import MAX_PAGES, IngestResult
from analysis.models import Finding, Session
from analysis.operations import Aggregate, Describe, Filter, Sample, SearchFindings
from analysis.querying import description, query, sampling
from analysis.querying.query import QueryScope
from analysis.responses import (
    AggregateResponse,
    DescribeResponse,
    FieldResponse,
    IngestResponse,
    RowsResponse,
    SemanticResponse,
)
from analysis.sources.declaration import Resource
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from foundation.tools.budget import fit_items
from foundation.tools.declaration import ToolResponse

FAILED_SHOWN = 50
CONSUMED = {"consumed": True}  # tells the client that it may drop this call from the context: the data are stored
BROKE_OFF = (
    "an earlier {action.kind} was interrupted: resume it with action_id {action.pk.hex} instead of repeating it; "
    "the confirm token of this dry run starts over and may repeat requests"
)
TRANSIENT_FROM = 5  # a response with at least this many rows may be dropped from the context after use


def ingest_answer(result: IngestResult) -> ToolResponse[IngestResponse]:
    response = response_of(IngestResponse, result, error=result.error or result.shortfall)
    return ToolResponse(response, ingest_text(result), CONSUMED)


def ingest_text(result: IngestResult) -> str:
    fields = f" ({result.fields} fields per record)" if result.fields else ""
    if result.page:
        head = f"Stored {result.records} record(s){fields} (page {result.page}/{result.total_pages or '?'})."
    else:
        is_capped = result.capped and not result.shortfall and result.pages >= MAX_PAGES
        capped = f" (capped at {MAX_PAGES} pages)" if is_capped else ""
        head = f"Stored {result.records} record(s){fields} across {result.pages} page(s){capped}."
    lines = [head]
    lines += _uncounted(result)
    if result.irregular:
        lines.append(f"Rows with more or fewer values than columns: {result.irregular}.")
    if result.shortfall:
        lines.append(f"Incomplete: {result.shortfall}.")
    if result.resumed_from:
        lines.append(f"Resumed from page {result.resumed_from}.")
    if result.error:
        lines.append(f"Stopped: {result.error}. Earlier records are kept; a call with resume continues after them.")
    lines += [f"{note[0].upper()}{note[1:]}." for note in result.notes]
    return "\n".join([*lines, f"Analysis: {result.analysis_id}", f"Model: {result.model}"])


def _uncounted(result: IngestResult | ChildIngestResult) -> list[str]:
    if not result.repeated and not result.skipped:
        return []
    return [f"Repeated rows, stored once: {result.repeated}. Skipped rows: {result.skipped}."]


def nested_text(result: ChildIngestResult) -> str:
    good = result.parents - len(result.failed)
    lines = [
        f"Stored {result.records} nested record(s) from {good}/{result.parents} parent(s).",
        *_uncounted(result),
        f"Analysis: {result.analysis_id}",
        f"Parent: {result.parent_model}. Child: {result.model}",
        *result.notes,
    ]
    if result.failed:
        lines.append(f"Failed parents ({len(result.failed)}):")
        lines += [f"  - {parent}: {error}" for parent, error in list(result.failed.items())[:FAILED_SHOWN]]
        if len(result.failed) > FAILED_SHOWN:
            lines.append(f"  and {len(result.failed) - FAILED_SHOWN} more")
    return "\n".join(lines)


def store_text(analysis_id: str, rows: Sequence[Finding], persistent: bool, note: str) -> str:
    lifetime = "persistent" if persistent else "ephemeral (expires in 1 hour)"
    categories = list(dict.fromkeys(row.category for row in rows if row.category))
    lines = [f"Stored {len(rows)} analysis finding(s) ({lifetime}).", f"Analysis: {analysis_id}"]
    if categories:
        lines.append(f"Categories: {', '.join(categories)}")
    lines.append(f"IDs: {', '.join(row.pk.hex for row in rows)}")
    return "\n".join([*lines, note] if note else lines)


# -- query -------------------------------------------------------------------------------------------------


def _transient(count: int, summary: str) -> Mapping[str, Any] | None:
    return {"lifecycle": "transient", "summary": summary} if count >= TRANSIENT_FROM else None


def _rows(response: RowsResponse, head: str, empty: str) -> ToolResponse[RowsResponse]:
    """Render the line `head`, and below it the rows that fit the response budget as a JSON array.

    If there are no rows, the text is `empty`.
    """
    rows, omitted = fit_items(response["rows"])
    response = {**response, "rows": rows}
    if omitted:
        response["omitted"] = omitted
        head += f" {omitted} more rows did not fit: request fewer rows or fewer fields."
    note = _uncastable_note(response["uncastable"])
    text = f"{head}{note}\n{_as_lines(rows)}" if rows else f"{empty}{note}"
    return ToolResponse(response, text, _transient(len(rows), head + note))


def _as_lines(rows: Sequence[Any]) -> str:
    """Return a JSON array with one row in each line."""
    return "[" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "]"


def _uncastable_note(uncastable: Mapping[str, int] | None) -> str:
    if not uncastable:
        return ""
    counts = ", ".join(f"{count} in {name}" for name, count in uncastable.items())
    return f" Values that are not valid numbers or dates, and were treated as missing: {counts}."


def semantic_answer(caller: Caller, session: Session, operation: SearchFindings) -> ToolResponse[SemanticResponse]:
    result = findings.search(
        caller,
        session,
        operation.query,
        category=operation.category,
        model=operation.model,
        top_k=operation.top_k,
        threshold=operation.threshold,
    )
    rows = [
        {
            "id": hit.finding.pk.hex,
            "finding": hit.finding.finding,
            "category": hit.finding.category,
            "metadata": hit.finding.metadata,
            "similarity": round(hit.similarity, 4),
        }
        for hit in result.hits
    ]
    shown_rows, omitted = fit_items(rows)
    response: SemanticResponse = {
        "mode": "semantic",
        "findings": shown_rows,
        "total": len(rows),
        "ranking": result.ranking,
    }
    if omitted:
        response["omitted"] = omitted
    if result.degraded:
        response["degraded"] = True
        response["note"] = result.note
    if not shown_rows:
        hint = f" (threshold {operation.threshold:g}: a lower threshold may find more)" if not result.degraded else ""
        return ToolResponse(
            response, f"No findings match the query{hint}." + (f" {result.note}" if result.note else "")
        )
    lines = [f"Found {len(rows)} finding(s){' by exact words' if result.degraded else ''}:"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in shown_rows:
        groups.setdefault(str(row["category"]) or "uncategorized", []).append(row)
    for name, members in groups.items():
        lines.append(f"\n## {name} ({len(members)})")
        lines += [_finding_line(row) for row in members]
    return ToolResponse(response, "\n".join(lines), _transient(len(shown_rows), lines[0]))


def _finding_line(row: Mapping[str, Any]) -> str:
    is_summary = row["category"] == findings.SUMMARY
    metadata = "" if is_summary or not row["metadata"] else f" | {json.dumps(row['metadata'], ensure_ascii=False)}"
    return f"- {row['finding']}{metadata} [{row['similarity']:.1%} match]"


def aggregate_answer(scope: QueryScope, operation: Aggregate) -> ToolResponse[AggregateResponse]:
    result = query.aggregate(scope, operation.group_by, metrics=operation.metrics, top_n=operation.top_n)
    name = ", ".join(result.group_by)
    lines = [f'Distribution of "{name}" ({result.total} total):']
    for group in result.groups:
        label = ", ".join("(null)" if value is None else value for value in group.values)
        metrics = "".join(f", {key}={_number(value)}" for key, value in group.metrics.items())
        lines.append(f"  {label}: {group.count} ({group.count / result.total:.1%}){metrics}")
    if result.other_groups:
        lines.append(
            f"  and {result.other_groups} more groups: {result.other_count} ({result.other_count / result.total:.1%})"
        )
    if result.uncastable:
        lines.append(_uncastable_note(result.uncastable).strip())
    response: AggregateResponse = {
        "mode": "aggregate",
        "model": scope.model,
        "group_by": result.group_by,
        "groups": [{"values": g.values, "count": g.count, "metrics": g.metrics} for g in result.groups],
        "total": result.total,
        "other_groups": result.other_groups,
        "other_count": result.other_count,
        "uncastable": result.uncastable,
    }
    text = "\n".join(lines) if result.total else "No ingested records match."
    return ToolResponse(response, text, _transient(len(result.groups), lines[0]))


def _number(value: Any) -> str:
    if not isinstance(value, float):
        return "none" if value is None else str(value)
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) >= 1e-6 else f"{value:g}"


def filter_answer(scope: QueryScope, operation: Filter) -> ToolResponse[RowsResponse]:
    result = query.filtered(
        scope, limit=operation.limit, sort=operation.sort, fields=operation.fields, cursor=operation.cursor
    )
    response: RowsResponse = {
        "mode": "filter",
        "model": scope.model,
        "rows": result.rows,
        "total": result.total,
        "cursor": result.cursor,
        "uncastable": result.uncastable,
    }
    next_page = f" More with cursor {result.cursor}." if result.cursor else ""
    head = f"{len(result.rows)} of {result.total} matching {scope.model} record(s).{next_page}"
    return _rows(response, head, "No records match.")


def sample_answer(scope: QueryScope, operation: Sample) -> ToolResponse[RowsResponse]:
    result = sampling.sample(
        scope,
        size=operation.sample_size,
        stratify_by=operation.stratify_by,
        proximity=operation.proximity,
        seed=operation.seed,
    )
    response: RowsResponse = {
        "mode": "sample",
        "model": scope.model,
        "rows": result.rows,
        "seed": result.seed,
        "uncastable": result.uncastable,
    }
    narrowed = scope.where.params or operation.proximity
    empty = "No records match the conditions." if narrowed else "No ingested records: run analysis_ingest first."
    return _rows(response, f"{len(result.rows)} sampled {scope.model} record(s), seed {result.seed}.", empty)


# -- describe ----------------------------------------------------------------------------------------------


def describe_answer(caller: Caller, session: Session, operation: Describe) -> ToolResponse[DescribeResponse]:
    """Describe the model, or list the models if there are several and none is named."""
    models = sessions.models_of(session)
    response: DescribeResponse = {"mode": "describe", "models": models, "fields": []}
    if not models:
        return ToolResponse(response, "No ingested records: run analysis_ingest first.")
    if len(models) > 1 and not operation.model:
        overview = "\n".join(f"- {name}: {count} records" for name, count in models.items())
        return ToolResponse(response, f"This analysis holds several models; name one with `model`:\n{overview}")
    scope = query.scope_for(caller, session, operation.model, operation.where)
    summary = description.describe(scope)
    model = sources.readable_models(caller).get(scope.model)
    declared = model.resource if model else Resource(name=scope.model)
    shown_fields, dropped = fit_items([_field(field, declared) for field in summary.fields])
    response = {
        "mode": "describe",
        "model": scope.model,
        "models": models,
        "total": summary.total,
        "fields": shown_fields,
    }
    lines = [f"# {scope.model}", f"Model: {scope.model} | Records: {summary.total}", ""]
    if summary.rows_read < summary.total:
        lines.append(f"The table describes the newest {summary.rows_read} records.\n")
    if omitted := summary.more_fields + dropped:
        response["omitted"] = omitted
        lines.append(f"{omitted} more fields did not fit.\n")
    lines += ["| Field | Type | Missing | Values | Description |", "|---|---|---|---|---|"]
    lines += [_line(field) for field in response["fields"]]
    return ToolResponse(response, "\n".join([*lines, "", *_examples(session, scope.model, response["fields"])]))


def _field(field: description.FieldSummary, declared: Resource) -> FieldResponse:
    attribute = declared.attributes.get(field.name)
    return {
        "name": field.name,
        "types": field.types,
        "declared_type": attribute.type if attribute else "",
        "missing": field.missing,
        "distinct": field.distinct,
        "examples": field.examples,
        "allowed": list(attribute.values) if attribute else [],
        "description": attribute.description if attribute else "",
    }


def _line(field: Mapping[str, Any]) -> str:
    kinds = field["declared_type"] or ", ".join(f"{kind}" for kind in field["types"])
    if field["declared_type"] and len(field["types"]) > 1:
        kinds += f" (holds {', '.join(field['types'])})"
    values = ", ".join(field["allowed"] or field["examples"][:3])
    cells = [
        field["name"],
        kinds,
        str(field["missing"]),
        f"{field['distinct']} distinct: {values}",
        field["description"],
    ]
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _examples(session: Session, model: str, fields: Sequence[Mapping[str, Any]]) -> list[str]:
    text = next((field for field in fields if _is_plain(field)), None)
    number = next((field for field in fields if "number" in field["types"] and field["distinct"] > 2), None)
    date = next((field for field in fields if _is_date(field)), None)
    base = {"analysis_id": session.analysis_id, "model": model}
    queries: list[tuple[str, dict[str, Any]]] = []
    if text:
        queries.append(("Distribution", {"mode": "aggregate", "group_by": text["name"]}))
        queries.append(("Exact", {"mode": "filter", "where": {text["name"]: text["examples"][0]}}))
        queries.append(("Sample of every value", {"mode": "sample", "sample_size": 9, "stratify_by": text["name"]}))
    if number:
        queries.append(("Numeric range", {"mode": "filter", "where": {number["name"]: {"$gte": 10, "$lte": 100}}}))
    if date:
        day = date["examples"][0][:10]
        queries.append(("Date range", {"mode": "filter", "where": {date["name"]: {"$gte": day}}}))
        proximity = {"field": date["name"], "origin": day, "window": "7 days", "bucket": "1 day"}
        queries.append(("Around a date", {"mode": "sample", "proximity": proximity}))
    lines = ["## Examples"] if queries else []
    lines += [f"{title}: `{json.dumps({**base, **arguments}, ensure_ascii=False)}`" for title, arguments in queries]
    operators = "$gt $gte $lt $lte $eq $ne $in $nin $exists $contains $not, joined by $and $or $not"
    return [*lines, f"Operators: {operators}"]


def _is_plain(field: Mapping[str, Any]) -> bool:
    """Return whether the field suits an exact match: it has texts, 2 to 20 values, and a short first example."""
    examples = field["examples"]
    is_text = "string" in field["types"] and not field["name"].startswith("$")  # `where` takes $names for operators
    return bool(is_text and 1 < field["distinct"] <= 20 and examples and len(examples[0]) < 60)


def _is_date(field: Mapping[str, Any]) -> bool:
    examples = field["examples"]
    return bool(examples) and all(len(text) >= 10 and text[4:5] == "-" and text[:4].isdecimal() for text in examples)
