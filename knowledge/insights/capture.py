"""Capture of insights, which are private memories that await a curator's review."""

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
    """Propose something for the catalog, as a private memory that awaits a curator's review.

    - `visibility` takes effect once the insight is approved.
    - `supersedes` is the memory that the insight replaces once it is applied.
    - `finding_id` or `observation_id` is the analysis finding or graph observation that the insight comes from. The
      text of the finding or observation is used if `insight_text` is empty.
    """
    origin = _origin(caller, operation)
    actions = [action.as_action() for action in operation.suggested_actions]
    replaced = replaceable_memory(caller, operation.supersedes) if operation.supersedes else None
    proposals: list[Insight] = []

    def propose(record: MemoryRecord) -> None:
        proposals.append(_get_or_create_insight(caller, record, actions, operation.visibility, replaced))

    try:
        remembered = services.remember(
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
        # The argument `content` of Remember is called `insight_text` in this operation.
        field_name = "insight_text" if error.field == "content" else error.field
        raise Invalid(error.fault, field=field_name, allowed=error.allowed) from None
    return Captured(proposals[0], existing=remembered.existing, similar=remembered.similar, note=remembered.note)


def _origin(caller: Caller, operation: Capture) -> Origin:
    if operation.finding_id:
        finding = findings.get_finding(caller, operation.finding_id)
        provenance = {"finding_id": finding.pk.hex, "analysis_id": finding.session.analysis_id, "model": finding.model}
        return Origin(finding.finding, [], provenance)
    if operation.observation_id:
        found = (extension.observation(caller, operation.observation_id) for extension in extensions.registered())
        origin = next(filter(None, found), None)
        if origin is None:
            raise NotFound("no such observation in your graph", field="observation_id")
        return origin
    return Origin("", [], {})


def _get_or_create_insight(
    caller: Caller,
    record: MemoryRecord,
    actions: list[dict[str, str]],
    visibility: str,
    replaced: MemoryRecord | None,
) -> Insight:
    insight = Insight.objects.filter(pk=record.pk).first()
    if insight:
        return insight
    if record.visibility != Visibility.PRIVATE:
        # A plain memory with the same text exists. It becomes the insight, and is private until approval.
        locked = MemoryRecord.objects.select_for_update().get(pk=record.pk)
        with revised(caller, locked, "capture", "proposed as an insight"):
            locked.visibility = Visibility.PRIVATE
    return Insight.objects.create(
        record=record, suggested_actions=actions, wanted_visibility=visibility, replaces=replaced
    )
