"""Fake DataHub GMS with its own aspect store.

Provides the endpoints that the SDK, the DataHub command line and our adapter use. Every aspect is validated with the
SDK's classes, as the server would do. Tests can make it slow, return errors, drop the connection before or after a
write, or accept stale preconditions as some servers do.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fake_datahub_store import KEYS, ErrorResponse, Store, default, patch
from tests.http_servers import QuietHandler, serving

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
    """Configured failures and recorded requests. Numbers count down by one per request, or per write where stated."""

    write_status: int = 0
    write_status_times: int = 0
    after_writes: int = 0  # writes that succeed before failures begin
    drop_after_write: int = 0  # connections dropped after the write was stored
    drop_before_write: int = 0
    delay_s: float = 0.0
    no_patch_template: set[str] = field(default_factory=set)
    ignore_preconditions: bool = False
    lagging_reads: int = 0  # reads that still return the state before the last write
    events: list[str] = field(default_factory=list)  # URNs of changed entities, in order
    requests: list[tuple[str, str]] = field(default_factory=list)
    proposals: list[dict[str, Any]] = field(default_factory=list)


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    faults = Faults()
    store = Store()
    lock = threading.Lock()

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, endpoint: Callable[[str, dict[str, list[str]], Any], Any]) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.faults.requests.append((self.command, parts.path))
        time.sleep(self.faults.delay_s)
        try:
            body = endpoint(parts.path.rstrip("/"), parse_qs(parts.query), json.loads(raw) if raw else None)
            self._reply(200, body)
        except ErrorResponse as response:
            self._reply(response.status, response.body)
        except ConnectionAbortedError:
            self.close_connection = True

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
            names = re.findall(r"[A-Za-z]+", query.get("aspects", ["List()"])[0].removeprefix("List"))
            latest = self.store.latest(urn, set(names) or None)
            aspects = {name: {"name": name, "type": "VERSIONED", **aspect} for name, aspect in latest.items()}
            return {"urn": urn, "entityName": urn.split(":")[2], "aspects": aspects}
        if path.startswith("/aspects/"):
            urn, name = unquote(path.removeprefix("/aspects/")), query["aspect"][0]
            value = (
                normalized_key(urn) if name.endswith("Key") and self.store.latest(urn) else self.store.value(urn, name)
            )
            if value is None:
                raise ErrorResponse(404, {"message": f"no {name} of {urn}"})
            return {"version": 0, "aspect": {record_name(name): value}}
        if path == "/openapi/v1/events/poll":
            return self._events(int(query.get("offsetId", ["-1"])[0]), float(query["pollTimeoutSeconds"][0]))
        raise ErrorResponse(404, {"message": f"no {path}"})

    def _events(self, offset: int, wait_s: float) -> Any:
        """Return the events after `offset`, waiting for new ones. A negative offset returns the end of the stream."""
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
            proposals = body["proposals"] if query["action"] == ["ingestProposalBatch"] else [body["proposal"]]
            for proposal in proposals:
                self._ingest(proposal)
            return {"value": "ok"}
        if path.endswith("/batchGet"):
            lagging = self._lags()
            return [
                {"urn": request["urn"], **self.store.latest(request["urn"], set(request) - {"urn"}, lagging)}
                for request in body
            ]
        if path == "/api/graphql":
            return {"data": graphql(self.store, body["query"], body["variables"]["input"])}
        raise ErrorResponse(404, {"message": f"no {path}"})

    def _delete(self, path: str, query: dict[str, list[str]], body: Any) -> Any:
        *_, urn, aspect = path.split("/")
        self._faulty_write()
        self.store.put(unquote(urn), aspect, None)
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
                raise ErrorResponse(faults.write_status, {"message": "as told"})

    def _ingest(self, proposal: dict[str, Any]) -> None:
        self.faults.proposals.append(proposal)
        self._faulty_write()
        urn, aspect = proposal["entityUrn"], proposal["aspectName"]
        value = json.loads(proposal["aspect"]["value"])
        stamp = proposal.get("systemMetadata") or {}
        stamp = dict(json.loads(stamp) if isinstance(stamp, str) else stamp)  # the DataHub command line sends JSON text
        with self.lock:
            self._precondition(urn, aspect, proposal.get("headers") or {})
            if proposal["changeType"] == "PATCH":
                if aspect in self.faults.no_patch_template:
                    raise ErrorResponse(500, {"message": "no template for this aspect"})
                is_generic = isinstance(value, dict)
                generic: dict[tuple[str, ...], list[str]] = {}
                if is_generic:
                    generic = {(name,): fields for name, fields in value["arrayPrimaryKeys"].items()}
                keys = generic or KEYS.get(aspect, {})
                operations = value["patch"] if is_generic else value
                value = patch(self.store.value(urn, aspect) or default(aspect), operations, keys)
                stamp = {} if is_generic else stamp  # the real server drops the system metadata of generic patches
            self.store.put(urn, aspect, value, stamp)
        if self.faults.drop_after_write:
            self.faults.drop_after_write -= 1
            raise ConnectionAbortedError

    def _precondition(self, urn: str, aspect: str, headers: dict[str, str]) -> None:
        expected = headers.get("If-Version-Match")
        if expected is None or self.faults.ignore_preconditions:
            return
        actual = str(self.store.version(urn, aspect)) if self.store.value(urn, aspect) is not None else "-1"
        if expected != actual:
            raise ErrorResponse(412, {"message": f"expected version {expected}, actual {actual}"})


def normalized_key(urn: str) -> Any:
    """Return the key aspect, which DataHub derives from the URN of every entity it knows."""
    from datahub.metadata.urns import Urn

    return Urn.from_string(urn).to_key_aspect().to_obj()


def platform_event(urn: str) -> dict[str, Any]:
    change = {"entityUrn": urn, "entityType": "dataset", "category": "DEPRECATION", "operation": "MODIFY", "version": 0}
    payload = {"value": json.dumps(change), "contentType": "application/json"}
    value = {"header": {"timestampMillis": 0}, "name": "entityChangeEvent", "payload": payload}
    return {"contentType": "application/json", "value": json.dumps(value)}


def record_name(aspect: str) -> str:
    from datahub.metadata.schema_classes import ASPECT_NAME_MAP

    return str(ASPECT_NAME_MAP[aspect].RECORD_SCHEMA.fullname).replace("pegasus2avro.", "")


def graphql(store: Store, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    if "searchAcrossEntities" in query:
        words = "" if variables["query"] == "*" else variables["query"].casefold()
        hits = [urn for kind in kinds(variables) for urn in store.urns(kind) if matches(store, urn, words)]
        entities = [{"entity": {"urn": urn, "type": "X"}} for urn in hits[: variables["count"]]]
        return {"searchAcrossEntities": {"searchResults": entities}}
    if "scrollAcrossEntities" in query:
        urns = [urn for kind in kinds(variables) for urn in store.urns(f"{kind}:")]
        start = int(variables.get("scrollId") or 0)
        page = urns[start : start + variables["count"]]
        end = start + len(page)
        entries = [{"entity": {"urn": urn, "type": "X"}} for urn in page]
        following = str(end) if end < len(urns) else None
        return {"scrollAcrossEntities": {"nextScrollId": following, "searchResults": entries}}
    near = around(store, variables["urn"], variables["direction"])
    results: list[dict[str, Any]] = [
        {"degree": min(distance, 3), "entity": {"urn": urn, "type": "X"}}
        for urn, distance in near[: variables["count"]]
    ]
    return {"searchAcrossLineage": {"searchResults": results}}


def kinds(variables: dict[str, Any]) -> list[str]:
    """Return the entity types of a query, such as glossaryTerm for GLOSSARY_TERM. No types means all."""
    parts = [kind.split("_") for kind in variables["types"]]
    return [first.lower() + "".join(part.title() for part in rest) for first, *rest in parts] or [""]


def matches(store: Store, urn: str, words: str) -> bool:
    """Return whether the URN or the entity's own properties contain every word. Neighbors are not searched."""
    texts = [aspect for name, aspect in store.latest(urn).items() if name.endswith(("Properties", "Info", "Key"))]
    text = json.dumps([urn, texts]).casefold()
    return all(word in text for word in re.findall(r"\w+", words))


def around(store: Store, urn: str, direction: str) -> list[tuple[str, int]]:
    """Return all tables upstream or downstream with their distances, nearest first."""
    pairs = [
        (down, up["dataset"])
        for down, aspect in list(store.versions)
        if aspect == "upstreamLineage"
        for up in (store.value(down, aspect) or {}).get("upstreams", [])
    ]
    pairs = pairs if direction == "UPSTREAM" else [(up, down) for down, up in pairs]
    distances = {urn: 0}
    for distance in range(1, 20):
        next_level = {to for table, to in pairs if distances.get(table) == distance - 1} - set(distances)
        distances |= dict.fromkeys(next_level, distance)
    return sorted(((table, far) for table, far in distances.items() if far), key=lambda item: (item[1], item[0]))


@contextmanager
def standin() -> Iterator[tuple[str, Faults]]:
    """Start a fake DataHub with an empty store. Yields its address and its faults."""
    Handler.faults, Handler.store = Faults(), Store()
    with serving(Handler) as url:
        yield url, Handler.faults
