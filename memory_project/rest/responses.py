"""REST responses that differ from those of the MCP tools. The other responses are in memories/responses.py."""

from __future__ import annotations

from typing_extensions import TypedDict

from memories.responses import ChangeResponse, MemoryResponse, SimilarResponse, UnsettledResponse


class CorrectedResponse(TypedDict):
    memory: MemoryResponse
    similar_existing: list[SimilarResponse]
    note: str


class KeptResponse(CorrectedResponse, UnsettledResponse):
    existing: bool


class OneMemoryResponse(UnsettledResponse):
    memory: MemoryResponse
    chain: list[MemoryResponse]
    history: list[ChangeResponse]
    omitted: int


class RevisedResponse(TypedDict):
    memory: MemoryResponse
    message: str


class FacetCount(TypedDict):
    value: str
    count: int


class FacetsResponse(TypedDict):
    """`at_least` names the facets whose counts may be lower bounds."""

    facets: dict[str, list[FacetCount]]
    at_least: list[str]
