"""Downloading: page by page, several at once where the number of pages is known, each page whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db import transaction
from django.utils import timezone

from analysis import records, sessions, sources
from analysis.findings import save_page_summary
from analysis.models import Ingest as Scope
from analysis.models import IngestedRecord, IngestState, Session
from analysis.operations import IngestRecords
from analysis.querying.page_summaries import summarize
from analysis.querying.source_filters import checked_filters
from analysis.sources import SourceModel, checks
from analysis.sources.envelopes import PageOf
from analysis.sources.interface import LINK, Upstream, UpstreamFailed
from memories.contract import progress
from memories.contract.errors import Invalid
from memories.database import connections
from memories.identity.caller import Caller

PLANNED_FROM = 500  # records from which the planner is told at once what came
MAX_PAGES = 50  # in one call; resume goes past it


@dataclass
class Ingested:
    """What one call brought. `pages` were fetched now; `capped`: there is more, and resume brings it."""

    analysis_id: str
    model: str
    records: int = 0
    pages: int = 0
    total_pages: int | None = None
    page: int = 0  # of a single page
    fields: int = 0
    capped: bool = False
    resumed_from: int = 0
    error: str = ""
    notes: list[str] = field(default_factory=list)


def ingest(operation: IngestRecords, *, caller: Caller) -> Ingested:
    """Copies a page, or all of them up to MAX_PAGES, into the caller's session. What was copied before a failure
    stays, and resume goes on from there."""
    as_user = sessions.acting_for(caller, operation.user_id)
    model = sources.get_source_model(caller, operation.model)
    filters = checked_filters(model.resource, operation.model, operation.filters or {})
    page, per_page, fields = operation.page, operation.per_page, operation.fields
    if not 1 <= per_page <= model.resource.per_page_max:
        raise Invalid(f"is {per_page}", field="per_page", allowed=f"1 to {model.resource.per_page_max}")
    with checks.noted(model), closing(sources.open_upstream(caller, model, as_user=as_user)) as upstream:
        session = sessions.begin(caller, operation.analysis_id)
        answer = Ingested(session.analysis_id, model.name, fields=len(fields))
        scope = _scope(session, model, filters, per_page, fields, as_user)
        run = Download(session, model, upstream, scope, filters, per_page, fields, answer)
        if not operation.ingest_all:
            answer.page = page
            run.keep(page, upstream.page(page, per_page, filters), counts=False)
            return answer
        with run.working(operation.resume):
            run.all_pages()
        if answer.records >= PLANNED_FROM:
            connections.analyze_tables(IngestedRecord)
        return answer


def _scope(
    session: Session, model: SourceModel, filters: Mapping[str, Any], per_page: int, fields: Sequence[str], as_user: str
) -> Scope:
    text = json.dumps([model.name, filters, per_page, sorted(fields), as_user], sort_keys=True, default=str)
    scope = hashlib.sha256(text.encode()).hexdigest()
    row, _ = Scope.objects.get_or_create(
        session=session,
        scope=scope,
        defaults={"model": model.name, "filters": dict(filters), "per_page": per_page},
    )
    return row


@dataclass
class Download:
    """One download under way."""

    session: Session
    model: SourceModel
    upstream: Upstream
    scope: Scope
    filters: Mapping[str, Any]
    per_page: int
    fields: Sequence[str]
    answer: Ingested
    seen_ids: set[str] = field(default_factory=set)  # ids, to notice an upstream that answers one page for ever

    @contextmanager
    def working(self, resume: bool) -> Iterator[None]:
        """The scope's state around the pages: what was done when it ended, however it ended."""
        if not resume or self.scope.started_at < timezone.now() - sessions.record_ttl():  # those pages have expired
            self.scope.pages_done, self.scope.next_cursor, self.scope.total_pages = [], "", None
            self.scope.started_at = timezone.now()
        elif self.scope.pages_done:
            if self.scope.state == IngestState.COMPLETE:  # it may have grown since: its last page is read again
                self.scope.pages_done = self.scope.pages_done[:-1]
            self.answer.resumed_from = self._first_missing()
        self.scope.state, self.scope.error = IngestState.PARTIAL, ""
        self._save()
        try:
            yield
            self.scope.state = IngestState.PARTIAL if self.answer.capped else IngestState.COMPLETE
        except UpstreamFailed as error:
            self.scope.error = self.answer.error = error.message
            checks.note(self.model, error.message)
            if not self.answer.pages:
                raise
            self.answer.capped = True
        finally:
            self._save()

    def all_pages(self) -> None:
        """The first missing page tells how many there are, and how they are found."""
        number, cursor = self._first_missing(), self.scope.next_cursor
        page = self._fetch(number, cursor)
        self.keep(number, page)
        while not self._is_last(number, page):
            if self.answer.pages >= MAX_PAGES:
                self._cap()
                return
            if page.total_pages is not None and self._is_counted(page):
                self._rest(page.total_pages)
                return
            number, cursor = number + 1, _onward(page)
            page = self._fetch(number, cursor)
            self.keep(number, page)
        self.scope.next_cursor = cursor  # of the last page, which a later resume reads again

    def _rest(self, total: int) -> None:
        """The known remaining pages, a few at once; each is kept as soon as it is there."""
        missing = [n for n in range(1, total + 1) if n not in set(self.scope.pages_done)]
        now = missing[: MAX_PAGES - self.answer.pages]
        for number, page in self._fetch_each(now):
            self.keep(number, page)
        if len(missing) > len(now):
            self._cap()

    def _fetch_each(self, numbers: Sequence[int]) -> Iterator[tuple[int, PageOf]]:
        """The pages in order, a few requested ahead; those that nobody waits for any more are not requested."""
        if self.upstream.at_once == 1:
            for number in numbers:
                yield number, self._fetch(number, "")
            return
        with ThreadPoolExecutor(self.upstream.at_once) as pool:
            ahead: list[tuple[int, Future[PageOf]]] = []
            try:
                for number in numbers:
                    ahead.append((number, pool.submit(self._fetch, number, "")))
                    if len(ahead) > 2 * self.upstream.at_once:
                        first, future = ahead.pop(0)
                        connections.close_if_pooled()
                        yield first, future.result()
                for first, future in ahead:
                    connections.close_if_pooled()
                    yield first, future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _fetch(self, number: int, cursor: str) -> PageOf:
        return self.upstream.page(number, self.per_page, self.filters, cursor)

    def keep(self, number: int, page: PageOf, *, counts: bool = True) -> None:
        """Rows, and that the page is done, in one transaction; then its summary, and word of the progress. A page
        that was asked for alone does not count: a resume begins where the others ended."""
        resource = self.model.resource
        rows = [records.clean(row) for row in page.rows]
        rows = [records.projected(records.flattened(row, resource), self.fields, resource) for row in rows]
        now = timezone.now()
        with transaction.atomic():
            until, origin = now + sessions.record_ttl(), f"{self.scope.scope}:{number}"
            stored_count = records.store(self.session, self.model.name, rows, resource.id_field, now, until, origin)
            self.scope.total_pages = page.total_pages or self.scope.total_pages
            if counts and rows:
                self.scope.pages_done = sorted({*self.scope.pages_done, number})
                self.scope.next_cursor = "" if self._is_counted(page) else _onward(page)
            self._save()
        self.answer.records += stored_count
        self.answer.pages += 1
        self.answer.total_pages = self.scope.total_pages
        if rows:
            keys = frozenset({resource.id_field, *(f"{name}_id" for name in resource.associations)})
            summary = summarize(self.model.name, rows, number, self.scope.total_pages, self.fields, keys)
            save_page_summary(self.session, self.model.name, f"{self.scope.scope[:40]}:{number}", summary)
        total = self.scope.total_pages
        of = f"/{total}" if total else ""
        progress.tell(number, total, f"Ingested page {number}{of} ({self.answer.records} records)")

    def _is_last(self, number: int, page: PageOf) -> bool:
        """Only what the upstream says, or an empty or repeated page, ends a download: a short page may be the
        server's own page size."""
        if not page.rows:
            return True
        if page.cursor is not None:
            return not page.cursor
        if page.next is not None:
            return not page.next
        if page.total_pages is not None:
            return number >= page.total_pages
        ids = {str(row.get(self.model.resource.id_field, "")) for row in page.rows}
        repeated = ids <= self.seen_ids and ids != {""}
        self.seen_ids |= ids
        return repeated or (ids == {""} and len(page.rows) < self.per_page)

    def _is_counted(self, page: PageOf) -> bool:
        """Whether pages are found by their number; otherwise the links are followed, one after another."""
        parameters = parse_qs(urlsplit(page.next or "").query)
        return not page.cursor and (not page.next or self.model.resource.page_param in parameters)

    def _first_missing(self) -> int:
        completed = set(self.scope.pages_done)
        return next(n for n in range(1, len(completed) + 2) if n not in completed)

    def _cap(self) -> None:
        self.answer.capped = True
        remaining = self.scope.total_pages and self.scope.total_pages - len(self.scope.pages_done)
        hint = f"{remaining} more pages" if remaining else "there may be more"
        self.answer.notes.append(f"{hint}: call again with resume to go on")

    def _save(self) -> None:
        self.scope.updated_at = timezone.now()
        self.scope.save()


def _onward(page: PageOf) -> str:
    """How the next page is asked for: by the cursor, or by the link that this page named."""
    return page.cursor or (f"{LINK}{page.next}" if page.next else "")
