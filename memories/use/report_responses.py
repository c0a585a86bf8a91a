"""Responses about reports (reports.py), the same for MCP and REST."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from foundation.operations.responses import response_of
from memories.models import MemoryRecord
from memories.use.citations.responses import RegisteredResponse, registered_response
from memories.use.reports import Reported, Reports


class ReportedResponse(TypedDict):
    """`reported` counts the new reports by verdict. `repeated` counts those that were made before on this day."""

    reported: dict[str, int]
    repeated: int
    withdrawn: int
    cited: NotRequired[RegisteredResponse]


class ReportResponse(TypedDict):
    verdict: str
    by: str
    at: str
    note: str
    is_settled: bool


class ReportsResponse(TypedDict):
    """The reports about a memory. `used` and `used_by` count reports of the last 30 days, and the people.

    `doubts` has the newest reports as wrong or outdated. `is_settled` is true if the memory was verified, or its text
    changed, since. If `sees_all` is false, only your own reports are counted.
    """

    id: str
    sees_all: bool
    used: int
    used_by: int
    wrong: int
    outdated: int
    doubts: list[ReportResponse]


def reported_response(reported: Reported) -> ReportedResponse:
    response: ReportedResponse = {
        "reported": dict(reported.added),
        "repeated": reported.repeated,
        "withdrawn": reported.withdrawn,
    }
    if reported.cited:
        response["cited"] = registered_response(reported.cited)
    return response


def reports_response(record: MemoryRecord, reports: Reports) -> ReportsResponse:
    doubts = [response_of(ReportResponse, report) for report in reports.doubts]
    return response_of(ReportsResponse, reports, id=record.pk, doubts=doubts)
