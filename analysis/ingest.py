"""Download of records into a session, page by page.

Each page is saved completely or not at all. Once the total number of pages is known, pages that have
numbers are requested in parallel.
"""

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

from analysis import records, sessions, source_health, sources
from analysis.completeness import RepeatCheck, contradiction, shortfall, statements
from analysis.findings import index_some, save_page_summary
from analysis.models import Finding, Ingest, IngestedRecord, IngestState, Session
from analysis.operations import IngestRecords
from analysis.querying.page_summaries import summarize
from analysis.querying.source_filters import checked_filters
from analysis.sources import SourceModel
from analysis.sources.envelopes import PageOf, Row
from analysis.sources.interface import LINK, Upstream, UpstreamFailed
from foundation.database import connections
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.work import progress

ANALYZE_FROM = 500  # minimum number of records in an ingest after which the query planner's statistics are updated
ROWS_NAMED = 5  # maximum numbers of skipped and of irregular rows that the notes name
NULLED = "values that are NaN or infinite were stored as null"
REPLACED = "rows replaced a row with the same id and other values: declare another `id_field` if it is no id"
MAX_PAGES = 50  # maximum number of pages that one call fetches; a call with resume fetches the next ones


@dataclass
class IngestResult:
    """The result of one call of `ingest`."""

    analysis_id: str
    model: str
    records: int = 0  # number of stored records
    repeated: int = 0  # number of rows that this call had already received, by their id or on a repeated page
    skipped: int = 0  # number of rows that could not be stored
    complete: bool = False  # whether the session holds all records that the source reports
    irregular: int = 0  # number of rows with more or fewer values than their file has columns
    shortfall: str = ""  # why records may be missing although the server returned no error
    pages: int = 0  # number of pages that this call fetched
    total_pages: int | None = None
    page: int = 0  # number of the page that was requested; 0 if all pages were requested
    fields: int = 0  # number of requested fields; 0 for all fields
    capped: bool = False  # pages may remain, which a call with resume fetches
    resumed_from: int = 0
    error: str = ""
    notes: list[str] = field(default_factory=list)


def ingest(caller: Caller, operation: IngestRecords) -> IngestResult:
    """Copy one page, or all pages up to MAX_PAGES, into the caller's session.

    If a later page fails, the pages before it are kept, and a call with resume continues after them. If the first page
    of the call fails, raises UpstreamFailed.
    """
    as_user = sessions.acting_for(caller, operation.user_id)
    model = sources.get_source_model(caller, operation.model)
    filters = checked_filters(model.resource, operation.model, operation.filters or {})
    page = operation.page
    per_page = operation.per_page
    fields = operation.fields
    if not 1 <= per_page <= model.resource.per_page_max:
        raise Invalid(f"is {per_page}", field="per_page", allowed=f"1 to {model.resource.per_page_max}")
    if operation.resume and not operation.ingest_all:
        raise Invalid("continues a download of all pages", field="resume", allowed="only with ingest_all")
    if operation.ingest_all and page > 1:
        raise Invalid(f"is {page}, and ingest_all downloads all pages", field="page", allowed="page or ingest_all")
    with source_health.recorded_read(model), closing(sources.open_upstream(caller, model, as_user=as_user)) as upstream:
        session = sessions.begin(caller, operation.analysis_id)
        result = IngestResult(session.analysis_id, model.name, fields=len(fields))
        row = _ingest_row(session, model, filters, per_page, fields, as_user)
        download = SourceDownload(session, model, upstream, row, filters, per_page, fields, result)
        if not operation.ingest_all:
            result.page = page
            first = upstream.page(page, per_page, filters)
            download.save_page(page, first, counts=False)
            is_last = not download.leads_on(page, first) and not download.contradicted
            result.complete = is_last and page == result.total_pages == 1
            index_some(download.summaries)
            return result
        with download.saved_progress(operation.resume):
            download.fetch_all()
        index_some(download.summaries, earlier=len(download.ingest.pages_done) - len(download.summaries))
        if result.records >= ANALYZE_FROM:
            connections.analyze_tables(IngestedRecord)
        return result


def _ingest_row(
    session: Session, model: SourceModel, filters: Mapping[str, Any], per_page: int, fields: Sequence[str], as_user: str
) -> Ingest:
    text = json.dumps([model.name, filters, per_page, sorted(fields), as_user], sort_keys=True, default=str)
    scope = hashlib.sha256(text.encode()).hexdigest()
    row, _ = Ingest.objects.get_or_create(
        session=session,
        scope=scope,
        defaults={"model": model.name, "filters": dict(filters), "per_page": per_page},
    )
    return row


@dataclass
class SourceDownload:
    session: Session
    model: SourceModel
    upstream: Upstream
    ingest: Ingest
    filters: Mapping[str, Any]
    per_page: int
    fields: Sequence[str]
    result: IngestResult
    stored_ids: set[str] = field(default_factory=set)
    total: int | None = None  # number of records that the upstream reports
    largest_total: int | None = None  # of those that pages have reported
    contradicted: str = ""  # two statements of a page that disagree
    repeated_page: int = 0  # number of the page that ended the download because it had no new row
    replaced: int = 0  # number of rows that another one with the same id and other values has replaced
    nulled: int = 0  # number of values that are NaN or infinite
    has_noted_fields: bool = False

    def __post_init__(self) -> None:
        self.repeats = RepeatCheck(self.model.resource.id_field)
        self.summaries: list[Finding] = []

    @contextmanager
    def saved_progress(self, resume: bool) -> Iterator[None]:
        """Prepare the Ingest row, and save its final state after the block, even if the block fails.

        An UpstreamFailed is recorded, and raised again only if the block saved no page.
        """
        # If a download started longer ago than record_ttl(), its records may have expired, so it starts over.
        if not resume or self.ingest.started_at < timezone.now() - sessions.record_ttl():
            self.ingest.pages_done = []
            self.ingest.next_cursor = ""
            self.ingest.total_pages = None
            self.ingest.page_contents = {}
            self.ingest.started_at = timezone.now()
        elif self.ingest.pages_done:
            if self.ingest.state == IngestState.COMPLETE:  # records may have been added, so read the last page again
                self._forget_last_page()
            self.result.resumed_from = self._first_missing()
        self.ingest.state = IngestState.PARTIAL
        self.ingest.error = ""
        self.repeats.fingerprints = {int(page): of["hash"] for page, of in self.ingest.page_contents.items()}
        self._save()
        try:
            yield
            self._conclude()
        except UpstreamFailed as error:
            self.ingest.error = self.result.error = error.message
            source_health.record_read(self.model, error.message)
            if not self.result.pages:
                raise
            self.result.capped = True
        finally:
            self._save()

    def _conclude(self) -> None:
        """Determine whether the download is complete, once it has ended without an error."""
        if self.result.capped:
            return
        rows = [self.ingest.page_contents.get(str(page), {}).get("rows") for page in self.ingest.pages_done]
        self.result.shortfall = self.ingest.error = shortfall(
            delivered=None if None in rows else sum(rows),
            total=self.total,
            total_pages=self.ingest.total_pages,
            pages=self.ingest.pages_done,
            repeated_page=self.repeated_page,
            contradicted=self.contradicted,
            largest_total=self.largest_total,
        )
        self.result.complete = not self.result.shortfall
        self.result.capped = not self.result.complete
        if self.result.shortfall and self.ingest.next_cursor and not self.repeated_page:
            self._forget_last_page()  # next_cursor is that of the last page
        self.ingest.state = IngestState.COMPLETE if self.result.complete else IngestState.PARTIAL

    def _forget_last_page(self) -> None:
        """Let a resume read the last page again."""
        if self.ingest.pages_done:
            last = self.ingest.pages_done.pop()
            self.ingest.page_contents.pop(str(last), None)

    def fetch_all(self) -> None:
        """Fetch and save the missing pages, up to MAX_PAGES.

        If a response gives the total number of pages, and pages have numbers, the other pages are fetched in parallel.
        """
        number = self._first_missing()
        cursor = self.ingest.next_cursor
        page = self._fetch(number, cursor)
        while self.save_page(number, page) and self.leads_on(number, page):
            if self.result.pages >= MAX_PAGES:
                self._cap()
                return
            if page.total_pages and page.total_pages > number and self._may_fetch_at_once(page):
                last = self._fetch_remaining(page.total_pages)
                if last is None:
                    return
                goes_on = self.leads_on(page.total_pages, last) or self._is_unbounded(page, last)
                if not goes_on or self.result.pages >= MAX_PAGES:
                    return
                number = page.total_pages
                page = last
            number = number + 1
            cursor = _next_page_request(page)
            page = self._fetch_after(number, page, cursor)
        self.ingest.next_cursor = cursor  # the last page's own cursor, because a later resume reads the page again

    def _may_fetch_at_once(self, page: PageOf) -> bool:
        return self._has_page_numbers(page) and not self.contradicted

    def _is_unbounded(self, first: PageOf, last: PageOf) -> bool:
        """Return whether the last of the stated pages may not be the last: it is full, and no total is known."""
        return self.total is None and len(last.rows) >= max(len(first.rows), 1)

    def _fetch_after(self, number: int, previous: PageOf, cursor: str) -> PageOf:
        """Fetch the page after `previous`. Some servers refuse a page after the last instead of returning an empty one.

        A refusal with 404 is the end if the previous page had rows, and one with 400 if it was shorter than the pages
        before it, or the last of the stated ones.
        """
        try:
            return self._fetch(number, cursor)
        except UpstreamFailed as error:
            is_after_stated = previous.stated_pages is not None and number > previous.stated_pages
            rows = [of.get("rows", 0) for of in self.ingest.page_contents.values()]
            is_short = len(previous.rows) < max(rows, default=0)
            is_end = error.status_code == 404 or (error.status_code == 400 and (is_short or is_after_stated))
            if not (is_end and previous.rows and not cursor):
                raise
            return PageOf([])

    def _fetch_remaining(self, total: int) -> PageOf | None:
        """Fetch the missing pages up to a number. Return the last page, or None if the download has ended before it."""
        page = None
        missing = [number for number in range(1, total + 1) if number not in set(self.ingest.pages_done)]
        allowed = missing[: MAX_PAGES - self.result.pages]
        for number, page in self._fetch_each(allowed):
            if not self.save_page(number, page):
                return None
        if len(missing) > len(allowed):
            self._cap()
            return None
        return page

    def _fetch_each(self, numbers: Sequence[int]) -> Iterator[tuple[int, PageOf]]:
        """Yield the pages in order. A few pages are requested ahead if the upstream allows concurrent requests.

        If the caller stops iterating, requests that haven't started are canceled.
        """
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

    def save_page(self, number: int, page: PageOf, *, counts: bool = True) -> bool:
        """Save the rows and mark the page as done, in one transaction. Then save its summary and report progress.

        Returns False, and stores nothing, if the page has no other rows than earlier pages.

        An empty page is not marked as done. `counts=False` is for a page that the caller requested by its number. Such
        a page is not marked as done either, because it must not affect where a later resume continues.
        """
        self.result.pages += 1
        if page.total is not None:
            self.total = page.total
            self.largest_total = max(page.total, self.largest_total or 0)
        is_expected = number <= (page.total_pages or self.ingest.total_pages or 0)
        if self.repeats.is_repeat(number, page.rows, is_expected=is_expected):
            self.repeated_page = number
            self.result.repeated += len(page.rows)
            return False
        self._store(number, page, counts)
        total = self.ingest.total_pages
        suffix = f"/{total}" if total else ""
        progress.tell(number, total, f"Ingested page {number}{suffix} ({self.result.records} records)")
        return True

    def _store(self, number: int, page: PageOf, counts: bool) -> None:
        resource = self.model.resource
        rows = [records.projected(records.flattened(row, resource), self.fields, resource) for row in page.rows]
        self._note_missing_fields(rows)
        now = timezone.now()
        with transaction.atomic():
            expires_at = now + sessions.record_ttl()
            origin = f"{self.ingest.scope}:{number}"
            stored = records.store(self.session, self.model.name, rows, resource.id_field, now, expires_at, origin)
            self.ingest.total_pages = page.total_pages or self.ingest.total_pages
            if counts and (rows or page.skipped):
                self.ingest.pages_done = sorted({*self.ingest.pages_done, number})
                contents = {"rows": len(rows) + len(page.skipped), "hash": self.repeats.fingerprints.get(number, "")}
                self.ingest.page_contents[str(number)] = contents
                self.ingest.next_cursor = "" if self._has_page_numbers(page) else _next_page_request(page)
            self._save()
        self._count(stored, page)
        self.result.total_pages = self.ingest.total_pages
        if stored.rows:
            keys = frozenset({resource.id_field, *(f"{name}_id" for name in resource.associations)})
            summary = summarize(self.model.name, stored.rows, number, self.ingest.total_pages, self.fields, keys)
            key = f"{self.ingest.scope[:40]}:{number}"
            self.summaries.append(save_page_summary(self.session, self.model.name, key, summary))

    def _note_missing_fields(self, rows: Sequence[Row]) -> None:
        """Name requested fields that no record of the first page has: they may be misspelt.

        Raises Invalid if it has none of them, so that nothing replaces the records of an earlier ingest.
        """
        if not rows or self.result.pages > 1 or self.has_noted_fields:
            return
        self.has_noted_fields = True
        keys = set[str]().union(*rows)
        roots = {name: name.split(".")[0] for name in self.fields}
        missing = [name for name, root in roots.items() if not any(k == root or k.startswith(f"{root}_") for k in keys)]
        if missing and len(missing) == len(roots):
            allowed = "fields of the records; leave it out to get all of them"
            raise Invalid(f"no record of the first page has {', '.join(missing)}", field="fields", allowed=allowed)
        if missing:
            self.result.notes.append(f"no record of the first page has {', '.join(missing)}")

    def _count(self, stored: records.StoredPage, page: PageOf) -> None:
        new = [record_id for record_id in stored.ids if record_id not in self.stored_ids]
        self.stored_ids.update(new)
        self.result.records += len(new)
        self.result.repeated += stored.repeated + len(stored.ids) - len(new)
        self.replaced += stored.replaced
        self.nulled += stored.nulled
        notes = self.result.notes
        if page.format and page.format not in notes:
            notes.append(page.format)
        for count, text in ((self.replaced, REPLACED), (self.nulled, NULLED)):
            notes[:] = [note for note in notes if not note.endswith(text)]
            if count:
                notes.append(f"{count} {text}")
        for reason in (*page.skipped, *stored.skipped):
            self.result.skipped += 1
            if self.result.skipped <= ROWS_NAMED:
                notes.append(f"skipped a row: {reason}")
        for difference in page.irregular:
            self.result.irregular += 1
            if self.result.irregular <= ROWS_NAMED:
                notes.append(f"kept an irregular row: {difference}")

    def leads_on(self, number: int, page: PageOf) -> bool:
        """Return whether another page is to be requested, and note a page that contradicts itself.

        Whatever leads to more rows is followed, also if the page states at the same time that it is the last. If it
        states nothing, an empty page is the end. A short page is not, because the server may use a smaller page size
        than requested.
        """
        delivered = sum(of.get("rows", 0) for of in self.ingest.page_contents.values()) or len(page.rows)
        # With cursors, a resumed download does not know how many empty pages came before.
        is_known = page.cursor is None or not self.result.resumed_from
        more, last = statements(number if is_known else None, page, delivered)
        self.contradicted = self.contradicted or contradiction(number, more, last)
        if page.cursor or page.next:
            return True
        if page.cursor is not None or not (page.rows or page.skipped):
            return False  # without a cursor, and after an empty page, there is nothing to request
        return bool(more) or not last

    def _has_page_numbers(self, page: PageOf) -> bool:
        """Return whether pages can be requested by number. If not, each page gives the cursor or link of the next."""
        parameters = parse_qs(urlsplit(page.next or "").query)
        return not page.cursor and (not page.next or self.model.resource.page_param in parameters)

    def _first_missing(self) -> int:
        completed = set(self.ingest.pages_done)
        return next(n for n in range(1, len(completed) + 2) if n not in completed)

    def _cap(self) -> None:
        self.result.capped = True
        remaining = self.ingest.total_pages and self.ingest.total_pages - len(self.ingest.pages_done)
        hint = f"{remaining} more pages" if remaining else "there may be more pages"
        self.result.notes.append(f"{hint}: call again with resume to continue")

    def _save(self) -> None:
        self.ingest.updated_at = timezone.now()
        self.ingest.save()


def _next_page_request(page: PageOf) -> str:
    """Return the cursor of the next page, its link with the prefix LINK, or "" if the response has neither."""
    return page.cursor or (f"{LINK}{page.next}" if page.next else "")
