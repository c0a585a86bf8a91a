"""Response envelopes of REST APIs: bare arrays, data/meta, Django REST framework, HAL, Link headers, cursors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]
LINKS = re.compile(r",\s*(?=<)")  # between the links of a Link header; an address may contain commas
REL_NEXT = re.compile(r'\brel="?next"?')
FLAGS = ("has_more", "hasMore", "has_next", "hasNext", "has_next_page", "hasNextPage", "more_records")
LAST = ("last", "is_last", "isLast", "is_last_page")  # flags with the opposite meaning
NEXT_PAGE = ("next_page", "nextPage")  # the number of the next page, null on the last one
NEXT_LINKS = ("next_page_url", "nextPageUrl", "@odata.nextLink", "next")  # its address, null or missing on the last one
# objects that hold such statements
PARTS = (
    "meta", "pagination", "page", "info", "paging", "_meta", "metadata", "result_info", "response_metadata",
    "page_info", "pageInfo",
)  # fmt: skip
TOTALS = (
    "total", "total_count", "totalCount", "total_entries", "totalElements", "total_items", "totalItems",
    "total_results", "totalResults", "total_records", "totalRecords", "@odata.count",
)  # fmt: skip
HEADER_TOTALS = ("x-total-count", "x-total", "x-wp-total", "x-pagination-total-count")
HEADER_PAGES = ("x-total-pages", "x-wp-totalpages", "x-pagination-page-count")
CONTENT_RANGE = re.compile(r"/\s*([0-9]+)\s*$")
NUMBER = re.compile(r"[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4}")  # also as 1,000
COUNT = ("count",)  # the number of all records, or of those on the page
PAGES = ("total_pages", "totalPages", "last_page", "pages", "page_count")
CURSORS = ("next_cursor", "nextCursor", "cursor_next", "next_page_token", "nextPageToken", "nextToken", "next_token")
RECORDS = (
    "records", "data", "items", "results", "result", "content", "value", "values", "entries", "rows", "elements",
    "hits", "objects", "documents",
)  # fmt: skip
# Lists beside the records: messages, what else is included, and what describes the records.
BESIDE = (
    "errors", "warnings", "messages", "included", "facets", "filters", "links", "aggregations", "columns", "fields",
    "schema", "sort", "sorts",
)  # fmt: skip
FAILED = ("error", "fail", "failed", "failure")  # values of `status`


@dataclass(frozen=True)
class PageOf:
    """One page of an upstream's records. None means that the response doesn't give the value."""

    rows: Sequence[Row]
    total_pages: int | None = None
    total: int | None = None
    next: str | None = None  # the URL of the next page; "" on the last page
    cursor: str | None = None  # the cursor of the next page; "" on the last page
    has_more: bool | None = None  # a flag that says whether there is a next page
    stated_pages: int | None = None  # the number of pages as the server states it; total_pages may follow from `total`
    skipped: Sequence[str] = ()  # for each row that can't be read, the reason
    irregular: Sequence[str] = ()  # for each row with more or fewer values than its file has columns, the difference
    format: str = ""  # for a text file, how it was read


class NoRows(ValueError):
    """The response has no list of records where the envelope requires one."""


def unwrap(body: Any, headers: Mapping[str, str], envelope: str, per_page: int, *, is_first: bool = True) -> PageOf:
    """Extract the page from a response. Raises NoRows if the response has no list of records."""
    kind = _recognize(body, headers) if envelope == "auto" else envelope
    page = _of_kind(kind, body, headers, per_page, is_first)
    return _with_statements(page, body if isinstance(body, dict) else {}, headers, per_page)


def _with_statements(page: PageOf, body: Mapping[str, Any], headers: Mapping[str, str], per_page: int) -> PageOf:
    """Add what body and headers state besides the values of the envelope's kind."""
    parts = _parts(body)
    lower = {name.lower(): value for name, value in headers.items()}
    total = page.total
    if total is None:
        total = next((number for part in parts if (number := _number(part, TOTALS)) is not None), None)
    pages = next((number for part in parts if (number := _number(part, PAGES)) is not None), None)
    if total is None:
        total = _number(lower, HEADER_TOTALS)
    if total is None and (found := CONTENT_RANGE.search(lower.get("content-range", ""))):
        total = int(found[1])
    pages = _number(lower, HEADER_PAGES) if pages is None else pages
    is_computed = bool(total) and pages == math.ceil(
        (total or 0) / per_page
    )  # from the total and the page size asked for
    next_url = page.next
    if next_url is None and page.cursor is None:
        next_url = _stated_link(body, parts, lower)
    return replace(
        page,
        total=total,
        total_pages=page.total_pages or (None if is_computed else pages),
        next=next_url,
        has_more=_has_more(parts),
        stated_pages=None if is_computed else pages,
    )


def _parts(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the body and those of its objects that say something about the pages."""
    return [body, *(body[name] for name in PARTS if isinstance(body.get(name), dict))]


def _has_more(parts: Sequence[Mapping[str, Any]]) -> bool | None:
    """Return whether a flag, or the number of a next page, says that there is one. None if nothing says either."""
    flags = [flag for part in parts for name in FLAGS if (flag := _flag(part.get(name))) is not None]
    flags += [not flag for part in parts for name in LAST if (flag := _flag(part.get(name))) is not None]
    numbers = [part[name] for part in parts for name in NEXT_PAGE if name in part]
    flags += [isinstance(value, int | str) and bool(value) for value in numbers if not isinstance(value, dict | list)]
    # What stands in the place of a link, without being one that is known here, is still a next page.
    others = [part[name] for part in parts for name in NEXT_LINKS if isinstance(part.get(name), dict | int)]
    flags += [bool(value) for value in others]
    return any(flags) if flags else None


def _flag(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _stated_link(body: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], headers: Mapping[str, str]) -> str | None:
    """Return the address of the next page, "" if it is stated that there is none, or None if nothing is stated."""
    for part in (*parts, *(body[name] for name in ("links", "_links") if isinstance(body.get(name), dict))):
        for name in NEXT_LINKS:
            link = part.get(name)
            if isinstance(link, dict):
                link = next((link[key] for key in ("href", "link", "url") if key in link), link)
            if isinstance(link, str) and ("/" in link or "?" in link):
                return link
            if name in part and link is None:
                return ""
    return _next_link(headers["link"]) if "link" in headers else None


def _of_kind(kind: str, body: Any, headers: Mapping[str, str], per_page: int, is_first: bool) -> PageOf:
    match kind:
        case "array" | "link":
            return _of_array(body, headers)
        case "drf":
            link = body.get("next") or ""
            return _counted(
                _rows(body, "results"), body, {}, link if isinstance(link, str) else None, per_page, is_first
            )
        case "hal":
            link = ((body.get("_links") or {}).get("next") or {}).get("href", "")
            embedded = body.get("_embedded") or {}
            rows = next((value for value in embedded.values() if isinstance(value, list)), None)
            if rows is None and _states_none(body):
                rows = []
            if rows is None:
                raise NoRows("_embedded has no list")
            return _counted([_plain(row) for row in rows], body, body.get("page") or {}, link, per_page, is_first)
        case "cursor":
            rows = _first_list(body, is_first)
            cursors = [str(part[key] or "") for part in _parts(body) for key in CURSORS if key in part]
            # Some servers leave it out on the last page. A first page without one says nothing.
            if not cursors and not is_first:
                cursors = [""]
            return PageOf(_dicts(rows), cursor=next(iter(cursors), None))
        case _:
            meta = body.get("meta") or body.get("pagination") or {}
            return _counted(_dicts(_first_list(body, is_first)), body, meta, None, per_page, is_first)


def _recognize(body: Any, headers: Mapping[str, str]) -> str:
    if isinstance(body, list):
        return "link" if "link" in {name.lower() for name in headers} else "array"
    if not isinstance(body, dict):
        raise NoRows(f"the response is {type(body).__name__}, neither a list nor an object")
    if "_embedded" in body:
        return "hal"
    if isinstance(body.get("results"), list) and "next" in body:
        return "drf"
    has_cursor = any(key in part for part in _parts(body) for key in CURSORS)
    return "cursor" if has_cursor else "data_meta"


def _of_array(body: Any, headers: Mapping[str, str]) -> PageOf:
    if not isinstance(body, list):
        raise NoRows("the response is not a list")
    lower = {name.lower(): value for name, value in headers.items()}
    next_url = None
    if "link" in lower:
        next_url = _next_link(lower["link"])
    total = lower.get("x-total-count", "")
    pages = lower.get("x-total-pages", "")
    return PageOf(
        _dicts(body), int(pages) if pages.isdecimal() else None, int(total) if total.isdecimal() else None, next_url
    )


def _next_link(header: str) -> str:
    for link in LINKS.split(header):
        address, _, parameters = link.strip().partition(">")
        if address.startswith("<") and REL_NEXT.search(parameters):
            return address[1:]
    return ""


def _counted(
    rows: Sequence[Row],
    body: Mapping[str, Any],
    meta: Mapping[str, Any],
    next_url: str | None,
    per_page: int,
    is_first: bool,
) -> PageOf:
    pages = _number(meta, PAGES) or _number(body, PAGES)
    total = _number(meta, TOTALS)
    total = _number(body, TOTALS) if total is None else total
    if total is None:
        count = _number({**body, **meta}, COUNT)
        total = None if next_url is None and count == len(rows) else count
    if is_first and pages is not None and total is not None and 0 < pages * len(rows) < total:
        pages = None  # the server computed it from a larger page size than it uses
    if pages is None and total is not None and rows and (is_first or next_url):
        # A server may use a smaller page size than requested, so the page size is the number of rows that it sent.
        pages = math.ceil(total / len(rows)) if next_url or len(rows) < per_page else math.ceil(total / per_page)
        pages = max(pages, 1)
    return PageOf(rows, pages, total, next_url)


def _rows(body: Mapping[str, Any], key: str) -> list[Row]:
    if not isinstance(body.get(key), list):
        raise NoRows(f"there is no list {key!r}")
    return _dicts(body[key])


def _first_list(body: Mapping[str, Any], is_first: bool) -> list[Any]:
    """Return the list that holds the records: one with a usual name, or the first that isn't beside the records."""
    named = next((body[key] for key in RECORDS if isinstance(body.get(key), list)), None)
    others = {key: value for key, value in body.items() if isinstance(value, list) and key not in BESIDE}
    rows = next(iter(others.values()), None) if named is None else named
    if not rows and (error := _error(body)):
        raise NoRows(f"it states an error: {error[:200]}")
    if rows is None and not _states_none(body):
        raise NoRows("there is no list in the response")
    full = [key for key, value in others.items() if any(isinstance(row, dict) for row in value)]
    if is_first and not rows and named is None and full:
        raise NoRows(f"its list {next(iter(others))!r} is empty, and its list {full[0]!r} may not be the records")
    return rows or []


def _error(body: Mapping[str, Any]) -> str:
    """Return the error that a response states although its HTTP status is one of success, or ""."""
    is_error = body.get("success") is False or str(body.get("status")).lower() in FAILED
    error = body.get("error") or (body.get("message") or body.get("errors") or body.get("status") if is_error else "")
    return str(error or ("success is false" if is_error else ""))


def _states_none(body: Mapping[str, Any]) -> bool:
    return any(_number(part, TOTALS) == 0 for part in _parts(body))


def _dicts(rows: Sequence[Any]) -> list[Row]:
    return [row if isinstance(row, dict) else {"value": row} for row in rows]


def _plain(row: Any) -> Row:
    return (
        {key: value for key, value in row.items() if key not in ("_links", "_embedded")}
        if isinstance(row, dict)
        else {"value": row}
    )


def _number(meta: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    for key in keys:
        value = meta.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if isinstance(value, str) and NUMBER.fullmatch(value):
            return int(value.replace(",", ""))
    return None
