"""The texts that agents read, and the structured form beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analysis import findings, sessions, sources
from analysis.asking import description, query, sampling
from analysis.asking.filters import FIELD
from analysis.asking.query import Scope
from analysis.ingest import PAGES_MAX, Ingested
from analysis.models import Finding, Session
from analysis.nested import Nested
from analysis.operations import Aggregate, Describe, Filter, Sample, SearchFindings
from analysis.shapes import AggregateShape, DescribeShape, FieldShape, IngestShape, RowsShape, SemanticShape
from analysis.sources.declaration import Resource
from memories.access import Caller
from memories.contract.budget import within_budget
from memories.contract.toolset import Answer

FAILED_SHOWN = 50
CONSUMED = {"consumed": True}  # what was fetched for this may leave the client's context
BROKE_OFF = (
    "an earlier {action.kind} broke off: go on with action_id {action.pk.hex} instead of asking again; "
    "this confirm acts anew and may repeat what was done"
)
TRANSIENT_FROM = 5  # rows from which an answer is worth dropping once it was used


def ingest_answer(got: Ingested) -> Answer[IngestShape]:
    shape: IngestShape = {
        "analysis_id": got.analysis_id,
        "model": got.model,
        "records": got.records,
        "pages": got.pages,
        "total_pages": got.total_pages,
        "capped": got.capped,
        "resumed_from": got.resumed_from,
        "error": got.error,
        "notes": got.notes,
    }
    return Answer(shape, ingested(got), CONSUMED)


def ingested(got: Ingested) -> str:
    fields = f" ({got.fields} fields per record)" if got.fields else ""
    if got.page:
        head = f"Stored {got.records} record(s){fields} (page {got.page}/{got.total_pages or '?'})."
    else:
        capped = f" (capped at {PAGES_MAX} pages)" if got.capped and got.pages >= PAGES_MAX else ""
        head = f"Stored {got.records} record(s){fields} across {got.pages} page(s){capped}."
    lines = [head]
    if got.resumed_from:
        lines.append(f"Resumed from page {got.resumed_from}.")
    if got.error:
        lines.append(f"Stopped: {got.error}. What came before is kept; resume goes on from there.")
    lines += [f"{note[0].upper()}{note[1:]}." for note in got.notes]
    return "\n".join([*lines, f"Analysis: {got.analysis_id}", f"Model: {got.model}"])


def nested(got: Nested) -> str:
    good = got.parents - len(got.failed)
    lines = [
        f"Stored {got.records} nested record(s) from {good}/{got.parents} parent(s).",
        f"Analysis: {got.analysis_id}",
        f"Parent: {got.parent_model}. Child: {got.model}",
        *got.notes,
    ]
    if got.failed:
        lines.append(f"Failed parents ({len(got.failed)}):")
        lines += [f"  - {one}: {error}" for one, error in list(got.failed.items())[:FAILED_SHOWN]]
        if len(got.failed) > FAILED_SHOWN:
            lines.append(f"  and {len(got.failed) - FAILED_SHOWN} more")
    return "\n".join(lines)


def stored(analysis_id: str, rows: Sequence[Finding], persistent: bool, note: str) -> str:
    kept = "persistent" if persistent else "ephemeral (expires in 1 hour)"
    categories = list(dict.fromkeys(row.category for row in rows if row.category))
    lines = [f"Stored {len(rows)} analysis finding(s) ({kept}).", f"Analysis: {analysis_id}"]
    if categories:
        lines.append(f"Categories: {', '.join(categories)}")
    lines.append(f"IDs: {', '.join(row.pk.hex for row in rows)}")
    return "\n".join([*lines, note] if note else lines)


# -- query -------------------------------------------------------------------------------------------------


def _transient(count: int, summary: str) -> Mapping[str, Any] | None:
    return {"lifecycle": "transient", "summary": summary} if count >= TRANSIENT_FROM else None


def _rows(shape: RowsShape, head: str, empty: str) -> Answer[RowsShape]:
    """Rows as a JSON array after one line about them; what does not fit the budget is counted."""
    rows, omitted = within_budget(shape["rows"])
    shape = {**shape, "rows": rows}
    if omitted:
        shape["omitted"] = omitted
        head += f" {omitted} did not fit this answer: ask for fewer, or for some fields."
    odd = _odd(shape["uncastable"])
    text = f"{head}{odd}\n{json.dumps(rows, indent=2, ensure_ascii=False)}" if rows else f"{empty}{odd}"
    return Answer(shape, text, _transient(len(rows), head + odd))


def _odd(uncastable: Mapping[str, int] | None) -> str:
    if not uncastable:
        return ""
    told = ", ".join(f"{count} in {name}" for name, count in uncastable.items())
    return f" Values that could not be compared, and so did not match: {told}."


def semantic(session: Session, ask: SearchFindings) -> Answer[SemanticShape]:
    found = findings.search(
        session, ask.query, category=ask.category, model=ask.model, top_k=ask.top_k, threshold=ask.threshold
    )
    rows = [
        {
            "id": hit.finding.pk.hex,
            "finding": hit.finding.finding,
            "category": hit.finding.category,
            "metadata": hit.finding.metadata,
            "similarity": round(hit.similarity, 4),
        }
        for hit in found.hits
    ]
    kept, omitted = within_budget(rows)
    shape: SemanticShape = {"mode": "semantic", "findings": kept, "total": len(rows), "ranking": found.ranking}
    if omitted:
        shape["omitted"] = omitted
    if found.degraded:
        shape["degraded"], shape["note"] = True, found.note
    if not kept:
        told = f" (threshold {ask.threshold:g}: a lower one finds more)" if not found.degraded else ""
        return Answer(shape, f"No findings match the query{told}." + (f" {found.note}" if found.note else ""))
    lines = [f"Found {len(rows)} finding(s){' by exact words' if found.degraded else ''}:"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in kept:
        groups.setdefault(str(row["category"]) or "uncategorized", []).append(row)
    for name, members in groups.items():
        lines.append(f"\n## {name} ({len(members)})")
        lines += [_finding_line(row) for row in members]
    return Answer(shape, "\n".join(lines), _transient(len(kept), lines[0]))


def _finding_line(row: Mapping[str, Any]) -> str:
    is_summary = row["category"] == findings.SUMMARY
    metadata = "" if is_summary or not row["metadata"] else f" | {json.dumps(row['metadata'], ensure_ascii=False)}"
    return f"- {row['finding']}{metadata} [{row['similarity']:.1%} match]"


def aggregated(asked: Scope, ask: Aggregate) -> Answer[AggregateShape]:
    got = query.aggregate(asked, ask.group_by, metrics=ask.metrics, top_n=ask.top_n)
    name = ", ".join(got.group_by)
    lines = [f'Distribution of "{name}" ({got.total} total):']
    for group in got.groups:
        label = ", ".join("(null)" if value is None else value for value in group.values)
        more = "".join(f", {key}={_number(value)}" for key, value in group.metrics.items())
        lines.append(f"  {label}: {group.count} ({group.count / got.total:.1%}){more}")
    if got.other_groups:
        lines.append(f"  and {got.other_groups} more groups: {got.other_count} ({got.other_count / got.total:.1%})")
    if got.uncastable:
        lines.append(_odd(got.uncastable).strip())
    shape: AggregateShape = {
        "mode": "aggregate",
        "model": asked.model,
        "group_by": got.group_by,
        "groups": [{"values": g.values, "count": g.count, "metrics": g.metrics} for g in got.groups],
        "total": got.total,
        "other_groups": got.other_groups,
        "other_count": got.other_count,
        "uncastable": got.uncastable,
    }
    text = "\n".join(lines) if got.total else "No ingested records match."
    return Answer(shape, text, _transient(len(got.groups), lines[0]))


def _number(value: Any) -> str:
    """Digits, never an exponent; six places after the point."""
    if not isinstance(value, float):
        return "none" if value is None else str(value)
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) >= 1e-6 else f"{value:g}"


def filtered(asked: Scope, ask: Filter) -> Answer[RowsShape]:
    got = query.filtered(asked, limit=ask.limit, sort=ask.sort, fields=ask.fields, cursor=ask.cursor)
    shape: RowsShape = {
        "mode": "filter",
        "model": asked.model,
        "rows": got.rows,
        "total": got.total,
        "cursor": got.cursor,
        "uncastable": got.uncastable,
    }
    more = f" More with cursor {got.cursor}." if got.cursor else ""
    head = f"{len(got.rows)} of {got.total} matching {asked.model} record(s).{more}"
    return _rows(shape, head, "No records match.")


def sampled(asked: Scope, ask: Sample) -> Answer[RowsShape]:
    got = sampling.sample(
        asked, size=ask.sample_size, stratify_by=ask.stratify_by, proximity=ask.proximity, seed=ask.seed
    )
    shape: RowsShape = {
        "mode": "sample",
        "model": asked.model,
        "rows": got.rows,
        "seed": got.seed,
        "uncastable": got.uncastable,
    }
    narrowed = asked.where.params or ask.proximity
    empty = "No records match the conditions." if narrowed else "No ingested records: run analysis_ingest first."
    return _rows(shape, f"{len(got.rows)} sampled {asked.model} record(s), seed {got.seed}.", empty)


# -- describe ----------------------------------------------------------------------------------------------


def described(caller: Caller, session: Session, ask: Describe) -> Answer[DescribeShape]:
    """Of the model; with several and none named, of all what they are."""
    models = sessions.models_of(session)
    shape: DescribeShape = {"mode": "describe", "models": models, "fields": []}
    if not models:
        return Answer(shape, "No ingested records: run analysis_ingest first.")
    if len(models) > 1 and not ask.model:
        listed = "\n".join(f"- {name}: {count} records" for name, count in models.items())
        return Answer(shape, f"This analysis holds several models; name one with `model`:\n{listed}")
    asked = query.scope(session, ask.model, ask.where)
    told = description.describe(asked)
    known = sources.known(caller).get(asked.model)
    declared = known.resource if known else Resource(name=asked.model)
    shown, dropped = within_budget([_field(field, declared) for field in told.fields])
    shape = {"mode": "describe", "model": asked.model, "models": models, "total": told.total, "fields": shown}
    lines = [f"# {asked.model}", f"Model: {asked.model} | Records: {told.total}", ""]
    if told.looked < told.total:
        lines.append(f"Types and examples are from the newest {told.looked} records.\n")
    if omitted := told.more_fields + dropped:
        shape["omitted"] = omitted
        lines.append(f"{omitted} more fields did not fit; those that most records hold are told.\n")
    lines += ["| Field | Type | Missing | Values | Description |", "|---|---|---|---|---|"]
    lines += [_line(one) for one in shape["fields"]]
    return Answer(shape, "\n".join([*lines, "", *_examples(session, asked.model, shape["fields"])]))


def _field(field: description.FieldShape, declared: Resource) -> FieldShape:
    said = declared.attributes.get(field.name)
    return {
        "name": field.name,
        "types": field.types,
        "declared_type": said.type if said else "",
        "missing": field.missing,
        "distinct": field.distinct,
        "examples": field.examples,
        "allowed": list(said.values) if said else [],
        "description": said.description if said else "",
    }


def _line(one: Mapping[str, Any]) -> str:
    kinds = one["declared_type"] or ", ".join(f"{kind}" for kind in one["types"])
    if one["declared_type"] and len(one["types"]) > 1:
        kinds += f" (holds {', '.join(one['types'])})"
    values = ", ".join(one["allowed"] or one["examples"][:3])
    cells = [one["name"], kinds, str(one["missing"]), f"{one['distinct']} distinct: {values}", one["description"]]
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _examples(session: Session, model: str, fields: Sequence[Mapping[str, Any]]) -> list[str]:
    """Queries to copy, on fields that this data set has."""
    few = next((one for one in fields if _is_plain(one)), None)
    number = next((one for one in fields if "number" in one["types"] and one["distinct"] > 2), None)
    date = next((one for one in fields if _is_date(one)), None)
    base = {"analysis_id": session.analysis_id, "model": model}
    asked: list[tuple[str, dict[str, Any]]] = []
    if few:
        asked.append(("Distribution", {"mode": "aggregate", "group_by": few["name"]}))
        asked.append(("Exact", {"mode": "filter", "where": {few["name"]: few["examples"][0]}}))
        asked.append(("Sample of every value", {"mode": "sample", "sample_size": 9, "stratify_by": few["name"]}))
    if number:
        asked.append(("Numeric range", {"mode": "filter", "where": {number["name"]: {"$gte": 10, "$lte": 100}}}))
    if date:
        day = date["examples"][0][:10]
        asked.append(("Date range", {"mode": "filter", "where": {date["name"]: {"$gte": day}}}))
        near = {"field": date["name"], "origin": day, "window": "7 days", "bucket": "1 day"}
        asked.append(("Around a date", {"mode": "sample", "proximity": near}))
    lines = ["## Examples"] if asked else []
    lines += [f"{title}: `{json.dumps({**base, **one}, ensure_ascii=False)}`" for title, one in asked]
    operators = "$gt $gte $lt $lte $eq $ne $in $nin $exists $contains $not, joined by $and $or $not"
    return [*lines, f"Operators: {operators}"]


def _is_plain(one: Mapping[str, Any]) -> bool:
    """A field of few short texts, which can be asked for as they stand."""
    examples = one["examples"]
    is_text = "string" in one["types"] and FIELD.fullmatch(one["name"])
    return bool(is_text and 1 < one["distinct"] <= 20 and examples and len(examples[0]) < 60)


def _is_date(one: Mapping[str, Any]) -> bool:
    examples = one["examples"]
    return bool(examples) and all(len(text) >= 10 and text[4:5] == "-" and text[:4].isdecimal() for text in examples)
