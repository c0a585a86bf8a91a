"""Children of records: for each parent its own list, several parents at once, each parent's children kept when they
are there."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from django.utils import timezone

from analysis import records, sessions, sources
from analysis.asking.summaries import summarize
from analysis.findings import keep_summary
from analysis.ingest import PAGES_MAX
from analysis.models import IngestedRecord, Session
from analysis.operations import PARENTS_MOST, PER_PAGE, IngestChildren
from analysis.sources import Known
from analysis.sources.envelopes import Row
from analysis.sources.port import Upstream, UpstreamFailed
from analysis.sources.rest import LINK
from memories.access import Caller
from memories.contract import progress
from memories.contract.errors import Invalid, NotFound
from memories.contract.operations import carries_out
from memories.database import connections

ROWS_KEPT = 500  # rows of one summary


@dataclass
class Nested:
    analysis_id: str
    parent_model: str
    child_resource: str
    model: str
    records: int = 0
    parents: int = 0
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@carries_out(IngestChildren)
def ingest(ask: IngestChildren, *, caller: Caller) -> Nested:
    """Copies the children of the named parents, or of all that were ingested. A parent that fails is named; the
    others' children are kept."""
    as_user = sessions.acting_for(caller, ask.user_id)
    known = sources.find(caller, ask.parent_model)
    path, child = _child(caller, known, ask.child_resource)
    session = sessions.begin(caller, ask.analysis_id)
    parents = list(dict.fromkeys(ask.parent_ids or [])) or _ingested_parents(session, known.name)
    answer = Nested(session.analysis_id, known.name, ask.child_resource, child.name, parents=len(parents))
    with (
        closing(sources.open_upstream(caller, known, as_user=as_user)) as upstream,
        ThreadPoolExecutor(upstream.at_once) as pool,
    ):
        for start in range(0, len(parents), PARENTS_MOST):
            _batch(pool, session, upstream, path, child, parents[start : start + PARENTS_MOST], ask.fields, answer)
    return answer


def _child(caller: Caller, known: Known, child_resource: str) -> tuple[str, Known]:
    children = known.resource.children()
    if not child_resource:
        raise Invalid("is missing", field="child_resource", allowed=", ".join(children) or "none is declared")
    if child_resource not in children:
        raise Invalid(f"{child_resource[:80]!r} is unknown", field="child_resource", allowed=", ".join(children))
    one = children[child_resource]
    model = one.model or child_resource
    found = sources.known(caller).get(model)
    resource = (
        found.resource
        if found
        else known.resource.model_copy(update={"associations": {}, "attributes": {}, "id_field": "id", "name": model})
    )
    return one.path or child_resource, Known(model, resource, known.source)


def _ingested_parents(session: Session, model: str) -> list[str]:
    rows = IngestedRecord.objects.filter(session=session, model=model, has_id=True, expires_at__gt=timezone.now())
    found = list(rows.order_by("id").values_list("record_id", flat=True))
    if not found:
        raise NotFound(f"no {model} records here: ingest the parents first", field="parent_model")
    return found


def _batch(
    pool: ThreadPoolExecutor,
    session: Session,
    upstream: Upstream,
    path: str,
    child: Known,
    parents: Sequence[str],
    fields: Sequence[str],
    answer: Nested,
) -> None:
    waiting: list[tuple[str, Future[tuple[list[Row], bool]]]] = [
        (parent, pool.submit(_children, upstream, parent, path)) for parent in parents
    ]
    fetched: list[Row] = []
    try:
        while waiting:
            parent, future = waiting.pop(0)
            connections.release()
            try:
                rows, capped = future.result()
            except UpstreamFailed as error:
                answer.failed[parent] = error.message
                answer.done += 1
                continue
            kept = [_prepared(row, parent, child, fields) for row in rows]
            now = timezone.now()
            answer.records += records.store(
                session, child.name, kept, child.resource.id_field, now, now + sessions.record_ttl(), f"of {parent}"
            )
            fetched += kept[: ROWS_KEPT - len(fetched)]
            if capped:
                answer.notes.append(f"{parent} has more than {PAGES_MAX} pages of children: the rest was left out")
            answer.done += 1
            told = f"Fetched nested resources for {answer.done}/{answer.parents} parents"
            progress.tell(answer.done, answer.parents, told)
    finally:
        for _, future in waiting:
            future.cancel()
    if fetched:
        summary = summarize(child.name, fetched, 1, 1, fields, frozenset({child.resource.id_field}))
        keep_summary(session, child.name, f"nested:{child.name}:{parents[0]}"[:80], summary)


def _children(upstream: Upstream, parent: str, path: str) -> tuple[list[Row], bool]:
    """All pages of one parent's children, in a thread: only requests, no database."""
    rows: list[Row] = []
    cursor, seen = "", set[str]()
    for number in range(1, PAGES_MAX + 1):
        found = upstream.children(parent, path, number, min(PER_PAGE, upstream.resource.per_page_max), cursor)
        ids = {str(row.get("id", row)) for row in found.rows}
        if not found.rows or ids <= seen:  # an upstream that ignores the page answers the same for ever
            return rows, False
        seen |= ids
        rows += found.rows
        cursor = found.cursor or (f"{LINK}{found.next}" if found.next else "")
        said = found.total_pages is not None and number >= found.total_pages
        if said or ((found.cursor is not None or found.next is not None) and not cursor):
            return rows, False
    return rows, True


def _prepared(row: Row, parent: str, child: Known, fields: Sequence[str]) -> Row:
    clean = records.projected(records.flattened(records.clean(row), child.resource), fields, child.resource)
    return {**clean, "_parent_id": parent, records.PARENTS: [parent]}
