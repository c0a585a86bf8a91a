"""A stand-in for DataHub's GMS: the endpoints that the SDK and our adapter use, over our own aspect tables.

It can be told to be slow, to answer an error, to drop the connection (before or after it has written), or to
accept stale preconditions as some servers do.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.db import connections

from knowledge.catalog.local import LocalCatalog
from knowledge.catalog.patch import from_pointer
from knowledge.catalog.port import Run, Write
from knowledge.models import CatalogAspect, CatalogEntity

CONFIG: dict[str, Any] = {
    "noCode": "true",
    "versions": {"acryldata/datahub": {"version": "v1.7.0", "commit": "0"}},
    "datahub": {"serverType": "prod", "serverEnv": "core"},
    "patchCapable": True,
    "statefulIngestionCapable": True,
    "retention": "true",
    "managedIngestion": {"enabled": True, "defaultCliVersion": "1.7.0"},
}


@dataclass
class Faults:
    """What goes wrong; each counts down so many requests (writes only, where it says so)."""

    write_status: int = 0
    write_status_times: int = 0
    after_writes: int = 0  # writes that go well before it begins
    drop_after_write: int = 0  # connections dropped when the write is done already
    drop_before_write: int = 0
    delay_s: float = 0.0
    no_patch_template: set[str] = field(default_factory=set)
    ignore_preconditions: bool = False
    lagging_reads: int = 0  # reads that still show what was before the last write
    events: list[str] = field(default_factory=list)  # URNs of changed entities, in order
    requests: list[tuple[str, str]] = field(default_factory=list)
    proposals: list[dict[str, Any]] = field(default_factory=list)


class Answer(Exception):
    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults = Faults()
    lock = threading.Lock()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, act: Callable[[str, dict[str, list[str]], Any], Any]) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.faults.requests.append((self.command, parts.path))
        time.sleep(self.faults.delay_s)
        try:
            body = act(parts.path, parse_qs(parts.query), json.loads(raw) if raw else None)
            self._reply(200, body)
        except Answer as answer:
            self._reply(answer.status, answer.body)
        except ConnectionAbortedError:
            self.close_connection = True
        finally:
            connections.close_all()

    def _reply(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        self.wfile.write(head.encode() + text)

    # -- endpoints ---------------------------------------------------------------------------------------

    def _get(self, path: str, query: dict[str, list[str]], body: Any) -> Any:
        if path == "/config":
            return CONFIG
        if path.startswith("/entitiesV2/"):
            urn = unquote(path.removeprefix("/entitiesV2/"))
            return {"urn": urn, "aspects": latest(urn)}
        if path == "/openapi/v1/events/poll":
            return self._events(int(query.get("offsetId", ["-1"])[0]), float(query["pollTimeoutSeconds"][0]))
        raise Answer(404, {"message": f"no {path}"})

    def _events(self, offset: int, wait_s: float) -> Any:
        """Everything after the offset, waiting for it; without an offset, where the stream ends."""
        events = self.faults.events
        if offset < 0:
            return {"offsetId": str(len(events)), "count": 0, "events": []}
        deadline = time.monotonic() + wait_s
        while len(events) <= offset and time.monotonic() < deadline:
            time.sleep(0.02)
        news = [platform_event(urn) for urn in events[offset:]]
        return {"offsetId": str(offset + len(news)), "count": len(news), "events": news}

    def _post(self, path: str, query: dict[str, list[str]], body: Any) -> Any:
        if path == "/aspects":
            given = body["proposals"] if query["action"] == ["ingestProposalBatch"] else [body["proposal"]]
            for proposal in given:
                self._ingest(proposal)
            return {"value": "ok"}
        if path.endswith("/batchGet"):
            lagging = self._lags()
            return [{"urn": one["urn"], **latest(one["urn"], set(one) - {"urn"}, lagging)} for one in body]
        if path == "/api/graphql":
            return {"data": graphql(body["query"], body["variables"]["input"])}
        raise Answer(404, {"message": f"no {path}"})

    def _delete(self, path: str, query: dict[str, list[str]], body: Any) -> Any:
        *_, urn, aspect = path.split("/")
        self._faulty_write()
        LocalCatalog().write(Write(unquote(urn), aspect, (), "remove"), Run("gms", "gms"))
        return {}

    def _lags(self) -> bool:
        with self.lock:
            if not self.faults.lagging_reads or not self.faults.proposals:
                return False
            self.faults.lagging_reads -= 1
            return True

    def _faulty_write(self) -> None:
        faults = self.faults
        with self.lock:
            if faults.after_writes:
                faults.after_writes -= 1
                return
            if faults.drop_before_write:
                faults.drop_before_write -= 1
                raise ConnectionAbortedError
            if faults.write_status_times:
                faults.write_status_times -= 1
                raise Answer(faults.write_status, {"message": "as told"})

    def _ingest(self, proposal: dict[str, Any]) -> None:
        self.faults.proposals.append(proposal)
        self._faulty_write()
        urn, aspect = proposal["entityUrn"], proposal["aspectName"]
        given = json.loads(proposal["aspect"]["value"])
        run = Run((proposal.get("systemMetadata") or {}).get("runId", "none"), "gms")
        with self.lock:
            self._precondition(urn, aspect, proposal.get("headers") or {})
            if proposal["changeType"] == "PATCH":
                if aspect in self.faults.no_patch_template:
                    raise Answer(500, {"message": "no template for this aspect"})
                for operation in given:
                    path = from_pointer(operation["path"])
                    LocalCatalog().write(Write(urn, aspect, path, operation["op"], operation.get("value")), run)
            else:
                LocalCatalog().put(urn, aspect, given, {"runId": run.id})
        if self.faults.drop_after_write:
            self.faults.drop_after_write -= 1
            raise ConnectionAbortedError

    def _precondition(self, urn: str, aspect: str, headers: dict[str, str]) -> None:
        wanted = headers.get("If-Version-Match")
        if wanted is None or self.faults.ignore_preconditions:
            return
        row = CatalogAspect.objects.filter(urn=urn, aspect=aspect, is_latest=True).first()
        actual = str(row.version) if row and row.value is not None else "-1"
        if wanted != actual:
            raise Answer(412, {"message": f"expected version {wanted}, actual {actual}"})


def platform_event(urn: str) -> dict[str, Any]:
    change = {"entityUrn": urn, "entityType": "dataset", "category": "DEPRECATION", "operation": "MODIFY", "version": 0}
    payload = {"value": json.dumps(change), "contentType": "application/json"}
    value = {"header": {"timestampMillis": 0}, "name": "entityChangeEvent", "payload": payload}
    return {"contentType": "application/json", "value": json.dumps(value)}


def latest(urn: str, aspects: set[str] | None = None, lagging: bool = False) -> dict[str, Any]:
    """The newest version of each aspect; lagging, the one before it where the newest is a run's."""
    rows = CatalogAspect.objects.filter(urn=urn, value__isnull=False)
    rows = rows.exclude(system_metadata__runId__startswith="cs-") if lagging else rows.filter(is_latest=True)
    if aspects is not None:
        rows = rows.filter(aspect__in=aspects)
    return {
        row.aspect: {"value": row.value, "systemMetadata": {**row.system_metadata, "version": str(row.version)}}
        for row in rows
    }


def graphql(query: str, given: dict[str, Any]) -> dict[str, Any]:
    catalog = LocalCatalog()
    if "searchAcrossEntities" in query:
        words = "" if given["query"] == "*" else given["query"]
        kinds = [
            kind.split("_")[0].lower() + "".join(p.title() for p in kind.split("_")[1:]) for kind in given["types"]
        ]
        found = catalog.search(words, types=kinds, limit=given["count"])
        entities = [{"entity": {"urn": one.urn, "type": "X"}} for one in found]
        return {"searchAcrossEntities": {"searchResults": entities}}
    if "scrollAcrossEntities" in query:
        (kind,) = [
            kind.split("_")[0].lower() + "".join(p.title() for p in kind.split("_")[1:]) for kind in given["types"]
        ]
        start = int(given.get("scrollId") or 0)
        urns = list(CatalogEntity.objects.filter(entity_type=kind).order_by("urn").values_list("urn", flat=True))
        page = urns[start : start + given["count"]]
        end = start + len(page)
        listed = [{"entity": {"urn": urn, "type": "X"}} for urn in page]
        following = str(end) if end < len(urns) else None
        return {"scrollAcrossEntities": {"nextScrollId": following, "searchResults": listed}}
    nodes = catalog.lineage(given["urn"], direction=given["direction"].lower(), hops=10, limit=given["count"])
    results: list[dict[str, Any]] = [
        {"degree": min(node.distance, 3), "entity": {"urn": node.urn, "type": "X"}} for node in nodes
    ]
    return {"searchAcrossLineage": {"searchResults": results}}


@contextmanager
def standin() -> Iterator[tuple[str, Faults]]:
    """A running stand-in: its address and its faults."""
    Handler.faults = Faults()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", Handler.faults
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
