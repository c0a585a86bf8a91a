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
from memories.writing import erasure, ownership
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
        Remember(content=f"  {REFUNDS} ", tags=["revenue", "revenue", " "], entity_urns=[URN], metadata={"a": 1}),
        caller=alice,
    )
    record = MemoryRecord.objects.get(pk=result.record.pk)
    assert (record.content, record.created_by, record.persona) == (REFUNDS, "alice@example.org", "sales")
    assert (record.tags, record.entity_urns, record.metadata) == (["revenue"], [URN], {"a": 1})
    assert Passage.objects.filter(record=record).count() == 1
    assert record.embedding_model == "deterministic-384"
    assert not result.existing


def test_remembering_a_duplicate_returns_the_existing_record(alice: Caller, fact: MemoryRecord) -> None:
    result = services.remember(Remember(content="revenue in  the sales mart\nexcludes REFUNDS."), caller=alice)
    assert result.existing
    assert result.record == fact
    assert MemoryRecord.objects.count() == 1


def test_the_same_text_of_another_owner_or_persona_is_a_new_memory(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    other_persona = Caller(email=alice.email, persona="supply", personas=frozenset({"supply"}))
    assert not services.remember(Remember(content=REFUNDS), caller=bob).existing
    assert not services.remember(Remember(content=REFUNDS), caller=other_persona).existing


def test_a_forgotten_text_can_be_remembered_again(alice: Caller, fact: MemoryRecord) -> None:
    services.forget(Forget(record_id=fact.pk), caller=alice)
    assert not services.remember(Remember(content=REFUNDS), caller=alice).existing


def test_a_near_duplicate_is_saved_and_the_similar_memory_returned(
    alice: Caller, bob: Caller, olga: Caller, fact: MemoryRecord
) -> None:
    text = "Revenue in the sales mart excludes all refunds."
    result = services.remember(Remember(content=text), caller=bob)
    assert [similar.record for similar in result.similar] == [fact]
    assert result.similar[0].cosine >= 0.9
    assert services.remember(Remember(content=text), caller=olga).similar == []


def test_without_embedder_the_memory_is_saved_and_an_index_job_created(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    result = services.remember(Remember(content=REFUNDS), caller=alice)
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
        services.remember(Remember.read({**{"content": REFUNDS, field: value}}), caller=alice)
    assert field in caught.value.message
    assert fault in caught.value.message
    assert not MemoryRecord.objects.exists()


def test_lengths_are_counted_in_characters_and_not_in_bytes(alice: Caller) -> None:
    services.remember(Remember(content="ж" * 4000), caller=alice)
    assert MemoryRecord.objects.count() == 1
    with pytest.raises(Invalid):
        services.remember(Remember.read({"content": "жжжжжж"}), caller=alice)  # 12 bytes, 6 characters


def test_a_caller_without_identity_can_neither_own_nor_change(fact: MemoryRecord) -> None:
    anonymous = Caller(email="", persona="sales", personas=frozenset({"sales"}))
    with pytest.raises(Forbidden):
        services.remember(Remember.read({"content": REFUNDS}), caller=anonymous)
    with pytest.raises(Forbidden):
        services.forget(Forget.read({"record_id": fact.pk}), caller=anonymous)


# -- permissions ------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[..., Any]] = {
    "revise": lambda record_id, caller: services.revise(
        Revise(record_id=record_id, content="Something else entirely."), caller=caller
    ),
    "supersede": lambda record_id, caller: services.supersede(
        Supersede(record_id=record_id, content="Something else entirely."), caller=caller
    ),
    "forget": lambda record_id, caller: services.forget(Forget(record_id=record_id), caller=caller),
    "restore": lambda record_id, caller: services.restore(Restore(record_id=record_id), caller=caller),
    "share": lambda record_id, caller: services.share(Share(record_id=record_id, visibility="everyone"), caller=caller),
    "mark_stale": lambda record_id, caller: services.mark_stale(
        record_id=record_id, caller=caller, reason="the table changed"
    ),
    "verify": lambda record_id, caller: services.verify(Verify(record_id=record_id), caller=caller),
    "erase": lambda record_id, caller: erasure.erase(Erase(record_id=record_id, confirm=True), caller=caller),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_colleague_may_not_change_a_memory_and_an_outsider_does_not_find_it(
    change: str, bob: Caller, olga: Caller, fact: MemoryRecord
) -> None:
    before = MemoryRecord.objects.values().get()
    if change != "verify":  # a second person may say that it is true
        with pytest.raises(Forbidden):
            CHANGES[change](caller=bob, record_id=fact.pk)
    with pytest.raises(NotFound):
        CHANGES[change](caller=olga, record_id=fact.pk)
    with pytest.raises(NotFound):
        CHANGES[change](caller=bob, record_id=uuid4())
    assert MemoryRecord.objects.values().get() == before


@pytest.mark.parametrize("change", CHANGES)
def test_an_admin_may_change_memories_of_others(change: str, ada: Caller, fact: MemoryRecord) -> None:
    CHANGES[change](caller=ada, record_id=fact.pk)


def test_only_its_owner_sees_a_private_memory(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    services.share(Share(record_id=fact.pk, visibility=Visibility.PRIVATE), caller=alice)
    assert not MemoryRecord.objects.visible_to(bob).exists()
    assert MemoryRecord.objects.visible_to(alice).get() == fact


def test_a_memory_for_everyone_is_seen_by_other_personas(alice: Caller, olga: Caller, fact: MemoryRecord) -> None:
    assert not MemoryRecord.objects.visible_to(olga).exists()
    services.share(Share(record_id=fact.pk, visibility=Visibility.EVERYONE), caller=alice)
    assert MemoryRecord.objects.visible_to(olga).get() == fact


# -- revise -----------------------------------------------------------------------------------------------


def test_revise_keeps_the_earlier_state(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(Revise(record_id=fact.pk, content="Revenue includes refunds now.", reason="new rule"), caller=alice)
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
    services.revise(Revise(record_id=fact.pk, content="Revenue includes refunds now."), caller=alice)
    fact.refresh_from_db()
    assert not Passage.objects.filter(record=fact).exists()
    assert IndexJob.objects.get().source_id == fact.pk


def test_revise_merges_metadata_and_validates_every_field(alice: Caller) -> None:
    record = services.remember(Remember(content=REFUNDS, metadata={"a": 1, "b": 1}), caller=alice).record
    services.revise(Revise(record_id=record.pk, metadata={"b": 2}), caller=alice)
    record.refresh_from_db()
    assert record.metadata == {"a": 1, "b": 2}
    with pytest.raises(Invalid, match="dimension"):
        services.revise(Revise.read({"record_id": record.pk, "dimension": "nonsense"}), caller=alice)
    with pytest.raises(Invalid, match="no fields"):
        services.revise(Revise.read({"record_id": record.pk}), caller=alice)


def test_metadata_cannot_change_the_state_of_a_memory(alice: Caller, fact: MemoryRecord) -> None:
    for key in ("superseded_by", "insight_status", "reviewed_by", "legacy_created_by"):
        with pytest.raises(Invalid):
            services.revise(Revise.read({"record_id": fact.pk, "metadata": {key: "approved"}}), caller=alice)


def test_revising_to_the_same_values_writes_nothing(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(Revise(record_id=fact.pk, content=REFUNDS), caller=alice)
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
    services.share(Share(record_id=fact.pk, visibility=Visibility.PRIVATE), caller=alice)
    new = correct(ada, fact, "Revenue in the sales mart includes refunds.")
    assert new.created_by == alice.email
    assert MemoryRecord.objects.visible_to(alice).filter(pk=new.pk).exists()


def test_forget_and_restore(alice: Caller, fact: MemoryRecord) -> None:
    services.forget(Forget(record_id=fact.pk), caller=alice)
    assert status(fact) == Status.ARCHIVED
    services.forget(Forget(record_id=fact.pk), caller=alice)
    assert MemoryRevision.objects.count() == 1
    services.restore(Restore(record_id=fact.pk), caller=alice)
    assert status(fact) == Status.ACTIVE


def test_a_superseded_memory_is_restored_only_after_its_correction_is_archived(
    alice: Caller, fact: MemoryRecord
) -> None:
    new = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    with pytest.raises(Conflict, match=new.pk.hex):
        services.restore(Restore.read({"record_id": fact.pk}), caller=alice)
    services.forget(Forget(record_id=new.pk), caller=alice)
    services.restore(Restore(record_id=fact.pk), caller=alice)
    fact.refresh_from_db()
    assert (fact.status, fact.superseded_by) == (Status.ACTIVE, None)


def test_a_restored_correction_supersedes_again(alice: Caller, fact: MemoryRecord) -> None:
    new = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    services.forget(Forget(record_id=new.pk), caller=alice)
    services.restore(Restore(record_id=fact.pk), caller=alice)
    services.restore(Restore(record_id=new.pk), caller=alice)
    assert (status(fact), status(new)) == (Status.SUPERSEDED, Status.ACTIVE)


def test_restoring_cannot_fork_a_chain(alice: Caller, fact: MemoryRecord) -> None:
    first = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    services.forget(Forget(record_id=first.pk), caller=alice)
    services.restore(Restore(record_id=fact.pk), caller=alice)
    second = correct(alice, fact, "Revenue in the sales mart is gross.")
    with pytest.raises(Conflict):
        services.restore(Restore.read({"record_id": first.pk}), caller=alice)
    assert (status(first), status(second), status(fact)) == ("archived", "active", "superseded")


def test_restoring_a_forgotten_middle_of_a_chain_leaves_it_superseded(alice: Caller, fact: MemoryRecord) -> None:
    correct(alice, fact, "Revenue in the sales mart includes refunds.")
    services.forget(Forget(record_id=fact.pk), caller=alice)
    services.restore(Restore(record_id=fact.pk), caller=alice)
    assert status(fact) == Status.SUPERSEDED


def test_the_database_rejects_a_fork_and_a_stale_row_without_reason(alice: Caller, fact: MemoryRecord) -> None:
    correct(alice, fact, "Revenue in the sales mart includes refunds.")
    with pytest.raises(IntegrityError), transaction.atomic():
        MemoryRecord.objects.create(content="A fork of the chain.", created_by="x@example.org", supersedes=fact)
    with pytest.raises(IntegrityError), transaction.atomic():
        MemoryRecord.objects.filter(pk=fact.pk).update(status=Status.STALE)


# -- stale, verify, erase, move ownership -----------------------------------------------------------------


def test_a_stale_memory_is_reactivated_by_verify_or_revise(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(caller=system_caller(), record_id=fact.pk, reason="the column refund_id was removed")
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == (Status.STALE, "the column refund_id was removed")
    services.verify(Verify(record_id=fact.pk, note="looked at it"), caller=alice)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason, fact.stale_at) == (Status.ACTIVE, "", None)
    assert fact.last_verified_at is not None
    services.mark_stale(caller=system_caller(), record_id=fact.pk, reason="again")
    services.revise(Revise(record_id=fact.pk, content="Revenue excludes refunds since May."), caller=alice)
    assert status(fact) == Status.ACTIVE


def test_the_same_text_given_again_leaves_a_memory_stale(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(caller=system_caller(), record_id=fact.pk, reason="the column refund_id was removed")
    services.revise(Revise(record_id=fact.pk, content=fact.content, tags=["revenue"]), caller=alice)
    assert status(fact) == Status.STALE


def test_the_refusal_to_change_a_superseded_memory_leads_to_its_correction(alice: Caller, fact: MemoryRecord) -> None:
    """An obedient agent must not forget a correction in order to change what it has corrected."""
    newer = services.supersede(Supersede(record_id=fact.pk, content="Revenue includes refunds."), caller=alice).record
    for refused in (
        lambda: services.revise(Revise(record_id=fact.pk, content="Revenue is something else."), caller=alice),
        lambda: services.restore(Restore(record_id=fact.pk), caller=alice),
        lambda: services.verify(Verify(record_id=fact.pk), caller=alice),
    ):
        with pytest.raises(Conflict, match=f"superseded by {newer.pk.hex}: change that one"):
            refused()  # type: ignore[no-untyped-call]  # a lambda
    services.revise(Revise(record_id=newer.pk, content="Revenue includes refunds since May."), caller=alice)
    assert (status(fact), status(newer)) == (Status.SUPERSEDED, Status.ACTIVE)


def test_a_text_that_states_a_secret_is_private_in_every_way_in(alice: Caller, fact: MemoryRecord) -> None:
    text = "The warehouse password is hunter22!"
    stored = services.remember(Remember(content=text), caller=alice)
    assert (stored.record.visibility, "so it is private" in stored.note) == (Visibility.PRIVATE, True)
    revised = services.revise(Revise(record_id=fact.pk, content=f"{text} Since May."), caller=alice)
    assert (revised.visibility, "so it is private" in revised.edit_note) == (Visibility.PRIVATE, True)
    other = services.remember(Remember(content="Stock is counted at four in the morning."), caller=alice).record
    newer = services.supersede(Supersede(record_id=other.pk, content=f"{text} Since June."), caller=alice)
    assert (newer.record.visibility, "so it is private" in newer.note) == (Visibility.PRIVATE, True)
    ((bulk, _),) = remember_many(caller=alice, facts=[{"content": f"{text} Since July."}])
    assert bulk.visibility == Visibility.PRIVATE
    services.share(Share(record_id=bulk.pk, visibility="persona"), caller=alice)  # its owner knows better
    bulk.refresh_from_db()
    assert bulk.visibility == Visibility.PERSONA


def test_erase_removes_every_trace_of_the_text(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(Revise(record_id=fact.pk, content="The secret salary list is here."), caller=alice)
    event = AuditEvent.objects.create(
        channel="mcp",
        tool="memory_manage",
        outcome="ok",
        duration_ms=1,
        arguments={"content": "secret"},
        record_ids=[fact.pk],
    )
    with pytest.raises(Invalid, match="confirm"):
        erasure.erase(Erase.read({"record_id": fact.pk}), caller=alice)
    erasure.erase(Erase(record_id=fact.pk, confirm=True), caller=alice)
    event.refresh_from_db()
    assert not MemoryRecord.objects.exists()
    assert not MemoryRevision.objects.exists()
    assert event.arguments == {"erased": True}
    tombstone = Tombstone.objects.get()
    assert (tombstone.record_id, tombstone.erased_by) == (fact.pk, "alice@example.org")


def test_erasing_the_middle_of_a_chain_links_its_neighbors(alice: Caller, fact: MemoryRecord) -> None:
    middle = correct(alice, fact, "Revenue in the sales mart includes refunds.")
    last = correct(alice, middle, "Revenue in the sales mart includes some refunds.")
    erasure.erase(Erase(record_id=middle.pk, confirm=True), caller=alice)
    last.refresh_from_db()
    fact.refresh_from_db()
    assert (last.supersedes, fact.superseded_by) == (fact, last.pk)


def test_ownership_can_be_moved_and_moved_back(alice: Caller, ada: Caller, fact: MemoryRecord) -> None:
    with pytest.raises(Forbidden):
        ownership.hand_over(caller=alice, old="alice@example.org", new="new@example.org")
    moved = ownership.hand_over(caller=ada, old="alice@example.org", new="New@Example.org")
    assert moved.counts == {"memories": 1}
    fact.refresh_from_db()
    assert (fact.created_by, fact.metadata) == ("new@example.org", {"legacy_created_by": "alice@example.org"})
    ownership.undo_hand_over(caller=ada, hand_over_id=moved.pk)
    fact.refresh_from_db()
    assert (fact.created_by, fact.metadata) == ("alice@example.org", {})


def test_expired_memories_are_not_recalled(alice: Caller, fact: MemoryRecord) -> None:
    from memories.retrieval.scope import Filters, in_scope

    MemoryRecord.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert not in_scope(alice, Filters()).exists()


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
    results = run_concurrently(*[lambda: services.remember(Remember(content=REFUNDS), caller=alice) for _ in range(4)])
    assert sorted(result.existing for result in results) == [False, True, True, True]
    assert MemoryRecord.objects.count() == 1


def test_the_text_of_a_stale_memory_is_not_stored_a_second_time(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(caller=system_caller(), record_id=fact.pk, reason="the table moved")
    answer = services.remember(Remember(content=REFUNDS), caller=alice)
    assert (answer.existing, answer.record) == (True, fact)


def test_a_restored_memory_without_vectors_waits_for_them(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    record = services.remember(Remember(content=REFUNDS), caller=alice).record
    services.forget(Forget(record_id=record.pk), caller=alice)
    IndexJob.objects.all().delete()  # an archived memory needs no vectors
    services.restore(Restore(record_id=record.pk), caller=alice)
    assert IndexJob.objects.get().source_id == record.pk


def test_new_metadata_alone_leaves_a_memory_stale(alice: Caller, fact: MemoryRecord) -> None:
    services.mark_stale(caller=system_caller(), record_id=fact.pk, reason="the table moved")
    services.revise(Revise(record_id=fact.pk, metadata={"ticket": 7}), caller=alice)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason, fact.metadata) == (Status.STALE, "the table moved", {"ticket": 7})
