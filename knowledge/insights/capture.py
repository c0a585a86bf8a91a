"""Capturing an insight: a private memory that waits for a curator."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis import findings
from knowledge import extensions
from knowledge.extensions import Origin
from knowledge.insights.lifecycle import replaceable_memory
from knowledge.models import Insight
from knowledge.operations import Capture
from memories import services
from memories.contract.errors import Invalid, NotFound
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Visibility
from memories.operations import Remember
from memories.retrieval.near_duplicates import Similar
from memories.writing.revision import revised


@dataclass(frozen=True)
class Captured:
    insight: Insight
    existing: bool = False
    similar: list[Similar] = field(default_factory=list)
    note: str = ""


def capture(operation: Capture, *, caller: Caller) -> Captured:
    """Proposes something for the catalog: a private memory that waits for a curator. `visibility` is what it gets
    once approved; `supersedes` the memory whose place it takes once applied; `finding_id` the finding of an analysis
    that it comes from, or `observation_id` that of the knowledge graph, whose text it takes where none is given."""
    origin = _origin(caller, operation)
    actions = [action.as_action() for action in operation.suggested_actions]
    replaced = replaceable_memory(caller, operation.supersedes) if operation.supersedes else None
    proposals: list[Insight] = []

    def propose(record: MemoryRecord) -> None:
        proposals.append(_propose(caller, record, actions, operation.visibility, replaced))

    try:
        answer = services.remember(
            Remember.read(
                {
                    "content": operation.insight_text or origin.text or None,
                    "entity_urns": operation.entity_urns or origin.entity_urns,
                    "visibility": Visibility.PRIVATE,
                    "metadata": origin.provenance,
                    **operation.values("category", "confidence", "source", "related_columns"),
                }
            ),
            caller=caller,
            within=propose,
        )
    except Invalid as error:
        field_name = "insight_text" if error.field == "content" else error.field
        raise Invalid(error.fault, field=field_name, allowed=error.allowed) from None
    return Captured(proposals[0], existing=answer.existing, similar=answer.similar, note=answer.note)


def _origin(caller: Caller, operation: Capture) -> Origin:
    if operation.finding_id:
        finding = findings.get_finding(caller, operation.finding_id)
        provenance = {"finding_id": finding.pk.hex, "analysis_id": finding.session.analysis_id, "model": finding.model}
        return Origin(finding.finding, [], provenance)
    if operation.observation_id:
        found = (extension.observation(caller, operation.observation_id) for extension in extensions.registered())
        origin = next(filter(None, found), None)
        if origin is None:
            raise NotFound("no such observation of your graph", field="observation_id")
        return origin
    return Origin("", [], {})


def _propose(
    caller: Caller,
    record: MemoryRecord,
    actions: list[dict[str, str]],
    visibility: str,
    replaced: MemoryRecord | None,
) -> Insight:
    """The insight of a record. A plain memory with this very text becomes one: it is withdrawn until reviewed."""
    insight = Insight.objects.filter(pk=record.pk).first()
    if insight:
        return insight
    if record.visibility != Visibility.PRIVATE:
        locked = MemoryRecord.objects.select_for_update().get(pk=record.pk)
        with revised(caller, locked, "capture", "proposed as an insight"):
            locked.visibility = Visibility.PRIVATE
    return Insight.objects.create(
        record=record, suggested_actions=actions, wanted_visibility=visibility, replaces=replaced
    )


# -- review ------------------------------------------------------------------------------------------------
