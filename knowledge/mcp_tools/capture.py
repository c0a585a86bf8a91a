"""capture_insight: what an agent proposes."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from knowledge import decisions, evidence, insights, review
from knowledge.operations import Appeal, Capture
from memories.access import Caller
from memories.contract.toolset import Tool
from memories.shapes import SimilarShape, similar_shape


class AppealShape(TypedDict):
    insight_id: str
    status: str
    message: str


class CaptureShape(AppealShape):
    existing: bool
    evidence: dict[str, Any]
    problems: NotRequired[list[str]]
    similar_existing: NotRequired[list[SimilarShape]]
    note: NotRequired[str]


def _appeal(caller: Caller, ask: Appeal) -> AppealShape:
    insight = decisions.appeal(ask, caller=caller)
    return {"insight_id": insight.pk.hex, "status": insight.state, "message": "appealed; a curator will look again"}


def _capture(caller: Caller, ask: Capture) -> CaptureShape:
    captured = insights.capture(ask, caller=caller)
    insight = captured.insight
    shape: CaptureShape = {
        "insight_id": insight.pk.hex,
        "status": insight.state,
        "message": "this is already captured" if captured.existing else "captured; a curator will review it",
        "existing": captured.existing,
        "evidence": evidence.beside(insight),
    }
    if problems := review.problems_of(insight):
        shape["problems"] = problems
    if captured.similar:
        shape["similar_existing"] = [similar_shape(similar) for similar in captured.similar]
    if captured.note:
        shape["note"] = captured.note
    return shape


capture_insight = Tool(
    name="capture_insight",
    toolset="knowledge",
    title="Capture an insight",
    description="Propose something you learned for the data catalog: a curator reviews it before anybody else sees it."
    "\n\nFor facts about data that colleagues need and the data does not say by itself. Not for what is private, not "
    "for what the catalog says already. The answer shows what the catalog says now; look at disagreements.",
    choices={"": _capture, "appeals": _appeal},
)
