"""A stand-in for DataHub's GMS: an aspect store of its own, behind the endpoints that the SDK, its command line and our
adapter use. Every aspect is validated with the SDK's own classes, as the server would.

It can be told to be slow, to answer an error, to drop the connection (before or after it has written), or to
accept stale preconditions as some servers do.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

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


# How the server's patch templates address lists: by these fields of their elements.
KEYS: dict[str, dict[tuple[str, ...], list[str]]] = {
    "globalTags": {("tags",): ["tag"]},
    "glossaryTerms": {("terms",): ["urn"]},
    "ownership": {("owners",): ["owner", "type"]},
    "structuredProperties": {("properties",): ["propertyUrn"]},
    "upstreamLineage": {("upstreams",): ["dataset"]},
    "editableSchemaMetadata": {
        ("editableSchemaFieldInfo",): ["fieldPath"],
        ("editableSchemaFieldInfo", "globalTags", "tags"): ["tag"],
    },
}


class Store:
    """Versions of each aspect, newest last; None is a removed one."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, str], list[tuple[Any, dict[str, Any]]]] = {}

    def put(self, urn: str, aspect: str, value: Any, system_metadata: dict[str, Any] | None = None) -> None:
        if value is not None:
            validate(aspect, value)
        if self.value(urn, aspect) != value:
            self.versions.setdefault((urn, aspect), []).append((copy.deepcopy(value), system_metadata or {}))

    def value(self, urn: str, aspect: str) -> Any:
        kept = self.versions.get((urn, aspect))
        return copy.deepcopy(kept[-1][0]) if kept else None

    def version(self, urn: str, aspect: str) -> int:
        return len(self.versions.get((urn, aspect), []))

    def urns(self, kind: str = "") -> list[str]:
        return sorted({urn for urn, _ in self.versions if urn.startswith(f"urn:li:{kind}")})

    def latest(self, urn: str, aspects: set[str] | None = None, lagging: bool = False) -> dict[str, Any]:
        """Each aspect as the server sends it; lagging, as it was before the newest write of a changeset."""
        shown = {}
        for (one, aspect), kept in self.versions.items():
            if one != urn or (aspects is not None and aspect not in aspects):
                continue
            rows = list(enumerate(kept, 1))
            if lagging:
                rows = [row for row in rows if not str(row[1][1].get("runId", "")).startswith("cs-")]
            if rows and rows[-1][1][0] is not None:
                version, (value, stamp) = rows[-1]
                shown[aspect] = {"value": value, "systemMetadata": {**stamp, "version": str(version)}}
        return shown


def validate(aspect: str, value: Any) -> None:
    """As the server's models would: unknown aspects and fields, missing fields and wrong types are refused."""
    from datahub.metadata.schema_classes import ASPECT_NAME_MAP

    cls = ASPECT_NAME_MAP.get(aspect)
    if cls is None:
        raise Answer(400, {"message": f"unknown aspect {aspect}"})
    try:
        parsed = cls.from_obj(copy.deepcopy(value))
        if not parsed.validate():
            raise ValueError("does not validate")
        lost = {key for key, item in value.items() if item is not None} - set(parsed.to_obj())
        if lost:
            raise ValueError(f"unknown fields {sorted(lost)}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Answer(422, {"message": f"{aspect} is invalid: {error}"}) from None


def patch(value: Any, operations: list[dict[str, Any]], keys: dict[tuple[str, ...], list[str]]) -> Any:
    """RFC 6902's add and remove on the aspect with its keyed lists as maps."""
    tree = as_maps(value or {}, keys, ())
    for operation in operations:
        *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        here = tree
        for step in steps:
            here = here.setdefault(step, {})
        if operation["op"] == "remove":
            if last not in here:
                raise Answer(500, {"message": f"nothing to remove at {operation['path']}"})
            del here[last]
        else:
            here[last] = as_maps(operation["value"], keys, tuple(steps))
    return as_lists(tree, keys, ())


def as_maps(value: Any, keys: dict[tuple[str, ...], list[str]], path: tuple[str, ...]) -> Any:
    if isinstance(value, list) and path in keys:
        tree: dict[str, Any] = {}
        for element in value:
            here = tree
            *outer, last = [str(element.get(name, "")) for name in keys[path]]
            for step in outer:
                here = here.setdefault(step, {})
            here[last] = as_maps(element, keys, path)
        return tree
    if isinstance(value, dict):
        return {name: as_maps(inner, keys, (*path, name)) for name, inner in value.items()}
    return value


def as_lists(value: Any, keys: dict[tuple[str, ...], list[str]], path: tuple[str, ...]) -> Any:
    if path in keys and isinstance(value, dict):
        names, below = keys[path], {place: fields for place, fields in keys.items() if place != path}
        return [
            {**dict(zip(names, key, strict=True)), **as_lists(element, below, path)}
            for key, element in leaves(value, len(names))
        ]
    if isinstance(value, dict):
        return {name: as_lists(inner, keys, (*path, name)) for name, inner in value.items()}
    return value


def leaves(tree: dict[str, Any], depth: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in tree.items():
        if depth == 1:
            yield (name,), inner
        else:
            yield from (((name, *rest), element) for rest, element in leaves(inner, depth - 1))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults = Faults()
    store = Store()
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
            body = act(parts.path.rstrip("/"), parse_qs(parts.query), json.loads(raw) if raw else None)
            self._reply(200, body)
        except Answer as answer:
            self._reply(answer.status, answer.body)
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
            named = re.findall(r"[A-Za-z]+", query.get("aspects", ["List()"])[0].removeprefix("List"))
            shown = self.store.latest(urn, set(named) or None)
            aspects = {name: {"name": name, "type": "VERSIONED", **aspect} for name, aspect in shown.items()}
            return {"urn": urn, "entityName": urn.split(":")[2], "aspects": aspects}
        if path.startswith("/aspects/"):
            urn, name = unquote(path.removeprefix("/aspects/")), query["aspect"][0]
            value = key_of(urn) if name.endswith("Key") and self.store.latest(urn) else self.store.value(urn, name)
            if value is None:
                raise Answer(404, {"message": f"no {name} of {urn}"})
            return {"version": 0, "aspect": {record_name(name): value}}
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
            return [{"urn": one["urn"], **self.store.latest(one["urn"], set(one) - {"urn"}, lagging)} for one in body]
        if path == "/api/graphql":
            return {"data": graphql(self.store, body["query"], body["variables"]["input"])}
        raise Answer(404, {"message": f"no {path}"})

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
                raise Answer(faults.write_status, {"message": "as told"})

    def _ingest(self, proposal: dict[str, Any]) -> None:
        self.faults.proposals.append(proposal)
        self._faulty_write()
        urn, aspect = proposal["entityUrn"], proposal["aspectName"]
        given = json.loads(proposal["aspect"]["value"])
        stamp = proposal.get("systemMetadata") or {}
        stamp = dict(json.loads(stamp) if isinstance(stamp, str) else stamp)  # the command line sends a text
        with self.lock:
            self._precondition(urn, aspect, proposal.get("headers") or {})
            if proposal["changeType"] == "PATCH":
                if aspect in self.faults.no_patch_template:
                    raise Answer(500, {"message": "no template for this aspect"})
                is_generic = isinstance(given, dict)
                generic: dict[tuple[str, ...], list[str]] = {}
                if is_generic:
                    generic = {(name,): fields for name, fields in given["arrayPrimaryKeys"].items()}
                keys = generic or KEYS.get(aspect, {})
                operations = given["patch"] if is_generic else given
                given = patch(self.store.value(urn, aspect) or default(aspect), operations, keys)
                stamp = {} if is_generic else stamp  # the server loses it on this way
            self.store.put(urn, aspect, given, stamp)
        if self.faults.drop_after_write:
            self.faults.drop_after_write -= 1
            raise ConnectionAbortedError

    def _precondition(self, urn: str, aspect: str, headers: dict[str, str]) -> None:
        wanted = headers.get("If-Version-Match")
        if wanted is None or self.faults.ignore_preconditions:
            return
        actual = str(self.store.version(urn, aspect)) if self.store.value(urn, aspect) is not None else "-1"
        if wanted != actual:
            raise Answer(412, {"message": f"expected version {wanted}, actual {actual}"})


def key_of(urn: str) -> Any:
    """The key aspect, which a server makes of the URN of whatever it knows."""
    from datahub.metadata.urns import Urn

    return Urn.from_string(urn).to_key_aspect().to_obj()  # type: ignore[attr-defined]  # the kinds of entities have it


def platform_event(urn: str) -> dict[str, Any]:
    change = {"entityUrn": urn, "entityType": "dataset", "category": "DEPRECATION", "operation": "MODIFY", "version": 0}
    payload = {"value": json.dumps(change), "contentType": "application/json"}
    value = {"header": {"timestampMillis": 0}, "name": "entityChangeEvent", "payload": payload}
    return {"contentType": "application/json", "value": json.dumps(value)}


def default(aspect: str) -> dict[str, Any]:
    """What an absent aspect begins as under a patch template."""
    stamp = {"time": 0, "actor": "urn:li:corpuser:unknown"}
    begun: dict[str, dict[str, Any]] = {
        "glossaryTerms": {"terms": [], "auditStamp": stamp},
        "ownership": {"owners": [], "lastModified": stamp},
    }
    return begun.get(aspect, {})


def record_name(aspect: str) -> str:
    from datahub.metadata.schema_classes import ASPECT_NAME_MAP

    return str(ASPECT_NAME_MAP[aspect].RECORD_SCHEMA.fullname).replace("pegasus2avro.", "")


def graphql(store: Store, query: str, given: dict[str, Any]) -> dict[str, Any]:
    if "searchAcrossEntities" in query:
        words = "" if given["query"] == "*" else given["query"].casefold()
        found = [urn for kind in kinds(given) for urn in store.urns(kind) if matches(store, urn, words)]
        entities = [{"entity": {"urn": urn, "type": "X"}} for urn in found[: given["count"]]]
        return {"searchAcrossEntities": {"searchResults": entities}}
    if "scrollAcrossEntities" in query:
        urns = [urn for kind in kinds(given) for urn in store.urns(f"{kind}:")]
        start = int(given.get("scrollId") or 0)
        page = urns[start : start + given["count"]]
        end = start + len(page)
        listed = [{"entity": {"urn": urn, "type": "X"}} for urn in page]
        following = str(end) if end < len(urns) else None
        return {"scrollAcrossEntities": {"nextScrollId": following, "searchResults": listed}}
    near = around(store, given["urn"], given["direction"])
    results: list[dict[str, Any]] = [
        {"degree": min(distance, 3), "entity": {"urn": urn, "type": "X"}} for urn, distance in near[: given["count"]]
    ]
    return {"searchAcrossLineage": {"searchResults": results}}


def kinds(given: dict[str, Any]) -> list[str]:
    """GLOSSARY_TERM as glossaryTerm; without any, all."""
    parts = [kind.split("_") for kind in given["types"]]
    return [first.lower() + "".join(part.title() for part in rest) for first, *rest in parts] or [""]


def matches(store: Store, urn: str, words: str) -> bool:
    """In the urn, or in what its properties say; never in its neighbours."""
    said = [aspect for name, aspect in store.latest(urn).items() if name.endswith(("Properties", "Info", "Key"))]
    text = json.dumps([urn, said]).casefold()
    return all(word in text for word in re.findall(r"\w+", words))


def around(store: Store, urn: str, direction: str) -> list[tuple[str, int]]:
    """Every table upstream or downstream, nearest first."""
    pairs = [
        (down, up["dataset"])
        for down, aspect in list(store.versions)
        if aspect == "upstreamLineage"
        for up in (store.value(down, aspect) or {}).get("upstreams", [])
    ]
    pairs = pairs if direction == "UPSTREAM" else [(up, down) for down, up in pairs]
    distances = {urn: 0}
    for distance in range(1, 20):
        edge = {to for one, to in pairs if distances.get(one) == distance - 1} - set(distances)
        distances |= dict.fromkeys(edge, distance)
    return sorted(((one, far) for one, far in distances.items() if far), key=lambda item: (item[1], item[0]))


@contextmanager
def standin() -> Iterator[tuple[str, Faults]]:
    """A running stand-in with an empty store: its address and its faults."""
    Handler.faults, Handler.store = Faults(), Store()
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
