"""Attached memories that nobody uses become quiet: they are attached on request only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge import tasks
from knowledge.context.attached_memories import attach_memories, memories_for_entities
from knowledge.entities.call_subject import CallSubject
from knowledge.models import Changeset, Insight, InsightState
from memories import services
from memories.models import Impression, MemoryRecord
from memories.operations import ChooseAttachment, MarkFeedback, Remember, ReportMemories, Revise
from memories.use import attachment_use, reports
from memories.use.attachments import usage_of
from memories.writing import feedback
from memories.writing.undo import undo
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.usefixtures("small_catalog")
TEXT = "Orders with the status 'training' are tills 9001 of net_revenue: leave them out."
ASK = "SELECT amount FROM sales.orders"


@pytest.fixture
def record(alice: Caller) -> MemoryRecord:
    return services.remember(alice, Remember(content=TEXT, entity_urns=[ORDERS])).record


def attach(caller: Caller, sql: str = ASK, connection: str = "token 1") -> list[str]:
    block = attach_memories(replace(caller, connection=connection), Call("query_sql", {"sql": sql}, {}))
    return [entry["id"] for entry in block.data["memory_context"]] if block else []


def impressions_of(record: MemoryRecord, *people: Caller, each: int) -> None:
    """Attach the memory to so many calls of each person, on as many connections."""
    for person in people:
        for number in range(each):
            Impression.objects.create(
                record=record, connection=f"{person.email} {number}", to=person.email, tool="query_sql", version="v",
                terms=[1], at=timezone.now(),
            )  # fmt: skip


def choose(caller: Caller, record: MemoryRecord, attachment: str) -> MemoryRecord:
    return services.choose_attachment(caller, ChooseAttachment.read({"id": record.pk, "attachment": attachment}))


def is_quiet(record: MemoryRecord) -> bool:
    tasks.quiet_unused_memories()
    record.refresh_from_db()
    return record.is_quiet


# -- signs of use --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "is_used"),
    [
        ("SELECT amount FROM sales.orders WHERE status <> 'training'", True),
        ("SELECT net_revenue FROM sales.orders", True),
        ("SELECT amount FROM sales.orders WHERE till = 9001", True),
        ("SELECT amount FROM sales.orders WHERE x = 'training lesson'", False),  # only one of its words
        ("SELECT sum(amount) FROM sales.orders LIMIT 10", False),
        ("SELECT amount, customer FROM sales.refunds WHERE year = 2025", False),
    ],
)
def test_a_later_statement_with_words_of_the_memory_shows_that_it_was_used(
    record: MemoryRecord, bob: Caller, sql: str, is_used: bool
) -> None:
    assert attach(bob) == [record.pk.hex]
    attach(bob, sql)
    assert Impression.objects.filter(record=record, used_at__isnull=False).exists() is is_used


def test_words_that_the_call_had_already_show_nothing(record: MemoryRecord, bob: Caller, alice: Caller) -> None:
    attach(bob, "SELECT net_revenue FROM sales.orders")
    attach(bob, "SELECT net_revenue, amount FROM sales.orders")
    attach(alice, "SELECT amount FROM sales.orders WHERE status = 'training'", connection="token 2")
    attach(bob, "SELECT x FROM sales.orders WHERE status = 'training'", connection="token 3")  # another connection
    assert not Impression.objects.filter(used_at__isnull=False).exists()
    assert usage_of(alice, record).measured == 3


def test_counting_writes_nothing_and_a_use_takes_one_statement(record: MemoryRecord, bob: Caller) -> None:
    attach(bob)
    with CaptureQueriesContext(connection) as without_use:
        attach(bob)
    with CaptureQueriesContext(connection) as with_use:
        attach(bob, "SELECT amount FROM sales.orders WHERE status = 'training'")
    writes = [query["sql"] for query in with_use if query["sql"].startswith("UPDATE")]
    assert len(writes) == 1
    assert not [query["sql"] for query in without_use if query["sql"].startswith(("UPDATE", "INSERT"))]


# -- quiet memories ------------------------------------------------------------------------------------------


def test_a_memory_without_a_use_becomes_quiet_and_stays_on_request(
    record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller
) -> None:
    impressions_of(record, alice, bob, olga, each=6)
    assert not is_quiet(record)
    impressions_of(record, bob, each=2)
    assert is_quiet(record)
    assert attach(bob, connection="token 9") == []
    on_request = memories_for_entities(bob, CallSubject([ORDERS]))
    assert [entry.record.pk for entry in on_request.entries] == [record.pk]


def test_others_cannot_be_quieted_by_few_people(record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller) -> None:
    impressions_of(record, bob, each=60)
    impressions_of(record, alice, each=60)
    assert not is_quiet(record)
    impressions_of(record, olga, each=1)
    assert is_quiet(record)  # 10 of each person count


def test_one_person_alone_counts_for_half_at_most(
    record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller
) -> None:
    impressions_of(record, bob, each=100)
    impressions_of(record, alice, olga, each=4)
    assert not is_quiet(record)


@pytest.mark.parametrize("sign", ["statement", "report", "mark", "applied", "always", "change"])
def test_a_sign_of_use_keeps_a_memory_attached(
    record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller, sign: str
) -> None:
    impressions_of(record, alice, bob, olga, each=10)
    if sign == "statement":
        attachment_use.mark_used([Impression.objects.filter(record=record).latest("pk").pk], timezone.now())
    elif sign == "report":
        reports.report(bob, ReportMemories(used=[record.pk]))
    elif sign == "mark":
        feedback.mark(bob, MarkFeedback(record_id=record.pk, verdict="useful"))
    elif sign == "applied":
        changeset = Changeset.objects.create(entity_urn=ORDERS, applied_by="cora@example.org")
        reviewed = {"reviewed_by": "cora@example.org", "reviewed_at": timezone.now(), "applied_at": timezone.now()}
        Insight.objects.create(record=record, state=InsightState.APPLIED, changeset=changeset, **reviewed)
    elif sign == "always":
        choose(alice, record, "always")
    else:
        services.revise(alice, Revise(record_id=record.pk, content=f"{TEXT} Really."))
    assert not is_quiet(record)


def test_a_change_of_the_text_attaches_a_quiet_memory_again(
    record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller
) -> None:
    impressions_of(record, alice, bob, olga, each=10)
    assert is_quiet(record)
    services.revise(alice, Revise(record_id=record.pk, tags=["a"]))
    assert is_quiet(record)
    services.revise(alice, Revise(record_id=record.pk, content=f"{TEXT} Really."))
    assert not is_quiet(record)
    assert usage_of(alice, record).measured == 0


# -- the owner's choice --------------------------------------------------------------------------------------


def test_the_owner_attaches_a_memory_again_always_or_never(
    record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller
) -> None:
    impressions_of(record, alice, bob, olga, each=10)
    assert is_quiet(record)
    choose(alice, record, "automatic")
    assert not is_quiet(record)
    assert attach(bob, connection="token 5") == [record.pk.hex]
    undo(alice, record_id=record.pk, change="choose_attachment")
    assert is_quiet(record)
    choose(alice, record, "always")
    assert attach(bob, connection="token 6") == [record.pk.hex]
    choose(alice, record, "never")
    assert attach(bob, connection="token 7") == []
    assert attach(alice, connection="token 8") == []
    assert not is_quiet(record)  # it is the owner's choice
    assert [revision.change for revision in record.revisions.all()][:1] == ["choose_attachment"]
    undo(alice, record_id=record.pk, change="choose_attachment")
    record.refresh_from_db()
    assert record.attachment == "always"


def test_only_the_owner_chooses(record: MemoryRecord, alice: Caller, bob: Caller, olga: Caller, ada: Caller) -> None:
    with pytest.raises(Forbidden):
        choose(bob, record, "never")
    with pytest.raises(NotFound):
        choose(olga, record, "never")
    with pytest.raises(Invalid, match="attachment"):
        choose(alice, record, "sometimes")
    choose(ada, record, "never")
    with pytest.raises(Conflict):
        undo(alice, record_id=record.pk, change="share")
    assert attachment_use.quiet_unused(never=Q(pk__in=[])) == 0
