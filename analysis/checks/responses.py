"""Responses about checks. The statement, expected values and returned values are for readers of the source."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from analysis.checks.queries import CheckView


class RunResponse(TypedDict):
    at: str
    state: str
    result: str
    returned: NotRequired[str]


class CheckResponse(TypedDict):
    id: str
    source: str
    expects: str
    state: str
    checked_at: str | None
    author: str
    results: list[RunResponse]
    sql: NotRequired[str]
    value: NotRequired[Any]
    low: NotRequired[Any]
    high: NotRequired[Any]


class ChecksResponse(TypedDict):
    checks: list[CheckResponse]


class RemovedResponse(TypedDict):
    id: str
    message: str


def check_response(view: CheckView) -> CheckResponse:
    check = view.check
    response: CheckResponse = {
        "id": check.pk.hex,
        "source": check.source,
        "expects": check.expects,
        "state": check.state,
        "checked_at": check.checked_at.isoformat() if check.checked_at else None,
        "author": check.author,
        "results": [_run_response(run) for run in view.runs],
    }
    if view.is_open:
        response["sql"] = check.sql
        values = {name: getattr(check, name) for name in ("value", "low", "high")}
        response.update({name: value for name, value in values.items() if value is not None})  # type: ignore[typeddict-item]
    return response


def _run_response(run: dict[str, Any]) -> RunResponse:
    response: RunResponse = {"at": run["at"].isoformat(), "state": run["state"], "result": str(run["text"])}
    if run["detail"]:
        response["returned"] = run["detail"]
    return response
