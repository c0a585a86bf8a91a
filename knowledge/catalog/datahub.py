"""A DataHub server as the catalog, accessed with the client DataHubGraph of the SDK acryl-datahub.

Aspects and patches are sent on the SDK's RESTLI transport. Patches are sent in plain form, because the server drops run
ids and preconditions from patches in the SDK's generic form. Aspects without a dependable patch template are read,
changed and written back on condition that their version is still the same. Some servers accept a write although the
version has changed, so the aspect is then read again and checked. All this was observed with DataHub 1.4 to 1.7.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.utils import timezone

from foundation.database import connections
from knowledge.catalog import entity_view
from knowledge.catalog.interface import (
    Aspect,
    CatalogRefused,
    CatalogUnavailable,
    EntitySummary,
    LineageNode,
    Value,
    Write,
    WriteRun,
    entity_type,
)
from knowledge.catalog.json_patch import ABSENT, NESTED, equal, patched, pointer, value_at

PATCHABLE = frozenset(
    {
        "globalTags",
        "glossaryTerms",
        "ownership",
        "structuredProperties",
        "editableSchemaMetadata",
        "editableDatasetProperties",
    }
)
JSON_PATCH = "application/json-patch+json"
EVENTS_TOPIC = "PlatformEvent_v1"
MAX_EVENTS = 500  # maximum number of events per poll
ATTEMPTS = 8  # maximum number of attempts at a conditional write, which fails if others change the aspect
BATCH_SIZE = 100  # maximum number of entities per bulk read

SEARCH = """
query catalogSearch($input: SearchAcrossEntitiesInput!) {
  searchAcrossEntities(input: $input) { searchResults { entity { urn type } } }
}"""
SCROLL = """
query catalogScroll($input: ScrollAcrossEntitiesInput!) {
  scrollAcrossEntities(input: $input) { nextScrollId searchResults { entity { urn type } } }
}"""
LINEAGE = """
query catalogLineage($input: SearchAcrossLineageInput!) {
  searchAcrossLineage(input: $input) { searchResults { degree entity { urn type } } }
}"""


class DataHubCatalog:
    name = "datahub"

    def __init__(self, server: str, token: str, timeout_s: float) -> None:
        # The SDK reads this variable when it is imported. By default, it sends usage statistics to its vendor.
        os.environ.setdefault("DATAHUB_TELEMETRY_ENABLED", "false")
        self._server = server.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._connected: Any = None

    @classmethod
    @lru_cache(maxsize=1)
    def configured(cls) -> DataHubCatalog:
        return cls(settings.DATAHUB_GMS_URL, settings.DATAHUB_GMS_TOKEN, settings.DATAHUB_TIMEOUT_S)

    # -- reading -----------------------------------------------------------------------------------------

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        found = {urn: {aspect: Aspect() for aspect in aspects} for urn in urns}
        by_type: dict[str, list[str]] = {}
        for urn in dict.fromkeys(urns):
            by_type.setdefault(entity_type(urn), []).append(urn)
        for kind, group in by_type.items():
            for start in range(0, len(group), BATCH_SIZE):
                for entity in self._batch(kind, group[start : start + BATCH_SIZE], aspects):
                    for aspect in aspects:
                        if isinstance(envelope := entity.get(aspect), dict):
                            found[str(entity["urn"])][aspect] = _aspect(envelope)
        return found

    def _batch(self, kind: str, urns: Sequence[str], aspects: Sequence[str]) -> list[dict[str, Any]]:
        address = f"{self._server}/openapi/v3/entity/{quote(kind, safe='')}/batchGet?systemMetadata=true"
        body = [{"urn": urn, **{aspect: {} for aspect in aspects}} for urn in urns]
        entities = self._request(lambda graph: graph._session.post(address, data=json.dumps(body)))
        return [entity for entity in entities if isinstance(entity, dict) and entity.get("urn") in urns]

    def existing(self, urns: Sequence[str]) -> set[str]:
        # A key aspect is no evidence, because soft-deleted entities have one, too. So look for any other aspect.
        read = self.read(urns, entity_view.ASPECTS)
        entities = set()
        for urn, aspects in read.items():
            removed = (aspects["status"].value or {}).get("removed")
            if not removed and any(aspect.value is not None for aspect in aspects.values()):
                entities.add(urn)
        return entities

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        kinds = [_graphql_type(kind) for kind in types]
        variables = {"input": {"query": query or "*", "types": kinds, "start": 0, "count": limit}}
        results = self._graphql(SEARCH, variables)["searchAcrossEntities"]["searchResults"]
        urns = [str(result["entity"]["urn"]) for result in results]
        read = self.read(urns, entity_view.ASPECTS)
        return [_summary(urn, read[urn]) for urn in urns]

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        arguments = {"urn": urn, "direction": direction.upper(), "query": "*", "start": 0, "count": limit}
        results = self._graphql(LINEAGE, {"input": arguments})["searchAcrossLineage"]["searchResults"]
        # The server only distinguishes 1, 2 and "3+" hops, so nodes beyond `hops` are removed here.
        nodes = [LineageNode(str(r["entity"]["urn"]), direction, int(r.get("degree") or 1)) for r in results]
        return sorted((node for node in nodes if node.distance <= hops), key=lambda node: (node.distance, node.urn))

    def all_urns(self, kind: str, at_once: int) -> Iterator[list[str]]:
        scroll = None
        while True:
            arguments = {"query": "*", "types": [_graphql_type(kind)], "count": at_once, "scrollId": scroll}
            page = self._graphql(SCROLL, {"input": arguments})["scrollAcrossEntities"]
            if urns := [str(result["entity"]["urn"]) for result in page["searchResults"]]:
                yield urns
            scroll = page.get("nextScrollId")
            if not scroll or not urns:
                return

    def poll_events(self, offset: str, wait_s: int) -> tuple[list[str], str]:
        """Wait up to `wait_s` seconds for events. Return the URNs of the changed entities, and the next offset.

        If `offset` is empty, the server returns the offset of the current end of its stream.
        """
        params: dict[str, Any] = {"topic": EVENTS_TOPIC, "pollTimeoutSeconds": wait_s, "limit": MAX_EVENTS}
        if offset:
            params["offsetId"] = offset
        address = f"{self._server}/openapi/v1/events/poll"
        timeout_s = wait_s + self._timeout_s
        response = self._request(lambda graph: graph._session.get(address, params=params, timeout=timeout_s))
        urns = [urn for event in response.get("events") or [] if (urn := _changed_entity(event))]
        return list(dict.fromkeys(urns)), str(response.get("offsetId") or offset)

    # -- writing -----------------------------------------------------------------------------------------

    def write(self, write: Write, run: WriteRun) -> None:
        if write.path and write.aspect in PATCHABLE and not set(NESTED) & set(write.path):
            try:
                operation = {"op": write.operation, "path": pointer(write.path), "value": write.value}
                return self._emit(write, "PATCH", [operation], JSON_PATCH, run)
            except CatalogRefused:
                # Servers respond with 500 to a patch of an aspect without a patch template, and to removing an absent
                # element. A conditional write handles both cases.
                pass
        self._write_conditionally(write, run)

    def _write_conditionally(self, write: Write, run: WriteRun) -> None:
        for _ in range(ATTEMPTS):
            current = self.read([write.urn], [write.aspect])[write.urn][write.aspect]
            after = patched(write.aspect, current.value, write.path, write.operation, write.value)
            if equal(current.value, after):
                return
            if after is None:
                return self._delete(write)
            condition = {"If-Version-Match": str(current.version) if current.value is not None else "-1"}
            try:
                self._emit(write, "UPSERT", after, "application/json", run, condition)
            except _PreconditionFailed:
                continue
            now = self.read([write.urn], [write.aspect])[write.urn][write.aspect].value
            expected = value_at(write.aspect, after, write.path)
            actual = value_at(write.aspect, now, write.path)
            if (expected is ABSENT) == (actual is ABSENT) and (expected is ABSENT or equal(expected, actual)):
                return
        raise CatalogRefused(f"{write.aspect} of {write.urn} keeps being changed by others: try again")

    def _emit(
        self,
        write: Write,
        kind: str,
        body: Any,
        content_type: str,
        run: WriteRun,
        headers: dict[str, str] | None = None,
    ) -> None:
        from datahub.metadata.schema_classes import (  # noqa: PLC0415 - takes a second, only needed to write
            GenericAspectClass,
            MetadataChangeProposalClass,
            SystemMetadataClass,
        )

        now = int(timezone.now().timestamp() * 1000)
        stamp = SystemMetadataClass(runId=run.id, lastObserved=now, properties={"curator": run.actor, **run.properties})
        proposal = MetadataChangeProposalClass(
            entityType=entity_type(write.urn),
            entityUrn=write.urn,
            changeType=kind,
            aspectName=write.aspect,
            aspect=GenericAspectClass(value=json.dumps(body).encode(), contentType=content_type),
            systemMetadata=stamp,
            headers=headers,
        )
        self._call(lambda graph: graph.emit_mcp(proposal, async_flag=False))

    def _delete(self, write: Write) -> None:
        # No DELETE proposal is sent: on the OpenAPI transport, it deletes the whole entity instead of one aspect.
        kind = entity_type(write.urn)
        urn = quote(write.urn, safe="")
        address = f"{self._server}/openapi/v3/entity/{kind}/{urn}/{quote(write.aspect, safe='')}"
        self._request(lambda graph: graph._session.delete(address), empty=True)

    # -- transport ---------------------------------------------------------------------------------------

    @property
    def _graph(self) -> Any:
        if self._connected is None:
            from datahub.ingestion.graph.client import DataHubGraph  # noqa: PLC0415 - the SDK takes a second to import
            from datahub.ingestion.graph.config import DatahubClientConfig  # noqa: PLC0415 - the same

            self._connected = DataHubGraph(
                DatahubClientConfig(
                    server=self._server,
                    token=self._token or None,
                    timeout_sec=self._timeout_s,
                    retry_max_times=1,  # with the default, calls to an unreachable server take half a minute
                    openapi_ingestion=False,
                )
            )
        return self._connected

    def _call(self, action: Callable[[Any], Any]) -> Any:
        """Run the action with the SDK client. Convert its errors to CatalogUnavailable or CatalogRefused."""
        try:
            import requests  # noqa: PLC0415 - installed with the SDK only
        except ImportError:
            raise CatalogUnavailable("the DataHub SDK is not installed: pip install 'commonplace[datahub]'") from None
        from datahub.configuration.common import ConfigurationError, OperationalError  # noqa: PLC0415 - the same

        connections.close_if_pooled()  # don't hold a database connection while waiting for the network
        try:
            return action(self._graph)
        except OperationalError as error:
            raise _catalog_error(getattr(error.__cause__, "response", None), error) from error
        except requests.HTTPError as error:
            raise _catalog_error(error.response, error) from error
        except (requests.RequestException, ConfigurationError) as error:
            raise CatalogUnavailable(f"request to DataHub at {self._server} failed: {type(error).__name__}") from error

    def _request(self, send: Callable[[Any], Any], *, empty: bool = False) -> Any:
        def read_response(graph: Any) -> Any:
            response = send(graph)
            response.raise_for_status()
            return None if empty else response.json()

        return self._call(read_response)

    def _graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        address = f"{self._server}/api/graphql"
        body = json.dumps({"query": query, "variables": variables})
        response = self._request(lambda graph: graph._session.post(address, data=body))
        if response.get("errors"):
            raise CatalogRefused(f"DataHub refused a query: {str(response['errors'][0].get('message'))[:200]}")
        return dict(response["data"])


class _PreconditionFailed(CatalogRefused):
    """Another writer has changed the aspect since it was read (HTTP 412)."""


def _catalog_error(response: Any, error: Exception) -> Exception:
    status = getattr(response, "status_code", None)
    if status is None:
        return CatalogUnavailable(f"request to DataHub failed: {type(error).__name__}")
    message = f"DataHub responded with {status}: {_message(response)}"
    if status == 412:
        return _PreconditionFailed(message)
    if status == 429 or status in (502, 503, 504):
        return CatalogUnavailable(message)
    return CatalogRefused(message)


def _message(response: Any) -> str:
    try:
        return str(response.json().get("message", ""))[:200]
    except (ValueError, AttributeError):
        return ""


def _changed_entity(event: dict[str, Any]) -> str:
    try:
        # The event's value is usually a JSON string, and so is the value of the payload in it.
        value = event.get("value")
        outer = json.loads(value) if isinstance(value, str) else value or {}
        payload = outer.get("payload") or {}
        inner = payload.get("value", payload)
        change = json.loads(inner) if isinstance(inner, str) else inner
        return str(change.get("entityUrn") or "")
    except (ValueError, AttributeError):
        return ""


def _aspect(envelope: dict[str, Any]) -> Aspect:
    value: Value | None = envelope.get("value")
    version = (envelope.get("systemMetadata") or {}).get("version") or 1
    return Aspect(value, int(version))


def _summary(urn: str, aspects: dict[str, Aspect]) -> EntitySummary:
    entity = entity_view.parse_entity(
        urn, {name: aspect.value for name, aspect in aspects.items() if aspect.value is not None}
    )
    return EntitySummary(
        urn=urn,
        entity_type=entity_type(urn),
        name=entity.qualified_name,
        description=entity.description,
        platform=entity.platform,
        deprecated=entity.deprecated,
    )


def _graphql_type(kind: str) -> str:
    """Return GraphQL's name for an entity type: GLOSSARY_TERM for `glossaryTerm`."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in kind)
