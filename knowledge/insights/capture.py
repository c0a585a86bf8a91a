"""Capture of insights, which are private memories that await a curator's review.

An insight has a record of its own, also if its author has a memory with the same text. Rejecting the insight leaves
that memory as it is, and applying the insight supersedes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.translation import gettext

from analysis import findings
from foundation.operations.errors import Invalid, NotFound
from foundation.operations.secrets import states_secret
from foundation.people.caller import Caller
from knowledge import extensions
from knowledge.extensions import Origin
from knowledge.insights import assignment, events
from knowledge.insights.lifecycle import replaceable_memory
from knowledge.models import Insight, InsightState
from knowledge.operations import Capture
from memories import services
from memories.models import MemoryRecord, Visibility
from memories.operations import MEMORY_FIELDS, Remember
from memories.retrieval.near_duplicates import Similar
from memories.writing import quotations
from memories.writing.exact_duplicates import lock_same_text


@dataclass(frozen=True)
class Captured:
    insight: Insight
    existing: bool = False
    similar: list[Similar] = field(default_factory=list)
    note: str = ""


def capture(caller: Caller, operation: Capture) -> Captured:
    """Propose something for the catalog, as a private memory that awaits a curator's review.

    - `visibility` takes effect once the insight is approved.
    - `supersedes` is the memory that the insight replaces once it is applied.
    - `finding_id` or `observation_id` is the analysis finding or graph observation that the insight comes from. The
      text of the finding or observation is used if `insight_text` is empty.
    """
    origin = _origin(caller, operation)
    replaced = replaceable_memory(caller, operation.supersedes) if operation.supersedes else None
    fact = _fact(operation, origin)
    insight = Insight(
        suggested_actions=[action.as_action() for action in operation.suggested_actions],
        wanted_visibility=operation.visibility,
        replaces=replaced,
    )

    if states_secret(fact.content):  # curators would read it
        raise Invalid(
            gettext("looks as if it states a password, a token or a key, so it was not proposed"),
            field="insight_text",
            allowed=gettext("the text without the secret"),
        )

    def find_existing() -> MemoryRecord | None:
        same_text = lock_same_text(caller, [fact.content])
        insights = Insight.objects.filter(pk__in=[record.pk for record in same_text]).exclude(
            state=InsightState.SUPERSEDED
        )
        proposals = set(insights.values_list("pk", flat=True))
        insight.beside = next((record for record in same_text if record.pk not in proposals), None)
        return next((record for record in same_text if record.pk in proposals), None)

    def save_insight(record: MemoryRecord) -> None:
        insight.record = record
        assignment.assign(insight)
        insight.save(force_insert=True)
        if origin.place and not operation.insight_text:  # what the text repeats, the insight repeats, too
            quotations.copy_quotations(origin.place, origin.row, record)
        events.announce(events.CAPTURED, insight, by=caller.email, to=[])

    stored = services.store(caller, fact, find_existing=find_existing, after_save=save_insight)
    if not stored.existing:
        return Captured(insight, similar=stored.similar, note=stored.note)
    existing = Insight.objects.get(pk=stored.record.pk)
    existing.record = stored.record
    note = "; ".join(filter(None, [stored.note, _not_taken_over(insight, existing)]))
    return Captured(existing, existing=True, similar=stored.similar, note=note)


def _not_taken_over(insight: Insight, existing: Insight) -> str:
    """Return what a proposal said that the same text, which was proposed before, does not have."""
    dropped = []
    if insight.suggested_actions and insight.suggested_actions != existing.suggested_actions:
        dropped.append("suggested_actions")
    if insight.replaces_id and insight.replaces_id != existing.replaces_id:
        dropped.append("supersedes")
    return f"{' and '.join(dropped)} were not added: tell the curator who reviews it" if dropped else ""


def _fact(operation: Capture, origin: Origin) -> Remember:
    try:
        return Remember.read(
            {
                "content": operation.insight_text or origin.text or None,
                **operation.values(*MEMORY_FIELDS, "category", "confidence", "source", "check"),
                "entity_urns": operation.entity_urns or origin.entity_urns,
                "visibility": Visibility.PRIVATE,
                "metadata": origin.provenance,
            }
        )
    except Invalid as error:
        # The argument `content` of Remember is called `insight_text` in this operation.
        field_name = "insight_text" if error.field == "content" else error.field
        raise Invalid(error.fault, field=field_name, allowed=error.allowed) from None


def _origin(caller: Caller, operation: Capture) -> Origin:
    if operation.finding_id:
        finding = findings.get_finding(caller, operation.finding_id)
        provenance = {"finding_id": finding.pk.hex, "analysis_id": finding.session.analysis_id, "model": finding.model}
        return Origin(finding.finding, [], provenance, findings.FINDINGS, finding.pk)
    if operation.observation_id:
        origin = extensions.observation(caller, operation.observation_id)
        if origin is None:
            raise NotFound(gettext("no such observation in your graph"), field="observation_id")
        return origin
    return Origin("", [], {})
