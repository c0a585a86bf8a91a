"""Memories follow their source, except where a person has changed them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import Caller
from foundation.work import jobs
from knowledge.insights.capture import capture
from knowledge.models import Insight
from knowledge.operations import Capture
from memories import services as memories
from memories.models import MemoryRecord, Status
from memories.operations import Erase, Forget, Remember, Restore, Revise, Share, Supersede
from memories.writing import hand_overs
from memories.writing.erasure import erase
from memory_project.exchange.subscriptions import operations, services, synchronization, tasks
from memory_project.exchange.subscriptions.models import RunState, Subscription, SubscriptionItem, SubscriptionRun
from memory_project.models import User
from tests.memory_project.subscriptions.conftest import CLOSING, ORDERS, REFUNDS, commit, git, memory_of, subscribe

pytestmark = pytest.mark.django_db
Sync = Callable[..., SubscriptionRun]
NEW_REFUNDS = "# Refunds\n\nRefunds are booked on the day of the refund."


def test_files_become_memories_with_their_origin(folder: Subscription, sync: Sync) -> None:
    run = sync(folder)
    assert (run.state, run.counts) == (RunState.DONE, {"new": 3}), run.error
    record = memory_of("adr/orders.md")
    assert (record.content, record.created_by, record.persona) == (ORDERS, "ada@example.org", "sales")
    assert record.metadata["origin"]["path"] == "adr/orders.md"
    assert sync(folder).counts == {"unchanged": 3}
    assert MemoryRecord.objects.count() == 3


def test_the_page_of_a_memory_shows_its_file_to_every_reader(
    folder: Subscription, sync: Sync, client: Client, bob_user: User
) -> None:
    sync(folder)
    client.force_login(bob_user)
    page = client.get(reverse("memory", args=[memory_of("adr/orders.md").pk])).content.decode()
    assert "<code>adr/orders.md</code>" in page


def test_changed_files_supersede_and_removed_files_are_forgotten(folder: Subscription, docs: Path, sync: Sync) -> None:
    sync(folder)
    old, gone = memory_of("refunds.md"), memory_of("adr/closing.md")
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    (docs / "adr" / "closing.md").unlink()
    assert sync(folder, plan=True).counts == {"changed": 1, "removed": 1, "unchanged": 1}
    assert memory_of("refunds.md") == old  # a plan changes nothing
    assert sync(folder).counts == {"changed": 1, "removed": 1, "unchanged": 1}
    old.refresh_from_db()
    gone.refresh_from_db()
    assert (old.status, old.superseded_by, gone.status) == ("superseded", memory_of("refunds.md").pk, "archived")
    assert memory_of("refunds.md").content == NEW_REFUNDS
    assert sync(folder).counts == {"unchanged": 2}


def test_a_renamed_file_keeps_its_memory(folder: Subscription, docs: Path, sync: Sync) -> None:
    (docs / "untitled.md").write_text("A text without any heading at all.")
    sync(folder)
    before = {name: memory_of(name).pk for name in ("refunds.md", "untitled.md")}
    (docs / "refunds.md").rename(docs / "adr" / "returns.md")
    (docs / "untitled.md").rename(docs / "adr" / "titled.md")
    assert sync(folder).counts == {"renamed": 2, "unchanged": 2}
    assert memory_of("adr/returns.md").pk == before["refunds.md"]
    assert memory_of("adr/titled.md").pk == before["untitled.md"]
    assert memory_of("adr/titled.md").content.startswith("# titled")
    assert memory_of("adr/returns.md").metadata["origin"]["path"] == "adr/returns.md"
    assert sync(folder).counts == {"unchanged": 4}


def edit(record: MemoryRecord, caller: Caller) -> None:
    memories.revise(caller, Revise(record_id=record.pk, content="Refunds are booked by hand."))


def correct(record: MemoryRecord, caller: Caller) -> None:
    memories.supersede(caller, Supersede(record_id=record.pk, content="Refunds are booked by hand."))


def forget(record: MemoryRecord, caller: Caller) -> None:
    memories.forget(caller, Forget(record_id=record.pk))


def remove(record: MemoryRecord, caller: Caller) -> None:
    erase(caller, Erase(record_id=record.pk, confirm=True))


@pytest.mark.parametrize("act", [edit, correct, forget, remove])
def test_a_persons_version_wins(
    act: Callable[[MemoryRecord, Caller], None], folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    act(memory_of("refunds.md"), ada)
    before = set(MemoryRecord.objects.values_list("pk", "status", "content"))
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    run = sync(folder)
    assert run.counts == {"conflicting": 1, "unchanged": 2}
    assert run.report[0]["text"] == "refunds.md"
    (docs / "refunds.md").rename(docs / "moved.md")
    sync(folder)
    (docs / "moved.md").unlink()
    sync(folder)
    (docs / "refunds.md").write_text(REFUNDS)
    sync(folder)
    assert set(MemoryRecord.objects.values_list("pk", "status", "content")) == before


def test_a_file_that_gets_a_text_of_its_owner_gives_up_its_memory(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    before = memory_of("refunds.md")
    own = memories.remember(ada, Remember(content=NEW_REFUNDS)).record
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    assert sync(folder).counts == {"changed": 1, "unchanged": 2}
    before.refresh_from_db()
    assert before.status == "archived"
    assert memory_of("refunds.md") == own
    assert sync(folder).counts == {"unchanged": 3}
    (docs / "refunds.md").unlink()
    sync(folder)
    own.refresh_from_db()
    assert own.status == "active"


def test_a_proposal_that_waits_with_the_new_text_leaves_the_file_its_memory(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    before = memory_of("refunds.md")
    capture(ada, Capture.read({"insight_text": NEW_REFUNDS, "category": "correction"}))
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    assert sync(folder).counts == {"changed": 1, "unchanged": 2}
    before.refresh_from_db()
    assert (before.status, before.superseded_by) == ("superseded", memory_of("refunds.md").pk)


def test_an_erased_text_does_not_come_back_under_another_name(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    remove(memory_of("refunds.md"), ada)
    (docs / "copy.md").write_text(REFUNDS)
    (docs / "refunds.md").write_text(REFUNDS + "\n\n## Long\n\n" + "word " * 1_500)  # now it is several memories
    assert sync(folder).counts["conflicting"] >= 2
    assert not MemoryRecord.objects.filter(content__contains="Refunds are booked").exists()


def test_a_restored_memory_follows_its_file_again(folder: Subscription, docs: Path, sync: Sync, ada: Caller) -> None:
    sync(folder)
    record = memory_of("refunds.md")
    forget(record, ada)
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    assert sync(folder).counts["conflicting"] == 1
    memories.restore(ada, Restore(record_id=record.pk))
    assert sync(folder).counts["changed"] == 1
    assert memory_of("refunds.md").content == NEW_REFUNDS


def test_tags_that_a_person_has_changed_stay(folder: Subscription, docs: Path, sync: Sync, ada: Caller) -> None:
    (docs / "refunds.md").write_text(f"---\ntags: [a]\ncategory: correction\n---\n{REFUNDS}")
    sync(folder)
    memories.revise(ada, Revise(record_id=memory_of("refunds.md").pk, tags=["mine"]))
    (docs / "refunds.md").write_text(f"---\ntags: [b]\ncategory: general\n---\n{NEW_REFUNDS}")
    assert sync(folder).counts == {"changed": 1, "conflicting": 1, "unchanged": 2}
    record = memory_of("refunds.md")
    assert (record.tags, record.category, record.content) == (["mine"], "general", NEW_REFUNDS)


def test_a_correction_of_an_approved_memory_is_proposed_once(folder: Subscription, docs: Path, sync: Sync) -> None:
    sync(folder)
    record = memory_of("refunds.md")
    reviewed = {"reviewed_by": "cora@example.org", "reviewed_at": timezone.now()}
    Insight.objects.create(record=record, state="approved", wanted_visibility="persona", **reviewed)
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    assert "waits for a curator" in sync(folder).report[0]["why"]
    run = sync(folder)
    assert run.counts == {"conflicting": 1, "unchanged": 2}
    assert "proposed for review" in run.report[0]["why"]
    assert Insight.objects.filter(replaces=record.pk, state="pending").count() == 1
    assert memory_of("refunds.md") == record


def test_the_headings_of_an_erased_memory_are_not_kept(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    (docs / "long.md").write_text("# Salaries\n\n" + "word " * 1_500 + "\n\n# Anna Zanzibar\n\nShe earns much of it.")
    sync(folder)
    for record in MemoryRecord.objects.filter(content__contains="Zanzibar"):
        remove(record, ada)
    rows = [*SubscriptionItem.objects.values(), *SubscriptionRun.objects.values()]
    assert "long.md" in str(rows)
    assert "Zanzibar" not in str(rows)


def test_a_text_that_a_person_had_stored_before_is_not_forgotten_with_its_file(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    own = memories.remember(ada, Remember(content=REFUNDS)).record
    sync(folder)
    (docs / "refunds.md").unlink()
    sync(folder)
    own.refresh_from_db()
    assert own.status == Status.ACTIVE


def test_a_text_in_two_files_is_forgotten_with_the_second(folder: Subscription, docs: Path, sync: Sync) -> None:
    (docs / "copy.md").write_text(REFUNDS)
    sync(folder)
    record = MemoryRecord.objects.get(content=REFUNDS)
    for name, status in (("refunds.md", "active"), ("copy.md", "archived")):
        (docs / name).unlink()
        sync(folder)
        record.refresh_from_db()
        assert record.status == status


def test_a_memory_that_was_made_private_is_not_published_again(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    (docs / "copy.md").write_text(REFUNDS)
    sync(folder)
    memories.share(ada, Share(record_id=MemoryRecord.objects.get(content=REFUNDS).pk, visibility="private"))
    (docs / "third.md").write_text(REFUNDS)
    sync(folder)
    (docs / "copy.md").write_text(NEW_REFUNDS)  # the other files keep the earlier text
    sync(folder)
    for name in ("refunds.md", "copy.md", "third.md"):
        (docs / name).unlink()
    sync(folder)
    (docs / "again.md").write_text(REFUNDS)
    (docs / "new.md").write_text(NEW_REFUNDS)
    sync(folder)
    refunds = MemoryRecord.objects.filter(content__startswith="# Refunds")
    assert set(refunds.values_list("visibility", flat=True)) == {"private"}
    assert set(refunds.filter(status="active").values_list("content", flat=True)) == {REFUNDS, NEW_REFUNDS}
    assert memory_of("adr/orders.md").visibility == "persona"


def test_the_earlier_text_of_a_private_memory_is_not_published(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    record = memory_of("refunds.md")
    memories.share(ada, Share(record_id=record.pk, visibility="private"))
    memories.revise(ada, Revise(record_id=record.pk, content="Refunds are booked by hand."))
    (docs / "copy.md").write_text(REFUNDS)
    sync(folder)
    assert memory_of("copy.md").visibility == "private"


def test_a_private_memory_stays_private_under_another_subscription(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    memories.share(ada, Share(record_id=memory_of("refunds.md").pk, visibility="private"))
    operation = operations.RemoveSubscription.read({"id": folder.pk.hex, "memories": "forget"})
    services.remove(ada, operation)
    sync(subscribe(ada, "folder", str(docs)))
    assert memory_of("refunds.md").visibility == "private"
    assert memory_of("adr/orders.md").visibility == "persona"


def test_a_run_waits_for_confirmation_if_most_files_are_missing(folder: Subscription, docs: Path, sync: Sync) -> None:
    sync(folder)
    (docs / "refunds.md").unlink()
    (docs / "adr" / "orders.md").unlink()
    run = sync(folder)
    assert (run.state, run.missing_files) == (RunState.HELD, 2)
    assert MemoryRecord.objects.filter(status=Status.ACTIVE).count() == 3
    assert sync(folder, removals=1).state == RunState.HELD
    assert sync(folder, removals=2).state == RunState.DONE
    assert MemoryRecord.objects.filter(status=Status.ACTIVE).count() == 1


def test_files_of_forgotten_memories_are_not_missing(folder: Subscription, docs: Path, sync: Sync, ada: Caller) -> None:
    sync(folder)
    for name in ("refunds.md", "adr/orders.md"):
        forget(memory_of(name), ada)
        (docs / name).unlink()
    assert sync(folder).state == RunState.DONE


def test_a_missing_folder_fails_the_run_and_changes_nothing(folder: Subscription, docs: Path, sync: Sync) -> None:
    sync(folder)
    docs.rename(docs.with_name("moved"))
    run = sync(folder)
    assert (run.state, run.counts) == (RunState.FAILED, {})
    assert "is not a folder" in run.error
    assert MemoryRecord.objects.filter(status=Status.ACTIVE).count() == 3


@pytest.mark.parametrize("after", ["remember_many", "_save"])
def test_the_run_after_a_killed_one_completes_it(
    after: str, folder: Subscription, docs: Path, sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    if after == "_save":
        sync(folder)
        (docs / "refunds.md").write_text(NEW_REFUNDS)
    original = getattr(synchronization, after)

    def killed(*arguments: Any, **options: Any) -> Any:
        if after == "remember_many":
            original(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(synchronization, after, killed)
    with pytest.raises(KeyboardInterrupt):
        sync(folder)
    monkeypatch.setattr(synchronization, after, original)
    assert sync(folder).state == RunState.DONE
    assert sync(folder).counts == {"unchanged": 3}
    assert set(SubscriptionItem.objects.values_list("is_ours", flat=True)) == {True}
    texts = {CLOSING, ORDERS, NEW_REFUNDS if after == "_save" else REFUNDS}
    assert set(MemoryRecord.objects.filter(status="active").values_list("content", flat=True)) == texts


def test_a_git_repository_is_followed(docs: Path, ada: Caller, sync: Sync) -> None:
    commit(docs)
    row = subscribe(ada, "git", f"file://{docs}", subfolder="adr")
    assert sync(row).counts == {"new": 2}
    git(docs, "mv", "adr/orders.md", "adr/purchases.md")
    (docs / "adr" / "closing.md").write_text("# Closing\n\nThe books close on the fifth working day.")
    commit(docs)
    run = sync(row)
    assert (run.counts, len(run.version)) == ({"changed": 1, "renamed": 1}, 40), run.error
    assert memory_of("adr/closing.md").metadata["origin"]["version"] == run.version


def test_only_operators_subscribe_to_allowed_folders_for_their_own_personas(
    docs: Path, alice: Caller, ada: Caller, tmp_path: Path, settings: LazySettings
) -> None:
    with pytest.raises(Forbidden, match="only operators"):
        subscribe(alice, "folder", str(docs))
    with pytest.raises(Forbidden, match="you do not hold the persona"):
        subscribe(ada, "folder", str(docs), persona="nobody")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path)
    for location in (str(tmp_path), str(tmp_path / "allowed" / "link"), "docs", f"{docs}/../.."):
        with pytest.raises(Invalid, match="location"):
            subscribe(ada, "folder", location)
    settings.SUBSCRIPTION_FOLDERS = []
    with pytest.raises(Invalid, match="none until SUBSCRIPTION_FOLDERS is set"):
        subscribe(ada, "folder", str(docs))


def test_a_run_stops_when_the_owner_loses_the_account(folder: Subscription, sync: Sync, ada_user: User) -> None:
    ada_user.is_active = False
    ada_user.save()
    run = sync(folder)
    assert (run.state, run.error) == (RunState.FAILED, "this account is disabled")


def test_a_hand_over_moves_the_subscription(
    folder: Subscription, docs: Path, sync: Sync, ada: Caller, bob: Caller
) -> None:
    sync(folder)
    hand_overs.hand_over(ada, old=ada.email, new=bob.email)
    folder.refresh_from_db()
    (docs / "refunds.md").write_text(NEW_REFUNDS)
    assert sync(folder).counts == {"changed": 1, "unchanged": 2}
    assert memory_of("refunds.md").created_by == bob.email


@pytest.mark.parametrize(("choice", "status"), [("keep", "active"), ("forget", "archived")])
def test_removing_a_subscription_keeps_or_forgets_its_memories(
    choice: str, status: str, folder: Subscription, sync: Sync, ada: Caller
) -> None:
    sync(folder)
    edit(memory_of("refunds.md"), ada)
    services.remove(ada, operations.RemoveSubscription.read({"id": folder.pk.hex, "memories": choice}))
    rows = MemoryRecord.objects.order_by("status").values_list("content", "status")
    expected = {(ORDERS, status), (CLOSING, status), ("Refunds are booked by hand.", "active")}
    assert set(rows) == expected


def test_due_subscriptions_are_queued_once(folder: Subscription) -> None:
    assert (tasks.queue_due(), tasks.queue_due()) == ("1 queued", "0 queued")
    jobs.run()
    assert SubscriptionRun.objects.get().state == RunState.DONE
    services.change(
        Caller(email="ada@example.org", persona="", personas=frozenset(), is_admin=True),
        operations.ChangeSubscription.read({"id": folder.pk.hex, "is_paused": True}),
    )
    Subscription.objects.update(next_run_at=folder.created_at)
    assert tasks.queue_due() == "0 queued"
