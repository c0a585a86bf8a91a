"""Fake upstream REST API with every supported response envelope, configurable failures and any number of records."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests import http_servers


def book(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": f"Book {number}",
        "status": ("completed", "completed", "completed", "reading", "unread")[number % 5],
        "rating": number % 6,
        "price": f"{number % 90}.5",
        "author": {"id": number % 7, "name": f"Author {number % 7}", "self_link": "/authors/1"},
        "updated_at": f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}T08:00:00Z",
    }


@dataclass
class Api:
    """Served records, configured failures and recorded requests. `requests` holds (method, path with query)."""

    books: dict[str, dict[str, Any]] = field(default_factory=dict)
    children: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    envelope: str = "data_meta"
    page_cap: int = 10_000
    hides_totals: bool = False
    ignores_page: bool = False
    last_page: int = 10_000  # later pages are empty
    empty_pages: set[int] = field(default_factory=set)  # numbers of pages without rows, before which no row is lost
    meta: Callable[[int, int], dict[str, int]] | None = (
        None  # the response's `meta`, from the numbers of rows and of all
    )
    script: list[tuple[int, Any, dict[str, str]]] = field(default_factory=list)  # status, body and headers of each page
    fail_pages: dict[int, list[int]] = field(default_factory=dict)  # page → statuses of its first responses
    fail_writes: dict[str, list[int]] = field(default_factory=dict)  # id → statuses of its first responses
    retry_after: str = "0.01"  # header of every failure in fail_pages and fail_writes
    drop_after_write: set[str] = field(default_factory=set)  # ids whose write is stored before the connection closes
    delay_s: float = 0.0
    padding: bytes = b""  # compressed with gzip and sent before the body, which is compressed, too
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    on_write: Callable[[str], None] | None = None
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fill(self, count: int) -> None:
        self.books = {str(n): book(n) for n in range(count)}


class Handler(http_servers.QuietHandler):
    protocol_version = "HTTP/1.1"

    api: Api

    def _begin(self) -> tuple[list[str], dict[str, str]]:
        api = self.api
        with api.lock:
            api.requests.append((self.command, self.path))
            api.headers.append(dict(self.headers))
            api.at_once += 1
            api.most_at_once = max(api.most_at_once, api.at_once)
        if api.delay_s:
            time.sleep(api.delay_s)
        parts = urlsplit(self.path)
        query = {name: ",".join(values) for name, values in parse_qs(parts.query).items()}
        return [unquote(part) for part in parts.path.strip("/").split("/")], query

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        with self.api.lock:
            self.api.at_once -= 1
        data = json.dumps(body).encode()
        if self.api.padding:
            data, headers = self.api.padding + gzip.compress(data), {"Content-Encoding": "gzip"}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path, query = self._begin()
        if len(path) == 1:
            rows = [row for row in self.api.books.values() if query.get("status") in (None, row.get("status"))]
            return self._page(rows, query)
        if len(path) == 2:
            record = self.api.books.get(path[1])
            return self._answer(200, record) if record else self._answer(404, {"error": "no such book"})
        if path[1] == "broken":
            return self._answer(500, {"error": "this parent is broken"})
        return self._page(self.api.children.get(path[1], []), query)

    def _page(self, rows: list[dict[str, Any]], query: dict[str, str]) -> None:
        api = self.api
        number = 1 if api.ignores_page else int(query.get("page", query.get("cursor", "1")))
        if api.script:
            status, body, headers = api.script[number - 1] if number <= len(api.script) else (200, [], {})
            return self._answer(status, body, headers)
        if statuses := api.fail_pages.get(number):
            return self._answer(statuses.pop(0), {"error": "not now"}, {"Retry-After": api.retry_after})
        size = min(int(query.get("per_page", "50")), api.page_cap)
        page_rows = rows[(number - 1) * size : number * size] if number <= api.last_page else []
        if api.empty_pages:
            position = number - len([page for page in api.empty_pages if page < number])
            page_rows = [] if number in api.empty_pages else rows[(position - 1) * size : position * size]
        pages = (-(-len(rows) // size) or 1) + len(api.empty_pages)
        following = f"/books?page={number + 1}&per_page={size}" if number < pages else None
        meta = {} if api.hides_totals else {"total_pages": pages, "total_count": len(rows)}
        meta = api.meta(len(page_rows), len(rows)) if api.meta else meta
        match api.envelope:
            case "array":
                self._answer(200, page_rows)
            case "link":
                self._answer(
                    200, page_rows, {"Link": f'<{following}>; rel="next"' if following else '</>; rel="first"'}
                )
            case "drf":
                self._answer(200, {"count": len(rows), "next": following, "previous": None, "results": page_rows})
            case "hal":
                links = {"next": {"href": following}} if following else {}
                plain = [{**row, "_links": {"self": "/x"}} for row in page_rows]
                self._answer(200, {"_embedded": {"books": plain}, "_links": links, "page": {"totalPages": pages}})
            case "cursor":
                cursor = str(number + 1) if number < min(pages, api.last_page) else None
                self._answer(200, {"data": page_rows, "next_cursor": cursor, "meta": meta})
            case "elsewhere":
                self._answer(200, {"count": 9_999, "next": "http://evil.example/books?token=1", "results": page_rows})
            case _:
                self._answer(200, {"data": page_rows, "meta": meta})

    def do_PATCH(self) -> None:
        path, _ = self._begin()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._write(path, lambda row: row.update(body.get("book", body)))

    def do_DELETE(self) -> None:
        path, _ = self._begin()
        self._write(path, None)

    def _write(self, path: list[str], change: Callable[[dict[str, Any]], None] | None) -> None:
        api, record_id = self.api, path[1]
        if api.on_write:
            api.on_write(record_id)
        if statuses := api.fail_writes.get(record_id):
            return self._answer(
                statuses.pop(0), {"errors": ["not allowed", "try again"]}, {"Retry-After": api.retry_after}
            )
        with api.lock:
            if record_id not in api.books:
                pass
            elif change:
                change(api.books[record_id])
            else:
                del api.books[record_id]
        if record_id in api.drop_after_write:
            with api.lock:
                api.at_once -= 1
            self.close_connection = True
            self.connection.close()
            return
        self._answer(200, {"ok": True})


@contextmanager
def serving(api: Api) -> Iterator[str]:
    with http_servers.serving(type("Own", (Handler,), {"api": api})) as url:
        yield url
