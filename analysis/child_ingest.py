"""Ingestion of child records. Several parents' children are downloaded at once, and saved parent by parent."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from django.utils import timezone

from analysis import records, sessions, sources
from analysis.completeness import RepeatCheck, contradiction, shortfall, statements
from analysis.findings import index_some, save_page_summary
from analysis.ingest import MAX_PAGES
from analysis.models import IngestedRecord, Session
from analysis.operations import MAX_PARENTS, PER_PAGE, IngestChildren
from analysis.querying.page_summaries import summarize
from analysis.sources import SourceModel
from analysis.sources.envelopes import Row
from analysis.sources.interface import LINK, Upstream, UpstreamFailed
from foundation.database import connections
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from foundation.work import progress

PARENTS_NAMED = 10  # maximum number of parents, and of reasons, that the notes name
MAX_SUMMARIZED = 500  # maximum number of child records in the summary of a batch of parents


@dataclass
class ChildIngestResult:
    analysis_id: str
    parent_model: str
    child_resource: str
    model: str
    records: int = 0
    repeated: int = 0  # number of rows that this call had already received, also with another parent
    skipped: int = 0  # number of rows that could not be stored
    parents: int = 0
    completed: int = 0
    stored_ids: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    shortfalls: dict[str, str] = field(default_factory=dict)  # for parents that may have more children, the reason
    notes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.failed and not self.shortfalls


@dataclass(frozen=True)
class Children:
    """The children of one parent. `shortfall` says why there may be more of them, or is ""."""

    rows: list[Row]
    repeated: int = 0
    skipped: list[str] = field(default_factory=list)
    shortfall: str = ""


def ingest(caller: Caller, operation: IngestChildren) -> ChildIngestResult:
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
    result.notes += _notes(result)
    return result


def _notes(result: ChildIngestResult) -> list[str]:
    parents_by_reason: dict[str, list[str]] = {}
    for parent, reason in result.shortfalls.items():
        parents_by_reason.setdefault(reason, []).append(parent)
    return [
        f"{', '.join(parents[:PARENTS_NAMED])}{' and more' if len(parents) > PARENTS_NAMED else ''}: {reason}"
        for reason, parents in parents_by_reason.items()
    ][:PARENTS_NAMED]


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
    pending: list[tuple[str, Future[Children]]] = [
        (parent, pool.submit(_children, upstream, parent, path, child.resource.id_field)) for parent in parents
    ]
    fetched: list[Row] = []
    try:
        while pending:
            parent, future = pending.pop(0)
            connections.close_if_pooled()
            try:
                children = future.result()
            except UpstreamFailed as error:
                result.failed[parent] = error.message
                result.completed += 1
                continue
            prepared = [_prepare(row, parent, child, fields) for row in children.rows]
            now = timezone.now()
            stored = records.store(
                session, child.name, prepared, child.resource.id_field, now, now + sessions.record_ttl(), f"of {parent}"
            )
            _count(result, parent, children, stored)
            fetched += stored.rows[: MAX_SUMMARIZED - len(fetched)]
            message = f"Fetched nested resources for {result.completed}/{result.parents} parents"
            progress.tell(result.completed, result.parents, message)
    finally:
        for _, future in pending:
            future.cancel()
    if fetched:
        summary = summarize(child.name, fetched, 1, 1, fields, frozenset({child.resource.id_field}))
        index_some([save_page_summary(session, child.name, f"nested:{child.name}:{parents[0]}"[:80], summary)])


def _count(result: ChildIngestResult, parent: str, children: Children, stored: records.StoredPage) -> None:
    new = [record_id for record_id in stored.ids if record_id not in result.stored_ids]
    result.stored_ids.update(new)
    result.records += len(new)
    result.repeated += children.repeated + stored.repeated + len(stored.ids) - len(new)
    result.skipped += len(children.skipped) + len(stored.skipped)
    result.notes += [f"{parent}: skipped a row: {reason}" for reason in (*children.skipped, *stored.skipped)][:1]
    if children.shortfall:
        result.shortfalls[parent] = children.shortfall
    result.completed += 1


def _children(upstream: Upstream, parent: str, path: str, id_field: str) -> Children:
    """Return the children of one parent, from up to MAX_PAGES pages.

    Runs in a thread that must not use the database.
    """
    rows: list[Row] = []
    skipped: list[str] = []
    pages: list[int] = []
    repeats = RepeatCheck(id_field)
    cursor = ""
    total = None
    total_pages = None
    repeated_page = repeated = 0
    contradicted = ""
    for number in range(1, MAX_PAGES + 1):
        page = upstream.children(parent, path, number, min(PER_PAGE, upstream.resource.per_page_max), cursor)
        total = page.total if total is None else total
        total_pages = page.total_pages or total_pages
        if not page.rows and not page.skipped:
            break
        if repeats.is_repeat(number, page.rows, is_expected=number <= (total_pages or 0)):
            repeated_page = number
            repeated = len(page.rows)
            break
        rows += page.rows
        skipped += page.skipped
        pages.append(number)
        cursor = page.cursor or (f"{LINK}{page.next}" if page.next else "")
        more, last = statements(number, page, len(rows) + len(skipped))
        contradicted = contradicted or contradiction(number, more, last)
        if not cursor and (page.cursor is not None or (last and not more)):
            break
    else:
        reason = f"only the first {MAX_PAGES} pages of the children were stored"
        return Children(rows, repeated, skipped, reason)
    reason = shortfall(
        delivered=len(rows) + len(skipped),
        total=total,
        total_pages=total_pages,
        pages=pages,
        repeated_page=repeated_page,
        contradicted=contradicted,
        largest_total=total,
    )
    return Children(rows, repeated, skipped, reason)


def _prepare(row: Row, parent: str, child: SourceModel, fields: Sequence[str]) -> Row:
    clean = records.projected(records.flattened(row, child.resource), fields, child.resource)
    return {**clean, "_parent_id": parent, records.PARENTS: [parent]}
