"""The knowledge app's extension of the memories app: review, baselines, erasure, lineage, attached memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext
from django_q.tasks import async_task

from foundation.operations.errors import Conflict, DomainError
from foundation.people.caller import Caller
from foundation.tools.declaration import Call, ContextBlock, ContextLookup
from knowledge.catalog import embedded, lineage, name_resolution
from knowledge.changesets import redaction
from knowledge.context.attached_memories import lookup_for
from knowledge.contradictions import scan as contradictions
from knowledge.contradictions.queries import readable
from knowledge.debt import upkeep as debt
from knowledge.entities import entity_linking, likely_entities
from knowledge.freshness import baselines, conditions, detected_hints, stale_detection
from knowledge.insights import sql_corrections, waiting_edits
from knowledge.models import (
    CatalogEntity,
    CaveatWaiver,
    Changeset,
    ChangesetApproval,
    ChangesetState,
    Decision,
    Insight,
    InsightState,
    Settlement,
    Suggestion,
)
from knowledge.portable_kinds import KINDS
from knowledge.review import clarifications, decisions
from memories.extensions import EntityCandidate, MemoryExtension, Mention, TextPlace
from memories.models import MemoryRecord, Status
from memories.portability import ExportKind
from memories.texts.contradiction import contradiction


class KnowledgeMemoryExtension(MemoryExtension):
    def check_share(self, record: MemoryRecord) -> None:
        if Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).exists():
            if record.status == Status.ARCHIVED:  # nobody can approve what its owner has withdrawn
                raise Conflict(gettext("was withdrawn from review: restore it, and let it be approved"), field="id")
            raise Conflict(gettext("waits for review: it becomes visible when it is approved"), field="id")

    def check_restore(self, record: MemoryRecord) -> None:
        rejected = Insight.objects.filter(pk=record.pk, state=InsightState.REJECTED).first()
        if rejected is not None:
            advice = "appeal with a reason (capture_insight with `appeals`, or the page Insights)"
            raise Conflict(
                gettext("was rejected by %(reviewed_by)s: %(advice)s")
                % {"reviewed_by": rejected.reviewed_by, "advice": advice},
                field="id",
            )

    def check_erase(self, record: MemoryRecord) -> None:
        insight = Insight.objects.filter(pk=record.pk, changeset__isnull=False).select_related("changeset").first()
        if insight is not None and insight.changeset:
            changeset = insight.changeset.pk.hex
            if insight.changeset.state == ChangesetState.WAITING:
                raise Conflict(
                    gettext(
                        "belongs to changeset %(changeset)s, which waits for approval: a curator must decline it first"
                    )
                    % {"changeset": changeset},
                    field="id",
                )
            raise Conflict(
                gettext("belongs to changeset %(changeset)s: a curator must roll that changeset back first")
                % {"changeset": changeset},
                field="id",
            )

    def defer_edit(self, caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
        return waiting_edits.defer_edit(caller, record, changes)

    def defer_correction(self, caller: Caller, record: MemoryRecord, fields: Mapping[str, Any]) -> str:
        return decisions.defer_correction(record)

    def proposals_among(self, record_ids: Sequence[UUID]) -> Mapping[UUID, bool]:
        rows = Insight.objects.filter(pk__in=record_ids).exclude(state=InsightState.SUPERSEDED)
        return {pk: state in waiting_edits.IN_FORCE for pk, state in rows.values_list("pk", "state")}

    def condition_kinds(self) -> Mapping[str, Callable[[str], Any]]:
        return conditions.condition_kinds()

    def record_saved(self, record: MemoryRecord, *, created: bool) -> None:
        if created and baselines.urns_of(record):
            self._catch_up_after_commit(record.pk)

    def record_changed(self, record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
        if baselines.note_change(record, change, before):
            self._catch_up_after_commit(record.pk)

    def _catch_up_after_commit(self, record_id: UUID) -> None:
        if settings.DATAHUB_GMS_URL:  # in a worker, so that saving a memory does not wait for DataHub
            transaction.on_commit(partial(async_task, "knowledge.tasks.take_baselines", record_id.hex))
        else:
            transaction.on_commit(partial(stale_detection.catch_up, [record_id]))

    def additions_to_memories(self, since: datetime) -> Mapping[str, QuerySet[Any]]:
        verdicts = Settlement.objects.filter(at__gt=since, undone_at=None)
        return {
            "was waived for what is derived from it since": CaveatWaiver.objects.filter(at__gt=since),
            "a contradiction with it was decided since": verdicts.annotate(record=F("first"), record_id=F("first_id")),
            "a contradiction with another memory was decided since": verdicts.filter(second__isnull=False).annotate(
                record=F("second"), record_id=F("second_id")
            ),
        }

    def correction_proposed(self, caller: Caller, record: MemoryRecord, replaces: MemoryRecord) -> None:
        decisions.keep_proposal(record, replaces)

    def record_superseded(self, record: MemoryRecord) -> None:
        Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).update(state=InsightState.SUPERSEDED)

    def correction_undone(self, record: MemoryRecord) -> None:
        Insight.objects.filter(pk=record.pk, state=InsightState.SUPERSEDED).update(state=InsightState.PENDING)

    def copied_memories(self, record: MemoryRecord) -> Sequence[UUID]:
        # Insights that their author captured with the text of this memory. Applied ones refuse, as check_erase says.
        return list(Insight.objects.filter(beside=record).values_list("pk", flat=True))

    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        removed = redaction.remove_copies(caller, record_id, texts)
        # The correction of an erased memory is linked to the memory before it.
        for insight in Insight.objects.filter(replaces=record_id).select_related("record"):
            Insight.objects.filter(pk=insight.pk).update(replaces=insight.record.supersedes_id)
        contradictions.forget_record(record_id)
        kept = Suggestion.objects.filter(record=record_id).delete()[0]
        return {**removed, "suggestions": kept, "questions": debt.remove_record(record_id)}

    def text_places(self) -> Sequence[TextPlace]:
        def decisions_of(caller: Caller) -> QuerySet[Decision]:
            return Decision.objects.filter(insight__in=Insight.objects.visible_to(caller))

        def approvals_of(caller: Caller) -> QuerySet[ChangesetApproval]:
            return ChangesetApproval.objects.filter(changeset__in=Changeset.objects.visible_to(caller))

        return [
            TextPlace(
                "review notes", Insight, ("review_notes",), Insight.objects.visible_to, "reviewed_by", erased_value=""
            ),
            TextPlace(
                "verdict notes",
                Settlement,
                ("note",),
                lambda caller: readable(caller, Settlement.objects.all()),
                "by",
                erased_value="",
            ),
            TextPlace("decision notes", Decision, ("notes",), decisions_of, "by", erased_value=""),
            TextPlace("approval notes", ChangesetApproval, ("notes",), approvals_of, "by", erased_value=""),
            TextPlace(
                "reasons of waived caveats",
                CaveatWaiver,
                ("reason",),
                CaveatWaiver.objects.visible_to,
                "by",
                erased_value="",
            ),
            TextPlace(
                "catalog",
                CatalogEntity,
                ("description",),
                lambda caller: CatalogEntity.objects.all(),  # everybody reads the catalog
                "urn",
                search_column="search",
                changed_by="a changeset",
            ),
        ]

    def portable_kinds(self) -> Sequence[ExportKind]:
        return KINDS

    def owner_wiped(self, owner: str, pseudonym: str) -> Mapping[str, int]:
        clarifications.forget_assignee(owner, pseudonym)
        embedded.rename_actor(owner, pseudonym)
        return {}

    def is_proposal(self) -> Q:
        return Q(insight__isnull=False)

    def related_entities(self, caller: Caller, urns: Sequence[str]) -> tuple[Mapping[str, int], str]:
        return lineage.neighbors(caller, urns)

    def verification_hints(self, record_ids: Sequence[UUID]) -> Mapping[UUID, str]:
        record_ids = detected_hints.with_hints(record_ids)
        if not record_ids:
            return {}
        of_baselines = stale_detection.hints(record_ids)
        of_detected = detected_hints.hints(record_ids)
        return {
            pk: "; ".join(filter(None, [of_baselines.get(pk), of_detected.get(pk)]))
            for pk in of_baselines.keys() | of_detected.keys()
        }

    def scopes(self) -> Mapping[str, str]:
        domains = CatalogEntity.objects.filter(entity_type="domain", removed=False)
        return {f"domain:{urn}": name for urn, name in domains.values_list("urn", "name")}

    def contradiction(self, text: str, other: str) -> str:
        return contradiction(text, other)

    def entities_in(self, texts: Sequence[str]) -> Sequence[Sequence[Mention]]:
        return entity_linking.mentions_in(texts)

    def unknown_entities(self, urns: Sequence[str]) -> str:
        return name_resolution.unknown_note(urns)

    def has_entities(self) -> bool:
        return likely_entities.has_entities()

    def likely_entities(
        self, caller: Caller, records: Sequence[MemoryRecord]
    ) -> tuple[Mapping[UUID, Sequence[EntityCandidate]], str]:
        return likely_entities.likely_entities(caller, records)

    def lookup_for(self, caller: Caller, call: Call) -> ContextLookup | None:
        return lookup_for(caller, call)

    def after_call(self, caller: Caller, call: Call) -> Iterator[ContextBlock]:
        if block := sql_corrections.propose_correction(caller, call):
            yield block

    def call_failed(self, caller: Caller, call: Call, error: DomainError) -> None:
        sql_corrections.on_call_failed(caller, call, error)
