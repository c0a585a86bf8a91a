"""capture_insight: what an agent proposes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from knowledge import decisions, evidence, insights, review
from knowledge.changes.change_types import CHANGE_TYPES
from memories.access import Caller
from memories.contract.toolset import tool
from memories.models import Confidence, Visibility
from memories.shapes import SimilarShape, similar_shape


class CaptureShape(TypedDict, total=False):
    insight_id: str
    status: str
    message: str
    existing: bool
    similar_existing: list[SimilarShape]
    evidence: dict[str, Any]
    problems: list[str]
    note: str


@tool(toolset="knowledge", title="Capture an insight")
def capture_insight(
    caller: Caller,
    category: Annotated[str, Field(description="One of: " + ", ".join(insights.CATEGORIES))] = "",
    insight_text: Annotated[
        str, Field(description="10 to 4000 characters.", json_schema_extra={"minLength": 10, "maxLength": 4000})
    ] = "",
    confidence: Annotated[str, Field(description="One of: " + ", ".join(Confidence.values))] = "medium",
    source: Annotated[str, Field(description="One of: " + ", ".join(insights.SOURCES))] = "user",
    entity_urns: Annotated[
        list[str] | None, Field(description="At most 10.", json_schema_extra={"maxItems": 10})
    ] = None,
    related_columns: Annotated[
        list[dict[str, Any]] | None,
        Field(description="At most 20 of {urn, column, relevance}.", json_schema_extra={"maxItems": 20}),
    ] = None,
    suggested_actions: Annotated[
        list[dict[str, Any]] | None,
        Field(
            description="At most 5 of {action_type, target, detail}; action_type one of: " + ", ".join(CHANGE_TYPES),
            json_schema_extra={"maxItems": 5},
        ),
    ] = None,
    supersedes: Annotated[str, Field(description="Id of the memory that this corrects, once applied.")] = "",
    finding_id: Annotated[str, Field(description="A finding of analysis_store that this is; its text is taken.")] = "",
    appeals: Annotated[str, Field(description="A rejected insight of yours; insight_text says why.")] = "",
    visibility: Annotated[str, Field(description="Once approved. One of: " + ", ".join(Visibility.values))] = "persona",
) -> CaptureShape:
    """Propose something you learned for the data catalog: a curator reviews it before anybody else sees it.

    For facts about data that colleagues need and the data does not say by itself. Not for what is private, not
    for what the catalog says already. The answer shows what the catalog says now; look at disagreements.
    """
    if appeals:
        appealed = decisions.appeal(caller=caller, insight_id=appeals, notes=insight_text)
        return {"insight_id": appealed.pk.hex, "status": appealed.state, "message": "appealed; a curator looks again"}
    return _answer(
        insights.capture(
            caller=caller,
            insight_text=insight_text,
            category=category,
            confidence=confidence,
            source=source,
            entity_urns=entity_urns or [],
            related_columns=related_columns or [],
            suggested_actions=suggested_actions or [],
            supersedes=supersedes,
            visibility=visibility,
            finding_id=finding_id,
        )
    )


def _answer(captured: insights.Captured) -> CaptureShape:
    insight = captured.insight
    message = "this is captured already" if captured.existing else "captured; a curator will review it"
    shape: CaptureShape = {
        "insight_id": insight.pk.hex,
        "status": insight.state,
        "message": message,
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
