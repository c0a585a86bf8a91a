"""A person with rows of every kind that is exported, and helpers to export them."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

from django.db import connection
from django.utils import timezone

from analysis.models import Finding, MemoryCheck, Session
from foundation.people.caller import Caller
from knowledge.graph.models import Graph, ObservationMove
from knowledge.insights.capture import capture
from knowledge.models import CaveatWaiver, Suggestion
from knowledge.operations import Capture
from knowledge.review import decisions
from knowledge.suggestions import staging
from knowledge.suggestions.operations import StageCandidates
from memories import services
from memories.conversation.models import MergeProposal
from memories.models import MemoryRecord, Tombstone
from memories.operations import Forget, MarkFeedback, Remember, ReportMemories, Revise, Supersede, Verify
from memories.portability import Values
from memories.portable_kinds import kinds
from memories.use import reports
from memories.use.citations.operations import Cite
from memories.use.citations.services import cite
from memories.writing import feedback, quotations
from memory_project.exchange.exports.formats import write_lines
from memory_project.exchange.exports.stream import export_rows, scope_of
from memory_project.operating.demo import talk

SECRET = "The private number of Alice is forty-two."


def make_world(alice: Caller, bob: Caller, ada: Caller) -> None:
    first = services.remember(alice, Remember(content="Revenue excludes gift cards.", tags=["a b", "7"])).record
    services.revise(alice, Revise(record_id=first.pk, summary="Without gift cards"))
    services.supersede(alice, Supersede(record_id=first.pk, content="Revenue includes gift cards now."))
    fact = services.remember(alice, Remember(content="=Stores 9001 to 9099 are tills: 1/2")).record
    services.verify(alice, Verify(record_id=fact.pk, note="asked"))
    services.verify(ada, Verify(record_id=fact.pk))
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="useful", note="yes"))
    feedback.mark(alice, MarkFeedback(record_id=fact.pk, verdict="useful"))
    for caller in (alice, bob):
        reports.report(caller, ReportMemories(used=[fact.pk], outdated=[fact.pk], note="moved"))
    cite(alice, Cite(address="https://docs.example.org/tills", memory_ids=[fact.pk]))
    services.remember(alice, Remember(content=SECRET, visibility="private", metadata={"k": [1, None]}))
    gone = services.remember(alice, Remember(content="A fact that was forgotten again.")).record
    services.forget(alice, Forget(record_id=gone.pk))
    services.remember(bob, Remember(content="A fact of Bob about orders."))
    rejected = capture(alice, Capture(category="correction", insight_text="Orders have no taxes.")).insight
    decisions.reject(ada, insight_id=rejected.pk, notes="they have")
    capture(alice, Capture(category="correction", insight_text="Orders are counted by day."))
    texts = ("Orders below 1 EUR are test orders.", "Refunds are booked two days late.")
    found = [{"kind": "decision", "text": text, "evidence": "", "entities": ["sales.orders"]} for text in texts]
    staging.stage(alice, StageCandidates.read({"session": "s1", "candidates": found}))
    talk.make_conversation(alice)
    talk.make_graph(alice)
    _make_rare_rows(alice, fact)


def _make_rare_rows(alice: Caller, fact: MemoryRecord) -> None:
    CaveatWaiver.objects.create(
        record=fact, urn="urn:li:dataset:board", column="revenue", reason="In euros.", by=alice.email, content_key="k"
    )
    graph = Graph.objects.get(created_by=alice.email)
    entity, other = graph.entities.order_by("number")[:2]
    observation = graph.observations.filter(entity=entity).first() or graph.observations.first()
    assert observation is not None
    ObservationMove.objects.create(observation=observation, entity=other)
    graph.reflections.create(number=graph.last_number + 1, target_type="graph", content="All is well.")
    Graph.objects.filter(pk=graph.pk).update(last_number=graph.last_number + 1)
    turns = list(MemoryRecord.objects.filter(created_by=alice.email, tier="")[:2])
    MergeProposal.objects.create(record=turns[0], target=turns[1], cosine=0.9, text="Both texts.")
    session = Session.objects.create(analysis_id="q3", owner=alice.email, persona=alice.persona)
    finding = Finding.objects.create(session=session, finding="Refunds grew by a third.", metadata={"n": 1})
    kept = Suggestion.objects.filter(owner=alice.email).latest("text")
    Suggestion.objects.filter(pk=kept.pk).update(state="kept", record=fact, decided_at=timezone.now())
    quotations.save_quotations([fact.pk], "findings", finding.pk, whole=True)
    MemoryCheck.objects.create(
        record=fact, author=alice.email, source="shop", sql="SELECT 1", expects="equals", value=1
    )
    Tombstone.objects.create(record_id=uuid.uuid4(), created_by="x@y.z", persona="sales", erased_by="x@y.z")


def exported(caller: Caller, scope: str = "person", persona: str = "") -> list[Values]:
    """Return the lines of an export, as they are in the file."""
    out = io.BytesIO()
    write_lines(export_rows(scope_of(caller, scope=scope, persona=persona)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def of_kind(rows: list[Values], kind: str) -> list[Values]:
    return [row for row in rows if row["kind"] == kind]


def without_times(rows: list[Values]) -> list[Values]:
    return [{key: value for key, value in row.items() if key != "exported_at"} for row in rows]


def empty_the_installation() -> None:
    tables: list[Any] = sorted({kind.model._meta.db_table for kind in kinds().values()})
    connection.check_constraints()  # so that no check is left for the end of the test's transaction
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")  # so that the role of the last caller ends
        cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
