from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller, system_caller
from memories import services
from memories.models import IndexJob, MemoryRecord, MemoryRevision, Passage, Status, Tombstone, Visibility
from memories.operations import Erase, Forget, Remember, Restore, Revise, Share, Supersede, Verify
from memories.writing import erasure, hand_overs
from memories.writing.bulk_import import remember_many
from memory_project.models import AuditEvent
from tests.conftest import REFUNDS
from tests.memories.facts import correct
from tests.other_processes import run_concurrently

pytestmark = pytest.mark.django_db
URN = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"


def status(record: MemoryRecord) -> str:
    record.refresh_from_db()
    return record.status


# -- remember ---------------------------------------------------------------------------------------------


def test_remember_stores_the_text_with_its_owner_and_vector(alice: Caller) -> None:
    result = services.remember(
        alice,
        Remember(content=f"  {REFUNDS} ", tags=["revenue", "revenue", " "], entity_urns=[URN], metadata={"a": 1}),
    )
    record = MemoryRecord.objects.get(pk=result.record.pk)
    assert (record.content, record.created_by, record.persona) == (REFUNDS, "alice@example.org", "sales")
    assert (record.tags, record.entity_urns, record.metadata) == (["revenue"], [URN], {"a": 1})
    assert Passage.objects.filter(record=record).count() == 1
    assert record.embedding_model == "deterministic-384"
    assert not result.existing


def test_remembering_a_duplicate_returns_the_existing_record(alice: Caller, fact: MemoryRecord) -> None:
    result = services.remember(alice, Remember(content="revenue in  the sales mart\nexcludes REFUNDS."))
    assert result.existing
    assert result.record == fact
    assert MemoryRecord.objects.count() == 1


def test_the_same_text_of_another_owner_or_persona_is_a_new_memory(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    other_persona = Caller(email=alice.email, persona="supply", personas=frozenset({"supply"}))
    assert not services.remember(bob, Remember(content=REFUNDS)).existing
    assert not services.remember(other_persona, Remember(content=REFUNDS)).existing


def test_a_forgotten_text_can_be_remembered_again(alice: Caller, fact: MemoryRecord) -> None:
    services.forget(alice, Forget(record_id=fact.pk))
    assert not services.remember(alice, Remember(content=REFUNDS)).existing


def test_a_near_duplicate_is_saved_and_the_similar_memory_returned(
    alice: Caller, bob: Caller, olga: Caller, fact: MemoryRecord
) -> None:
    text = "Revenue in the sales mart excludes all refunds."
    result = services.remember(bob, Remember(content=text))
    assert [similar.record for similar in result.similar] == [fact]
    assert result.similar[0].cosine >= 0.9
    assert services.remember(olga, Remember(content=text)).similar == []


def test_without_embedder_the_memory_is_saved_and_an_index_job_created(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    result = services.remember(alice, Remember(content=REFUNDS))
    assert "no embedding provider" in result.note
    assert IndexJob.objects.get().source_id == result.record.pk


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("content", "too short", "9 characters"),
        ("content", "x" * 4001, "4001 characters"),
        ("content", "a NUL \x00 in here", "NUL"),
        ("dimension", "fact", "knowledge, event"),
        ("category", "gossip", "correction"),
        ("confidence", "sure", "high, medium, low"),
        ("source", "rumour", "agent_discovery"),
        ("visibility", "world", "everyone"),
        ("entity_urns", ["orders"], "the name or URN"),
        ("entity_urns", [URN + str(n) for n in range(11)], "at most 10"),
        ("tags", ["t" * 81], "81 characters"),
        ("related_columns", [{"urn": URN, "column": "id"}], "relevance"),
        ("metadata", {"superseded_by": "x"}, "superseded_by"),
        ("metadata", {"insight_status": "approved"}, "insight_status"),
        ("metadata", {"big": "x" * 20_000}, "16000"),
    ],
)
def test_a_remember_error_names_the_field_and_nothing_is_written(
    alice: Caller, field: str, value: Any, fault: str
) -> None:
    with pytest.raises(Invalid) as caught:
        services.remember(alice, Remember.read({**{"content": REFUNDS, field: value}}))
    assert field in caught.value.message
    assert fault in caught.value.message
    assert not MemoryRecord.objects.exists()


def test_lengths_are_counted_in_characters_and_not_in_bytes(alice: Caller) -> None:
    services.remember(alice, Remember(content="ж" * 4000))
    assert MemoryRecord.objects.count() == 1
    with pytest.raises(Invalid):
        services.remember(alice, Remember.read({"content": "жжжжжж"}))  # 12 bytes, 6 characters


def test_a_caller_without_identity_can_neither_own_nor_change(fact: MemoryRecord) -> None:
    anonymous = Caller(email="", persona="sales", personas=frozenset({"sales"}))
    with pytest.raises(Forbidden):
        services.remember(anonymous, Remember.read({"content": REFUNDS}))
    with pytest.raises(Forbidden):
        services.forget(anonymous, Forget.read({"record_id": fact.pk}))


# -- permissions ------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[..., Any]] = {
    "revise": lambda caller, record_id: services.revise(
        caller, Revise(record_id=record_id, content="Something else entirely.")
    ),
    "supersede": lambda caller, record_id: services.supersede(
        caller, Supersede(record_id=record_id, content="Something else entirely.")
    ),
    "forget": lambda caller, record_id: services.forget(caller, Forget(record_id=record_id)),
    "restore": lambda caller, record_id: services.restore(caller, Restore(record_id=record_id)),
    "share": lambda caller, record_id: services.share(caller, Share(record_id=record_id, visibility="everyone")),
    "mark_stale": lambda caller, record_id: services.mark_stale(
        caller, record_id=record_id, reason="the table changed"
    ),
    "verify": lambda caller, record_id: services.verify(caller, Verify(record_id=record_id)),
    "erase": lambda caller, record_id: erasure.erase(caller, Erase(record_id=record_id, confirm=True)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_colleague_may_not_change_a_memory_and_an_outsider_does_not_find_it(
    change: str, bob: Caller, olga: Caller, fact: MemoryRecord
) -> None:
    before = MemoryRecord.objects.values().get()
    if change != "verify":  # a second person may say that it is true
        with pytest.raises(Forbidden):
            CHANGES[change](bob, record_id=fact.pk)
    with pytest.raises(NotFound):
        CHANGES[change](olga, record_id=fact.pk)
    with pytest.raises(NotFound):
        CHANGES[change](bob, record_id=uuid4())
    assert MemoryRecord.objects.values().get() == before


@pytest.mark.parametrize("change", CHANGES)
def test_an_admin_may_change_memories_of_others(change: str, ada: Caller, fact: MemoryRecord) -> None:
    CHANGES[change](ada, record_id=fact.pk)


def test_only_its_owner_sees_a_private_memory(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    assert not MemoryRecord.objects.visible_to(bob).exists()
    assert MemoryRecord.objects.visible_to(alice).get() == fact


def test_a_memory_for_everyone_is_seen_by_other_personas(alice: Caller, olga: Caller, fact: MemoryRecord) -> None:
    assert not MemoryRecord.objects.visible_to(olga).exists()
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.EVERYONE))
    assert MemoryRecord.objects.visible_to(olga).get() == fact


# -- revise -----------------------------------------------------------------------------------------------


def test_revise_keeps_the_earlier_state(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(alice, Revise(record_id=fact.pk, content="Revenue includes refunds now.", reason="new rule"))
    fact.refresh_from_db()
    revision = MemoryRevision.objects.get()
    assert fact.content == "Revenue includes refunds now."
    assert (revision.content, revision.status, revision.changed_by, revision.reason) == (
        REFUNDS, Status.ACTIVE, "alice@example.org", "new rule",
    )  # fmt: skip
    assert revision.valid_from == fact.created_at
    assert Passage.objects.filter(record=fact).count() == 1


def test_a_revised_text_never_keeps_the_old_vector(alice: Caller, fact: MemoryRecord, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    services.revise(alice, Revise(record_id=fact.pk, content="Revenue includes refunds now."))
    fact.refresh_from_db()
    assert not Passage.objects.filter(record=fact).exists()
    assert IndexJob.objects.get().source_id == fact.pk


def test_revise_merges_metadata_and_validates_every_field(alice: Caller) -> None:
    record = services.remember(alice, Remember(content=REFUNDS, metadata={"a": 1, "b": 1})).record
    services.revise(alice, Revise(record_id=record.pk, metadata={"b": 2}))
    record.refresh_from_db()
    assert record.metadata == {"a": 1, "b": 2}
    with pytest.raises(Invalid, match="dimension"):
        services.revise(alice, Revise.read({"record_id": record.pk, "dimension": "nonsense"}))
    with pytest.raises(Invalid, match="no fields"):
        services.revise(alice, Revise.read({"record_id": record.pk}))


def test_metadata_cannot_change_the_state_of_a_memory(alice: Caller, fact: MemoryRecord) -> None:
    for key in ("superseded_by", "insight_status", "reviewed_by", "legacy_created_by"):
        with pytest.raises(Invalid):
            services.revise(alice, Revise.read({"record_id": fact.pk, "metadata": {key: "approved"}}))


def test_revising_to_the_same_values_writes_nothing(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(alice, Revise(record_id=fact.pk, content=REFUNDS))
    assert not MemoryRevision.objects.exists()


# -- supersede, forget, restore ---------------------------------------------------------------------------


def test_supersede_replaces_a_memory_with_a_new_record(alice: Caller, fact: MemoryRecord) -> None:
    new = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    fact.refresh_from_db()
    assert (new.supersedes, new.status, new.persona, new.visibility) == (
        fact,
        "active",
        fact.persona,
        fact.visibility,
    )
    assert (fact.status, fact.superseded_by, fact.superseded_at) == ("superseded", new.pk, new.created_at)


def test_the_conflict_of_a_second_correction_names_the_first(alice: Caller, fact: MemoryRecord) -> None:
    new = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    with pytest.raises(Conflict, match=new.pk.hex):
        correct(alice, fact, "Revenue is something else again.")


def test_a_correction_by_an_admin_belongs_to_the_owner(alice: Caller, ada: Caller, fact: MemoryRecord) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    new = correct(ada, fact, "Revenue in the sales mart includes refunds.")
    assert new.created_by == alice.email
    assert MemoryRecord.objects.visible_to(alice).filter(pk=new.pk).exists()


def test_forget_and_restore(alice: Caller, fact: MemoryRecord) -> None:
    services.forget(alice, Forget(record_id=fact.pk))
    assert status(fact) == Status.ARCHIVED
    services.forget(alice, Forget(record_id=fact.pk))
    assert MemoryRevision.objects.count() == 1
    services.restore(alice, Restore(record_id=fact.pk))
    assert status(fact) == Status.ACTIVE


def test_a_superseded_memory_is_restored_only_after_its_correction_is_archived(
    alice: Caller, fact: MemoryRecord
) -> None:
    new = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    with pytest.raises(Conflict, match=new.pk.hex):
        services.restore(alice, Restore.read({"record_id": fact.pk}))
    services.forget(alice, Forget(record_id=new.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    fact.refresh_from_db()
    assert (fact.status, fact.superseded_by) == (Status.ACTIVE, None)


def test_a_restored_correction_supersedes_again(alice: Caller, fact: MemoryRecord) -> None:
    new = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    services.forget(alice, Forget(record_id=new.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    services.restore(alice, Restore(record_id=new.pk))
    assert (status(fact), status(new)) == (Status.SUPERSEDED, Status.ACTIVE)


def test_restoring_cannot_fork_a_chain(alice: Caller, fact: MemoryRecord) -> None:
    first = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    services.forget(alice, Forget(record_id=first.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    second = correct(alice, fact, "Revenue in the sales mart is gross.")
    with pytest.raises(Conflict):
        services.restore(alice, Restore.read({"record_id": first.pk}))
    assert (status(first), status(second), status(fact)) == ("archived", "active", "superseded")


def test_restoring_a_forgotten_middle_of_a_chain_leaves_it_superseded(alice: Caller, fact: MemoryRecord) -> None:
    correct(alice, fact, "Revenue in the sales mart includes refunds.")
    services.forget(alice, Forget(record_id=fact.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    assert status(fact) == Status.SUPERSEDED


def test_the_database_rejects_a_fork_and_a_stale_row_without_reason(alice: Caller, fact: MemoryRecord) -> None:
    correct(alice, fact, "Revenue in the sales mart includes refunds.")
    with pytest.raises(IntegrityError), transaction.atomic():
        MemoryRecord.objects.create(content="A fork of the chain.", created_by="x@example.org", supersedes=fact)
    with pytest.raises(IntegrityError), transaction.atomic():
        MemoryRecord.objects.filter(pk=fact.pk).update(status=Status.STALE)


# -- stale, verify, erase, move ownership -----------------------------------------------------------------


def test_a_stale_memory_is_reactivated_by_verify_or_revise(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(system_caller(), record_id=fact.pk, reason="the column refund_id was removed")
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == (Status.STALE, "the column refund_id was removed")
    services.verify(alice, Verify(record_id=fact.pk, note="looked at it"))
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason, fact.stale_at) == (Status.ACTIVE, "", None)
    assert fact.last_verified_at is not None
    services.mark_stale(system_caller(), record_id=fact.pk, reason="again")
    services.revise(alice, Revise(record_id=fact.pk, content="Revenue excludes refunds since May."))
    assert status(fact) == Status.ACTIVE


def test_the_same_text_given_again_leaves_a_memory_stale(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(system_caller(), record_id=fact.pk, reason="the column refund_id was removed")
    services.revise(alice, Revise(record_id=fact.pk, content=fact.content, tags=["revenue"]))
    assert status(fact) == Status.STALE


def test_the_refusal_to_change_a_superseded_memory_leads_to_its_correction(alice: Caller, fact: MemoryRecord) -> None:
    """An obedient agent must not forget a correction in order to change what it has corrected."""
    newer = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.")).record
    for refused in (
        lambda: services.revise(alice, Revise(record_id=fact.pk, content="Revenue is something else.")),
        lambda: services.restore(alice, Restore(record_id=fact.pk)),
        lambda: services.verify(alice, Verify(record_id=fact.pk)),
    ):
        with pytest.raises(Conflict, match=f"superseded by {newer.pk.hex}: change that one"):
            refused()  # type: ignore[no-untyped-call]  # a lambda
    services.revise(alice, Revise(record_id=newer.pk, content="Revenue includes refunds since May."))
    assert (status(fact), status(newer)) == (Status.SUPERSEDED, Status.ACTIVE)


def test_a_text_that_states_a_secret_is_private_in_every_way_in(alice: Caller, fact: MemoryRecord) -> None:
    text = "The warehouse password is hunter22!"
    stored = services.remember(alice, Remember(content=text))
    assert (stored.record.visibility, "so it is private" in stored.note) == (Visibility.PRIVATE, True)
    revised = services.revise(alice, Revise(record_id=fact.pk, content=f"{text} Since May."))
    assert (revised.visibility, "so it is private" in revised.edit_note) == (Visibility.PRIVATE, True)
    other = services.remember(alice, Remember(content="Stock is counted at four in the morning.")).record
    newer = services.supersede(alice, Supersede(record_id=other.pk, content=f"{text} Since June."))
    assert (newer.record.visibility, "so it is private" in newer.note) == (Visibility.PRIVATE, True)
    ((bulk, _),) = remember_many(alice, facts=[{"content": f"{text} Since July."}])
    assert bulk.visibility == Visibility.PRIVATE
    services.share(alice, Share(record_id=bulk.pk, visibility="persona"))  # its owner knows better
    bulk.refresh_from_db()
    assert bulk.visibility == Visibility.PERSONA


def test_erase_removes_every_trace_of_the_text(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(alice, Revise(record_id=fact.pk, content="The secret salary list is here."))
    event = AuditEvent.objects.create(
        channel="mcp",
        tool="memory_manage",
        outcome="ok",
        duration_ms=1,
        arguments={"content": "secret"},
        record_ids=[fact.pk],
    )
    with pytest.raises(Invalid, match="confirm"):
        erasure.erase(alice, Erase.read({"record_id": fact.pk}))
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    event.refresh_from_db()
    assert not MemoryRecord.objects.exists()
    assert not MemoryRevision.objects.exists()
    assert event.arguments == {"erased": True}
    tombstone = Tombstone.objects.get()
    assert (tombstone.record_id, tombstone.erased_by) == (fact.pk, "alice@example.org")


def test_erasing_the_middle_of_a_chain_links_its_neighbors(alice: Caller, fact: MemoryRecord) -> None:
    middle = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    last = correct(alice, middle, "Revenue in the sales mart includes some refunds.")
    erasure.erase(alice, Erase(record_id=middle.pk, confirm=True))
    last.refresh_from_db()
    fact.refresh_from_db()
    assert (last.supersedes, fact.superseded_by) == (fact, last.pk)


def test_ownership_can_be_moved_and_moved_back(alice: Caller, ada: Caller, fact: MemoryRecord) -> None:
    with pytest.raises(Forbidden):
        hand_overs.hand_over(alice, old="alice@example.org", new="new@example.org")
    moved = hand_overs.hand_over(ada, old="alice@example.org", new="New@Example.org")
    assert moved.counts == {"memories": 1}
    fact.refresh_from_db()
    assert (fact.created_by, fact.metadata) == ("new@example.org", {"legacy_created_by": "alice@example.org"})
    hand_overs.undo_hand_over(ada, hand_over_id=moved.pk)
    fact.refresh_from_db()
    assert (fact.created_by, fact.metadata) == ("alice@example.org", {})


def test_expired_memories_are_not_recalled(alice: Caller, fact: MemoryRecord) -> None:
    from memories.retrieval.filters import Filters, visible_rows

    MemoryRecord.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert not visible_rows(alice, Filters()).exists()


# -- concurrency ------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_concurrent_corrections_do_not_fork_the_chain(alice: Caller, fact: MemoryRecord) -> None:
    results = run_concurrently(
        *[lambda n=n: correct(alice, fact, f"Revenue is defined by rule {n}.") for n in range(4)]
    )
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 3 + ["MemoryRecord"]
    assert MemoryRecord.objects.filter(supersedes=fact).count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_same_text_remembered_concurrently_is_stored_once(alice: Caller) -> None:
    results = run_concurrently(*[lambda: services.remember(alice, Remember(content=REFUNDS)) for _ in range(4)])
    assert sorted(result.existing for result in results) == [False, True, True, True]
    assert MemoryRecord.objects.count() == 1


def test_the_text_of_a_stale_memory_is_not_stored_a_second_time(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(system_caller(), record_id=fact.pk, reason="the table moved")
    answer = services.remember(alice, Remember(content=REFUNDS))
    assert (answer.existing, answer.record) == (True, fact)
    assert "it is stale, so it is not recalled: verify it if it is true (the table moved)" in answer.note


def test_a_restored_memory_without_vectors_waits_for_them(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    record = services.remember(alice, Remember(content=REFUNDS)).record
    services.forget(alice, Forget(record_id=record.pk))
    IndexJob.objects.all().delete()  # an archived memory needs no vectors
    services.restore(alice, Restore(record_id=record.pk))
    assert IndexJob.objects.get().source_id == record.pk


def test_new_metadata_alone_leaves_a_memory_stale(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(system_caller(), record_id=fact.pk, reason="the table moved")
    services.revise(alice, Revise(record_id=fact.pk, metadata={"ticket": 7}))
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason, fact.metadata) == (Status.STALE, "the table moved", {"ticket": 7})
