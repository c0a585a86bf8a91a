"""Ingestion of child records. Several parents' children are downloaded at once, and saved parent by parent."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from django.utils import timezone

from analysis import records, sessions, sources
from analysis.findings import save_page_summary
from analysis.ingest import MAX_PAGES
from analysis.models import IngestedRecord, Session
from analysis.operations import MAX_PARENTS, PER_PAGE, IngestChildren
from analysis.querying.page_summaries import summarize
from analysis.sources import SourceModel
from analysis.sources.envelopes import Row
from analysis.sources.interface import LINK, Upstream, UpstreamFailed
from memories.contract import progress
from memories.contract.errors import Invalid, NotFound
from memories.database import connections
from memories.identity.caller import Caller

MAX_SUMMARIZED = 500  # maximum number of child records in the summary of a batch of parents


@dataclass
class ChildIngestResult:
    analysis_id: str
    parent_model: str
    child_resource: str
    model: str
    records: int = 0
    parents: int = 0
    completed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def ingest(operation: IngestChildren, *, caller: Caller) -> ChildIngestResult:
    """Copy the children of the given parents into the caller's session. If none are given, use all ingested parents.

    A parent whose request fails is reported in `failed`; the children of the other parents are kept.
    """
    as_user = sessions.acting_for(caller, operation.user_id)
    model = sources.get_source_model(caller, operation.parent_model)
    path, child = _child(caller, model, operation.child_resource)
    session = sessions.begin(caller, operation.analysis_id)
    parents = list(dict.fromkeys(operation.parent_ids or [])) or _ingested_parents(session, model.name)
    result = ChildIngestResult(
        session.analysis_id, model.name, operation.child_resource, child.name, parents=len(parents)
    )
    with (
        closing(sources.open_upstream(caller, model, as_user=as_user)) as upstream,
        ThreadPoolExecutor(upstream.at_once) as pool,
    ):
        for start in range(0, len(parents), MAX_PARENTS):
            batch = parents[start : start + MAX_PARENTS]
            _ingest_batch(pool, session, upstream, path, child, batch, operation.fields, result)
    return result


def _child(caller: Caller, parent: SourceModel, child_resource: str) -> tuple[str, SourceModel]:
    children = parent.resource.children()
    if not children:
        raise Invalid(f"{parent.name} declares no child resources", field="parent_model")
    if not child_resource:
        raise Invalid("is missing", field="child_resource", allowed=", ".join(children))
    if child_resource not in children:
        raise Invalid(f"{child_resource[:80]!r} is unknown", field="child_resource", allowed=", ".join(children))
    association = children[child_resource]
    model = association.model or child_resource
    source_model = sources.readable_models(caller).get(model)
    resource = (
        source_model.resource
        if source_model
        else parent.resource.model_copy(update={"associations": {}, "attributes": {}, "id_field": "id", "name": model})
    )
    return association.path or child_resource, SourceModel(model, resource, parent.source)


def _ingested_parents(session: Session, model: str) -> list[str]:
    rows = IngestedRecord.objects.filter(session=session, model=model, has_id=True, expires_at__gt=timezone.now())
    ids = list(rows.order_by("id").values_list("record_id", flat=True))
    if not ids:
        raise NotFound(f"this analysis has no {model} records: ingest the parents first", field="parent_model")
    return ids


def _ingest_batch(
    pool: ThreadPoolExecutor,
    session: Session,
    upstream: Upstream,
    path: str,
    child: SourceModel,
    parents: Sequence[str],
    fields: Sequence[str],
    result: ChildIngestResult,
) -> None:
    pending: list[tuple[str, Future[tuple[list[Row], bool]]]] = [
        (parent, pool.submit(_children, upstream, parent, path)) for parent in parents
    ]
    fetched: list[Row] = []
    try:
        while pending:
            parent, future = pending.pop(0)
            connections.close_if_pooled()
            try:
                rows, capped = future.result()
            except UpstreamFailed as error:
                result.failed[parent] = error.message
                result.completed += 1
                continue
            prepared = [_prepare(row, parent, child, fields) for row in rows]
            now = timezone.now()
            stored = records.store(
                session, child.name, prepared, child.resource.id_field, now, now + sessions.record_ttl(), f"of {parent}"
            )
            result.records += len(stored.ids)
            fetched += prepared[: MAX_SUMMARIZED - len(fetched)]
            if capped:
                result.notes.append(f"{parent}: only the first {MAX_PAGES} pages of its children were stored")
            result.completed += 1
            message = f"Fetched nested resources for {result.completed}/{result.parents} parents"
            progress.tell(result.completed, result.parents, message)
    finally:
        for _, future in pending:
            future.cancel()
    if fetched:
        summary = summarize(child.name, fetched, 1, 1, fields, frozenset({child.resource.id_field}))
        save_page_summary(session, child.name, f"nested:{child.name}:{parents[0]}"[:80], summary)


def _children(upstream: Upstream, parent: str, path: str) -> tuple[list[Row], bool]:
    """Return the children of one parent, and whether there may be more than MAX_PAGES pages of them.

    Runs in a thread that must not use the database.
    """
    rows: list[Row] = []
    cursor, seen_ids = "", set[str]()
    for number in range(1, MAX_PAGES + 1):
        page = upstream.children(parent, path, number, min(PER_PAGE, upstream.resource.per_page_max), cursor)
        ids = {str(row.get("id", row)) for row in page.rows}
        if not page.rows or ids <= seen_ids:  # an upstream that ignores the page number returns the same page forever
            return rows, False
        seen_ids |= ids
        rows += page.rows
        cursor = page.cursor or (f"{LINK}{page.next}" if page.next else "")
        is_last = page.total_pages is not None and number >= page.total_pages
        if is_last or ((page.cursor is not None or page.next is not None) and not cursor):
            return rows, False
    return rows, True


def _prepare(row: Row, parent: str, child: SourceModel, fields: Sequence[str]) -> Row:
    clean = records.projected(records.flattened(records.clean(row), child.resource), fields, child.resource)
    return {**clean, "_parent_id": parent, records.PARENTS: [parent]}
