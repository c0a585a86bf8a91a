"""Types of the structured content that the analysis and query tools return."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict


class IngestResponse(TypedDict):
    analysis_id: str
    model: str
    records: int
    repeated: int
    skipped: int
    complete: bool
    pages: int
    total_pages: int | None
    capped: bool
    resumed_from: int
    error: str
    notes: list[str]


class NestedResponse(TypedDict):
    analysis_id: str
    model: str
    records: int
    repeated: int
    skipped: int
    complete: bool
    parents: int
    failed_parents: dict[str, str]
    notes: list[str]


class StoreResponse(TypedDict):
    analysis_id: str
    stored: int
    ids: list[str]
    persistent: bool
    note: str


class FieldResponse(TypedDict):
    name: str
    types: dict[str, int]
    declared_type: str
    missing: int
    distinct: int
    examples: list[str]
    allowed: list[str]
    description: str


class DescribeResponse(TypedDict):
    mode: str
    models: dict[str, int]
    fields: list[FieldResponse]
    model: NotRequired[str]
    total: NotRequired[int]
    omitted: NotRequired[int]


class SemanticResponse(TypedDict):
    mode: str
    findings: list[dict[str, Any]]
    total: int
    ranking: str
    degraded: NotRequired[bool]
    note: NotRequired[str]
    omitted: NotRequired[int]


class GroupResponse(TypedDict):
    values: list[str | None]
    count: int
    metrics: dict[str, Any]


class AggregateResponse(TypedDict):
    mode: str
    model: str
    group_by: list[str]
    groups: list[GroupResponse]
    total: int
    other_groups: int
    other_count: int
    uncastable: dict[str, int]


class RowsResponse(TypedDict):
    mode: str
    model: str
    rows: list[dict[str, Any]]
    uncastable: dict[str, int]
    total: NotRequired[int]
    cursor: NotRequired[str]
    seed: NotRequired[int]
    omitted: NotRequired[int]


class SummaryResponse(TypedDict):
    total: int
    succeeded: int
    failed: int
    action: str
    drifted: NotRequired[int]
    unknown: NotRequired[int]


class ActResponse(TypedDict):
    action_id: str
    state: str
    summary: SummaryResponse
    sample_errors: list[dict[str, Any]]
    note: NotRequired[str]


class PreviewResponse(TypedDict):
    matched_count: int
    sample_ids: list[str]
    sample_data: list[dict[str, Any]]
    confirm: str
    ingestedAtRange: NotRequired[dict[str, str]]
    interrupted: NotRequired[list[str]]
    uncastable: NotRequired[dict[str, int]]
    note: NotRequired[str]


class ClearResponse(TypedDict):
    analysis_id: str
    records: int
    findings: int


class ExportResponse(TypedDict):
    url: str
    format: str
    total: int
    valid_minutes: int


class SqlResponse(TypedDict):
    columns: list[str]
    rows: list[list[Any]]
    row_count: int
    source: str
    dialect: str
    took_ms: float
    note: NotRequired[str]


class ListedObjectResponse(TypedDict):
    key: str
    size: int
    modified: NotRequired[str]


class ObjectListResponse(TypedDict):
    store: str
    location: str
    folders: list[str]
    objects: list[ListedObjectResponse]
    cursor: NotRequired[str]
    note: NotRequired[str]


class ObjectInfoResponse(TypedDict):
    store: str
    key: str
    location: str
    size: int
    modified: NotRequired[str]
    content_type: NotRequired[str]
    content_encoding: NotRequired[str]
    etag: NotRequired[str]
    storage_class: NotRequired[str]


class ObjectColumnResponse(TypedDict):
    name: str
    type: str


class ObjectReadResponse(TypedDict):
    store: str
    key: str
    location: str
    size: int
    format: str
    text: NotRequired[str]
    columns: NotRequired[list[ObjectColumnResponse]]
    rows: NotRequired[list[list[Any]]]
    other_columns: NotRequired[list[ObjectColumnResponse]]
    total_rows: NotRequired[int]
    note: NotRequired[str]
