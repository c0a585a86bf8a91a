"""Performs the verbs of a story on the product, through its services, and reads back what the product says.

What depends on the product's API is here. Names of the story are translated: m1 is a record, orders is a URN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

from django.contrib.auth.models import Group, Permission
from django.db import connection, transaction
from django.db.models import F
from django.test import TestCase
from django.utils import timezone

from analysis.checks import services as checks
from analysis.checks.operations import AddCheck, RemoveCheck
from analysis.models import MemoryCheck
from analysis.operations import QuerySql
from analysis.sql import execute
from analysis.sql.declaration import SqlSource
from analysis.sql.execute import QueryResult
from analysis.sql.values import SqlResult
from analysis.tasks import run_due_checks
from foundation.database import identity
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import CatalogUnavailable, Write, WriteRun
from knowledge.changesets import apply as applying
from knowledge.changesets import approvals, risk, rollback
from knowledge.context import caveat_waivers
from knowledge.context.attachable import allowed_automatically
from knowledge.contradictions import verdicts
from knowledge.contradictions.operations import GiveVerdict
from knowledge.debt import computation, interviews
from knowledge.debt.operations import AnswerInterview, AskQuestions, PassOver, UndoAnswer
from knowledge.freshness import stale_detection
from knowledge.insights import lifecycle
from knowledge.insights.capture import capture
from knowledge.insights.seen import version_of, versions_of
from knowledge.models import CaveatWaiver, Changeset, Contradiction, Insight, InterviewQuestion
from knowledge.operations import Appeal, Apply, Capture, Edit, Reinstate, Waive
from knowledge.review import decisions
from memories import queries, services
from memories.models import Batch, CitingDocument, HandOver, MemoryRecord, Purpose, Verification
from memories.models.record import ATTACHED
from memories.operations import (
    AssignEntities,
    ChooseAttachment,
    Erase,
    Forget,
    ListMemories,
    MarkFeedback,
    Reassign,
    RecallMemories,
    Remember,
    Rescope,
    Restore,
    Revise,
    Share,
    Supersede,
    Verify,
)
from memories.retrieval.recall import recall
from memories.use.citations import queries as citations
from memories.use.citations import services as citing
from memories.use.citations.operations import ChangeCiting
from memories.writing import bulk_actions, entity_assignment, erasure, feedback, hand_overs, undo
from memories.writing.rescoping import rescope
from memory_project.models import Notification, User
from tests.knowledge.conftest import schema_of
from tests.model import validity
from tests.model.caveats import COLUMN, DERIVED, SOURCE
from tests.model.entities import Entity
from tests.model.expected import PEOPLE

TAG = "urn:li:tag:Training"
RISKS = [{"kind": "tag", "urn": TAG}]
ALL_CHECKED = 1_000  # more entities than a story has
WAREHOUSE = SqlSource(name="shop", kind="sql", engine="duckdb", database="shop.duckdb")
METHODS = ("read", "existing", "write", "search", "lineage")


def urn(entity: str) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,{entity},PROD)"


def column_urn(entity: str, column: str) -> str:
    return f"urn:li:schemaField:({urn(entity)},{column})"


def email(person: str) -> str:
    return f"{person}@example.org"


def populate(entities: Iterable[Entity]) -> dict[str, Caller]:
    """Create the people of the stories and the catalog, and return the people's callers by name."""
    for entity in entities:
        if entity.exists:
            put(LocalCatalog(), entity)
    made_from = {"upstreams": [column_urn(SOURCE, COLUMN)], "downstreams": [column_urn(DERIVED, "anchor_id")]}
    LocalCatalog().put(urn(DERIVED), "upstreamLineage", {"upstreams": [], "fineGrainedLineages": [made_from]}, {})
    Persona.objects.get_or_create(is_default=True, defaults={"name": "analyst"})
    personas = {name: Persona.objects.get_or_create(name=name)[0] for name in ("sales", "supply")}
    for name in ("board", "forecast"):
        Purpose.objects.get_or_create(name=name)
    curators, _ = Group.objects.get_or_create(name="Curators")
    curators.permissions.add(Permission.objects.get(codename="curate"))
    callers = {}
    for person in PEOPLE:
        user = User.objects.create_user(email(person.name), "a long password", is_superuser=person.is_admin)
        for number, name in enumerate(person.personas):
            PersonaMembership.objects.create(user=user, persona=personas[name], is_default=number == 0)
        if person.is_curator:
            user.groups.add(curators)
        callers[person.name] = build_caller(user, channel="test")
    return callers


class World:
    """The product during one story. Close it to remove everything that the story has written."""

    def __init__(self, callers: dict[str, Caller]) -> None:
        self.callers = callers
        self.ids: dict[str, UUID] = {}  # of memories
        self.changesets: dict[str, UUID] = {}
        self.questions: dict[str, UUID] = {}
        self.opened = ""  # the name of the question that was asked last
        self.batch: UUID | None = None  # the last bulk action
        self.seen: dict[str, str] = {}  # the states of insights that somebody has on their screen
        self.is_available = True
        self.holds: dict[str, bool] = {}  # whether the data are as the check of a memory says
        self.writes_left: int | None = None  # number of writes until the catalog becomes unavailable
        self.stack = ExitStack()
        self.stack.enter_context(_rolled_back())
        self.stack.enter_context(patch.object(execute, "run_query", self._query))
        for name in METHODS:
            original = getattr(LocalCatalog, name)
            self.stack.enter_context(patch.object(LocalCatalog, name, self._guarded(name, original)))

    def close(self) -> None:
        self.stack.close()

    def _guarded(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(catalog: LocalCatalog, *args: Any, **options: Any) -> Any:
            if name == "write" and self.writes_left is not None:
                self.is_available = self.is_available and self.writes_left > 0
                self.writes_left -= 1
            if not self.is_available:
                raise CatalogUnavailable("the catalog is unavailable")
            return original(catalog, *args, **options)

        return method

    def attempt(self, action: Callable[[], object], *, keeps: bool = False) -> str:
        """Perform an action, and run what it left for after its commit. Return the kind of its refusal, or "".

        With `keeps`, what it had done before the refusal stays, as it does outside of a test.
        """
        try:
            with TestCase.captureOnCommitCallbacks(execute=True), nullcontext() if keeps else transaction.atomic():
                action()
        except DomainError as error:
            return error.code
        return ""

    # -- memories -------------------------------------------------------------------------------------------

    def remember(self, name: str, person: str, **fields: Any) -> None:
        self.ids[name] = services.remember(self.callers[person], Remember.read(fields)).record.pk

    def revise(self, person: str, name: str, **fields: Any) -> None:
        services.revise(self.callers[person], Revise.read({"record_id": self.ids[name], **fields}))

    def correct(self, new: str, person: str, name: str, text: str) -> None:
        operation = Supersede.read({"record_id": self.ids[name], "content": text})
        self.ids[new] = services.supersede(self.callers[person], operation).record.pk

    def forget(self, person: str, name: str) -> None:
        services.forget(self.callers[person], Forget.read({"record_id": self.ids[name]}))

    def restore(self, person: str, name: str) -> None:
        services.restore(self.callers[person], Restore.read({"record_id": self.ids[name]}))

    def undo(self, person: str, name: str, change: str) -> None:
        undo.undo(self.callers[person], record_id=self.ids[name], change=change)

    def verify(self, person: str, name: str) -> None:
        services.verify(self.callers[person], Verify.read({"record_id": self.ids[name]}))

    def settle(self, person: str, name: str, entities: list[str]) -> None:
        operation = AssignEntities.read(
            {"record_id": self.ids[name], "entity_urns": [urn(entity) for entity in entities]}
        )
        entity_assignment.assign_entities(self.callers[person], operation)

    def mark_wrong(self, person: str, name: str) -> None:
        operation = MarkFeedback.read({"record_id": self.ids[name], "verdict": "wrong"})
        feedback.mark(self.callers[person], operation)

    def withdraw(self, person: str, name: str) -> None:
        feedback.withdraw(self.callers[person], record_id=self.ids[name])

    def extend(self, person: str, name: str) -> None:
        validity.perform(self.callers[person], self.ids[name])

    def share(self, person: str, name: str, visibility: str) -> None:
        operation = Share.read({"record_id": self.ids[name], "visibility": visibility})
        services.share(self.callers[person], operation)

    def move(self, person: str, name: str, persona: str) -> None:
        operation = Reassign.read({"record_id": self.ids[name], "persona": persona})
        services.reassign(self.callers[person], operation)

    def set_scope(self, person: str, name: str, scope: str) -> None:
        rescope(self.callers[person], Rescope.read({"record_id": self.ids[name], "scope": scope}))

    def settle_pair(self, person: str, first: str, second: str, *scopes: str) -> None:
        """Two texts of a story don't contradict each other, so the worker's find is made up."""
        one, other = (MemoryRecord.objects.get(pk=self.ids[name]) for name in (first, second))
        keys = {"first_key": one.content_key, "second_key": other.content_key, "reason": "made up"}
        pair, _ = Contradiction.objects.update_or_create(first=one, second=other, defaults=keys)
        given = {"contradiction_id": pair.pk, "verdict": "both", "first_scope": scopes[0], "second_scope": scopes[1]}
        verdicts.give_verdict(self.callers[person], GiveVerdict.read(given))

    def choose_attachment(self, person: str, name: str, attachment: str) -> None:
        operation = ChooseAttachment.read({"record_id": self.ids[name], "attachment": attachment})
        services.choose_attachment(self.callers[person], operation)

    def waive_caveat(self, person: str, name: str) -> None:
        given = {"waives": self.ids[name], "entity_urns": [urn(DERIVED)], "insight_text": "It is right there."}
        caveat_waivers.waive(self.callers[person], Waive.read(given))

    def reinstate_caveat(self, person: str, name: str) -> None:
        operation = Reinstate.read({"reinstates": self.ids[name], "entity_urns": [urn(DERIVED)]})
        caveat_waivers.reinstate(self.callers[person], operation)

    def hand_over(self, person: str, old: str, new: str) -> None:
        hand_overs.hand_over(self.callers[person], old=email(old), new=email(new))

    def undo_hand_over(self, person: str) -> None:
        hand_overs.undo_hand_over(self.callers[person], hand_over_id=HandOver.objects.latest("at").pk)

    def bulk(self, act: str, person: str, names: Sequence[str], choice: str) -> dict[str, str]:
        """Start a bulk action on memories as a page shows them now, and return the outcome of each, by its name."""
        insights = Insight.objects.filter(pk__in=[self.ids[name] for name in names]).select_related("record")
        batch = bulk_actions.start(
            self.callers[person],
            act=act,
            unit_ids=[self.ids[name] for name in names],
            note="As we said.",
            choice=choice,
            seen=versions_of(list(insights)),
        )
        self.batch = batch.pk
        return self._outcomes(batch)

    def undo_bulk(self, person: str) -> dict[str, str]:
        assert self.batch
        return self._outcomes(bulk_actions.undo(self.callers[person], batch_id=self.batch))

    def _outcomes(self, batch: Batch) -> dict[str, str]:
        names = {pk: name for name, pk in self.ids.items()}
        return {names[pk]: outcome for pk, outcome in zip(batch.unit_ids, batch.outcomes, strict=True)}

    def look(self, name: str) -> None:
        """Open the page of an insight, whose decisions carry the state that it showed."""
        self.seen[name] = self._version(name)

    def _version(self, name: str) -> str:
        return version_of(Insight.objects.select_related("record").get(pk=self.ids[name]))

    def is_as_seen(self, name: str) -> bool:
        return self.seen[name] == self._version(name)

    def decide_late(self, person: str, name: str, verb: str) -> None:
        decide = decisions.approve if verb == "approves" else decisions.reject
        decide(self.callers[person], insight_id=self.ids[name], notes="As I saw it.", seen=self.seen[name])

    def erase(self, person: str, name: str) -> None:
        erasure.erase(self.callers[person], Erase.read({"record_id": self.ids[name], "confirm": True}))

    # -- checks ---------------------------------------------------------------------------------------------

    def add_check(self, person: str, name: str) -> None:
        self.holds[name] = True
        values = {"record_id": self.ids[name], "sql": name, "expects": "not_empty"}
        checks.add_check(self.callers[person], AddCheck.read(values))

    def remove_check(self, person: str, name: str) -> None:
        for pk in MemoryCheck.objects.filter(record=self.ids[name]).values_list("pk", flat=True):
            operation = RemoveCheck.read({"record_id": self.ids[name], "check_id": pk})
            checks.remove_check(self.callers[person], operation)

    def run_checks(self) -> None:
        """Run all checks that the schedule runs, an hour after their last failure."""
        MemoryCheck.objects.update(next_run_at=timezone.now(), failed_at=F("failed_at") - timedelta(hours=1))
        run_due_checks()

    def _query(self, caller: Caller, operation: QuerySql, **options: Any) -> QueryResult:
        """Stand in for the warehouse. The statement is the name of the memory that it proves."""
        rows = [[1]] if self.holds[operation.sql] else []
        return QueryResult(WAREHOUSE, SqlResult(["n"], rows), 0.0)

    def checked(self) -> set[UUID]:
        return set(MemoryCheck.objects.values_list("record", flat=True))

    # -- documents that cite memories -----------------------------------------------------------------------

    def cite(self, person: str, name: str) -> None:
        """A person's own document has their name as its address."""
        citing.add_citations(self.callers[person], person, [self.ids[name]])

    def acknowledge(self, person: str) -> None:
        caller = self.callers[person]
        document = citations.documents(caller).get(address=person)
        until = citations.last_change(caller, document, citations.cited_by(caller, document))
        citing.change(caller, ChangeCiting(document_id=document.pk, acknowledged_until=until))

    def documents(self) -> dict[tuple[str, str], Any]:
        """Return erased memories, and reason and openness of each citation, by owner and address of the document."""
        names = {pk: name for name, pk in self.ids.items()}
        unread = set(Notification.objects.filter(kind="cited", read_at=None).values_list("record_id", flat=True))
        found: dict[tuple[str, str], Any] = {}
        for document in CitingDocument.objects.prefetch_related("citations"):
            cited = {names[row.record_id]: (row.reason, row.is_open) for row in document.citations.all()}
            is_settled = not document.erased and not any(is_open for _, is_open in cited.values())
            key = document.created_by.partition("@")[0], document.address
            found[key] = (
                "a notification of nothing" if is_settled and document.pk in unread else (document.erased, cited)
            )
        return found

    # -- insights -------------------------------------------------------------------------------------------

    def capture(self, name: str, person: str, replaces: str, **fields: Any) -> None:
        supersedes = {"supersedes": self.ids[replaces]} if replaces else {}
        operation = Capture.read({"category": "data_quality", **fields, **supersedes})
        self.ids[name] = capture(self.callers[person], operation).insight.pk

    def edit_insight(self, person: str, name: str, **fields: Any) -> None:
        lifecycle.edit(self.callers[person], Edit.read({"insight_id": self.ids[name], **fields}))

    def approve(self, person: str, name: str) -> None:
        decisions.approve(self.callers[person], insight_id=self.ids[name])

    def reject(self, person: str, name: str) -> None:
        """In a story, everybody knows what the others have decided."""
        decisions.reject(self.callers[person], insight_id=self.ids[name], override=True)

    def undo_review(self, person: str, name: str) -> None:
        decisions.undo_review(self.callers[person], insight_id=self.ids[name], override=True)

    def appeal(self, person: str, name: str) -> None:
        operation = Appeal.read({"insight_id": self.ids[name], "notes": "Please look again."})
        decisions.appeal(self.callers[person], operation)

    # -- interviews -----------------------------------------------------------------------------------------

    def ask(self, name: str, person: str, asked: str, entity: str) -> None:
        """Ask about what is missing now. The question may be an earlier one that is opened again."""
        with identity.service("worker"):
            computation.compute()
        operation = AskQuestions.read({"person": email(asked), "entity_urn": urn(entity)})
        (question,) = interviews.ask(self.callers[person], operation)
        self.opened = next((known for known, pk in self.questions.items() if pk == question.pk), name)
        self.questions[self.opened] = question.pk

    def answer(self, question: str, name: str, person: str, text: str) -> None:
        operation = AnswerInterview.read({"question_id": self.questions[question], "content": text})
        self.ids[name] = interviews.answer(self.callers[person], operation).insight.pk

    def pass_over(self, question: str, person: str, because: str) -> None:
        operation = PassOver.read({"question_id": self.questions[question], "because": because})
        interviews.pass_over(self.callers[person], operation)

    def undo_answer(self, question: str, person: str) -> None:
        interviews.undo(self.callers[person], UndoAnswer(question_id=self.questions[question]))

    # -- changesets -----------------------------------------------------------------------------------------

    def apply(self, changeset: str, person: str, name: str, entity: str, changes: list[dict[str, str]]) -> None:
        operation = Apply.read({"insight_ids": [self.ids[name]], "changes": changes, "entity_urn": urn(entity)})
        try:
            self.changesets[changeset] = applying.apply(self.callers[person], operation).changeset.pk
        finally:
            self.writes_left = None

    def propose(self, changeset: str, person: str, name: str, entity: str, changes: list[dict[str, str]]) -> None:
        with patch.object(risk, "assess", lambda planned: RISKS):
            self.apply(changeset, person, name, entity, changes)

    def second(self, person: str, changeset: str, verdict: str) -> None:
        decide = approvals.approve if verdict == "approves" else approvals.decline
        decide(self.callers[person], changeset_id=self.changesets[changeset])

    def resume(self, person: str, changeset: str) -> None:
        applying.resume(self.callers[person], changeset_id=self.changesets[changeset])

    def roll_back(self, person: str, changeset: str, skip_conflicts: bool) -> None:
        pk = self.changesets[changeset]
        try:
            rollback.roll_back(self.callers[person], changeset_id=pk, skip_conflicts=skip_conflicts)
        finally:
            self.writes_left = None

    # -- the catalog, changed by others ---------------------------------------------------------------------

    def check(self) -> None:
        stale_detection.check_all_entities(ALL_CHECKED)

    @contextmanager
    def by_others(self) -> Iterator[LocalCatalog]:
        """Others can write to the catalog while it is unavailable for us."""
        was_available, self.is_available = self.is_available, True
        yield LocalCatalog()
        self.is_available = was_available

    def put_entity(self, entity: Entity) -> None:
        with self.by_others() as catalog:
            put(catalog, entity)

    def put_value(self, entity: str, place: str, value: Any) -> None:
        aspect, path, written = _located(place, value)
        run = WriteRun("others", email("others"))
        with self.by_others() as catalog:
            catalog.write(Write(urn(entity), aspect, path, "remove" if value is None else "add", written), run)

    # -- what the product says ------------------------------------------------------------------------------

    def memories(self) -> dict[UUID, dict[str, Any]]:
        columns = (
            "pk", "status", "stale_reason", "created_by", "persona", "visibility", "content", "supersedes_id",
            "superseded_by", "metadata", "valid_until", "scope", "unsettled", "entity_urns",
        )  # fmt: skip
        return {row["pk"]: row for row in MemoryRecord.objects.values(*columns)}

    def verified(self) -> set[UUID]:
        """Return the memories that a second person has verified as they are now."""
        return set(Verification.objects.by_second_person().values_list("record", flat=True))

    def waived(self) -> set[UUID]:
        return set(CaveatWaiver.objects.in_force().values_list("record", flat=True))

    def attachments(self) -> dict[UUID, str]:
        return dict(MemoryRecord.objects.values_list("pk", "attachment"))

    def attachable(self, person: str) -> set[UUID]:
        rows = allowed_automatically(self.callers[person]).filter(ATTACHED)
        return set(rows.values_list("pk", flat=True))

    def insights(self) -> dict[UUID, dict[str, Any]]:
        columns = ("pk", "state", "changeset_id", "pending_edit")
        return {row["pk"]: dict(row) for row in Insight.objects.values(*columns)}

    def question_states(self) -> dict[UUID, str]:
        return dict(InterviewQuestion.objects.values_list("pk", "state"))

    def changeset_states(self) -> dict[UUID, str]:
        return dict(Changeset.objects.values_list("pk", "state"))

    def values(self, entities: list[str]) -> dict[tuple[str, str], Any]:
        """Return the values of all places that have one."""
        found: dict[tuple[str, str], Any] = {}
        with self.by_others() as catalog:
            read = catalog.read([urn(name) for name in entities], ASPECTS)
        for name in entities:
            aspects = {aspect: row.value or {} for aspect, row in read[urn(name)].items()}
            if text := aspects["editableDatasetProperties"].get("description"):
                found[name, "description"] = text
            if aspects["deprecation"].get("deprecated"):
                found[name, "deprecation"] = aspects["deprecation"]["note"]
            if any(tag["tag"] == TAG for tag in aspects["globalTags"].get("tags", [])):
                found[name, "tag"] = True
        return found

    def visible(self, person: str) -> set[UUID]:
        return set(MemoryRecord.objects.visible_to(self.callers[person]).values_list("pk", flat=True))

    def visible_insights(self, person: str) -> set[UUID]:
        return set(Insight.objects.visible_to(self.callers[person]).values_list("pk", flat=True))

    def listed(self, person: str, status: str) -> set[UUID]:
        operation = ListMemories.read({"filter_status": status, "limit": 100})
        return {record.pk for record in queries.list_memories(self.callers[person], operation)}

    def recalled(self, person: str, entities: list[str]) -> set[UUID]:
        urns = [urn(name) for name in entities]
        operation = RecallMemories.read({"strategy": "entity", "entity_urns": urns, "limit": 50})
        return {hit.record.pk for hit in recall(self.callers[person], operation).hits}


def put(catalog: LocalCatalog, entity: Entity) -> None:
    fields = [_field(name, kind, nullable) for name, (kind, nullable) in entity.columns.items()]
    catalog.put(urn(entity.name), "schemaMetadata", schema_of(entity.name, fields), {})
    catalog.put(urn(entity.name), "status", {"removed": not entity.exists}, {})


ASPECTS = ("editableDatasetProperties", "deprecation", "globalTags")


def request(place: str, value: Any) -> dict[str, str]:
    """Return a change that a curator may request for this value."""
    if place == "tag":
        return {"change_type": "add_tag" if value else "remove_tag", "detail": TAG}
    return {"change_type": "deprecate" if place == "deprecation" else "update_description", "detail": value}


def _located(place: str, value: Any) -> tuple[str, tuple[str, ...], Any]:
    if place == "description":
        return "editableDatasetProperties", ("description",), value
    if place == "tag":
        return "globalTags", ("tags", TAG), {"tag": TAG}
    return "deprecation", (), {"deprecated": True, "note": value, "actor": "urn:li:corpuser:others"}


def _field(name: str, kind: str, nullable: bool) -> dict[str, Any]:
    family: dict[str, Any] = {"type": {"com.linkedin.schema.StringType": {}}}
    extra = {"recursive": False, "isPartOfKey": False, "type": family}
    return {"fieldPath": name, "nullable": nullable, "nativeDataType": kind, "description": "", **extra}


@contextmanager
def _rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        # Constraints that PostgreSQL checks at the commit
        connection.check_constraints()
        transaction.set_rollback(True)
