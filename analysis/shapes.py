"""How the analysis tools' answers look."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class IngestShape(TypedDict, total=False):
    analysis_id: str
    model: str
    records: int
    pages: int
    total_pages: int | None
    capped: bool
    resumed_from: int
    parents: int
    failed_parents: dict[str, str]
    error: str
    notes: list[str]


class StoreShape(TypedDict):
    analysis_id: str
    stored: int
    ids: list[str]
    persistent: bool
    note: str


class QueryShape(TypedDict, total=False):
    mode: str
    model: str
    rows: list[dict[str, Any]]
    total: int
    cursor: str
    seed: int
    group_by: list[str]
    groups: list[dict[str, Any]]
    other_groups: int
    other_count: int
    findings: list[dict[str, Any]]
    fields: list[dict[str, Any]]
    models: dict[str, int]
    ranking: str
    degraded: bool
    uncastable: dict[str, int]
    omitted: int
    note: str


class ActShape(TypedDict, total=False):
    action_id: str
    state: str
    summary: dict[str, Any]
    sample_errors: list[dict[str, Any]]
    matched_count: int
    sample_ids: list[str]
    sample_data: list[dict[str, Any]]
    ingestedAtRange: dict[str, str]
    confirm: str
    interrupted: list[str]
    uncastable: dict[str, int]
    note: str


class ClearShape(TypedDict):
    analysis_id: str
    records: int
    findings: int


class ExportShape(TypedDict):
    url: str
    format: str
    total: int
    valid_minutes: int
