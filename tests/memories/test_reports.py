"""Reports of agents: memories that they used, and that proved wrong or outdated."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from foundation.database import identity, retention
from foundation.operations.errors import DomainError, Invalid, NotFound, TooManyRequests
from foundation.people.caller import CURATE, Caller
from knowledge.freshness import stale_review
from knowledge.news import analyst
from knowledge.news.period import last_seven_days
from memories import services
from memories.mcp_tools import memory_feedback
from memories.models import MemoryRecord, Report
from memories.operations import Erase, RecallMemories, Remember, ReportMemories, Revise, Share, Verify
from memories.retrieval.recall import recall
from memories.use import reports
from memories.use.reports import report, reports_about
from memories.writing import erasure, hand_overs
from memory_project.models import Notification, User

pytestmark = pytest.mark.django_db
REFUSED = "00000000000000000000000000000000"


@pytest.fixture
def curator(bob: Caller) -> Caller:
    return replace(bob, email="cora@example.org", rights=frozenset({CURATE}))


def notices() -> list[tuple[str, str]]:
    return list(Notification.objects.filter(kind="reported").values_list("person__email", "by"))


def test_one_call_reports_several_memories_and_repeating_it_adds_nothing(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    other = services.remember(alice, Remember(content="Gift cards are booked as revenue.")).record
    call = {"used": [fact.pk.hex, other.pk.hex, fact.pk.hex], "outdated": [other.pk.hex], "note": "since May"}
    assert memory_feedback(bob, **call) == {"reported": {"used": 2, "outdated": 1}, "repeated": 0, "withdrawn": 0}
    assert memory_feedback(bob, **call) == {"reported": {}, "repeated": 3, "withdrawn": 0}
    assert notices() == [(alice.email, bob.email)]
    # A repeated report corrects its note.
    memory_feedback(bob, outdated=[other.pk.hex], note="since June")
    assert sorted(Report.objects.values_list("verdict", "note")) == [
        ("outdated", "since June"), ("used", ""), ("used", ""),
    ]  # fmt: skip


def test_a_report_changes_neither_recall_nor_status(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    before = [(hit.record.pk, hit.score) for hit in recall(bob, RecallMemories(query="refunds")).hits]
    for caller in (alice, bob):
        report(caller, ReportMemories(used=[fact.pk], wrong=[fact.pk], outdated=[fact.pk]))
    assert [(hit.record.pk, hit.score) for hit in recall(bob, RecallMemories(query="refunds")).hits] == before
    fact.refresh_from_db()
    assert (fact.status, fact.revisions.count()) == ("active", 0)


@pytest.mark.parametrize("name", ["used", "wrong", "outdated", "withdraw"])
def test_a_memory_of_others_is_refused_like_a_missing_one_and_nothing_is_stored(
    name: str, olga: Caller, fact: MemoryRecord
) -> None:
    own = services.remember(olga, Remember(content="Our warehouses count on Mondays.")).record
    messages = []
    for foreign in (fact.pk.hex, REFUSED):
        with pytest.raises(NotFound) as caught:
            memory_feedback(olga, **{"used": [own.pk.hex], name: [own.pk.hex, foreign][name == "withdraw" :]})
        messages.append(caught.value.message.replace(foreign, "ID"))
    assert messages == [f"{name}: no such memory: ID"] * 2
    assert not Report.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "used"),
        ({"used": ["x"]}, "used[0]"),
        ({"used": [f"{n:032x}" for n in range(51)]}, "used"),
        ({"used": [REFUSED], "note": "It helped."}, "note"),
        ({"wrong": [REFUSED], "note": "x" * 501}, "note"),
        ({"used": [REFUSED], "withdraw": [REFUSED]}, "withdraw"),
        ({"useful": [REFUSED]}, "useful"),
    ],
)
def test_bad_input_names_its_field(arguments: dict[str, object], field: str, bob: Caller) -> None:
    with pytest.raises(Invalid) as caught:
        memory_feedback(bob, **arguments)
    assert caught.value.field == field


def test_a_person_can_make_a_limited_number_of_reports_a_day(
    bob: Caller, fact: MemoryRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MAX_A_DAY", 2)
    report(bob, ReportMemories(used=[fact.pk], wrong=[fact.pk]))
    report(bob, ReportMemories(used=[fact.pk]))  # a repetition
    with pytest.raises(TooManyRequests) as caught:
        report(bob, ReportMemories(outdated=[fact.pk]))
    assert 0 < caught.value.retry_after_s <= 86_400
    Report.objects.update(day=timezone.now().date() - timedelta(days=1))
    report(bob, ReportMemories(outdated=[fact.pk]))


def test_owner_and_curators_see_who_doubts_a_memory_but_not_who_uses_it(
    alice: Caller, bob: Caller, curator: Caller, olga: Caller, fact: MemoryRecord
) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility="everyone"))
    report(olga, ReportMemories(used=[fact.pk], outdated=[fact.pk], note="since May"))
    report(bob, ReportMemories(used=[fact.pk]))
    for caller in (alice, curator):
        found = reports_about(caller, fact)
        assert (found.used, found.used_by, found.own) == (2, 2, 0)
        assert [(one.by, one.note) for one in found.doubts] == [(olga.email, "since May")]
    colleague = reports_about(bob, fact)
    assert (colleague.sees_all, colleague.used, colleague.own, colleague.doubts) == (False, 1, 1, [])
    with identity.acting_as(bob):  # also a query without a condition
        assert {row.by for row in Report.objects.all()} == {bob.email}
    foreign_curator = replace(olga, email="curt@example.org", rights=frozenset({CURATE}))
    assert not reports_about(foreign_curator, fact).doubts


def test_two_people_within_a_month_put_a_memory_into_the_queue(
    alice: Caller, bob: Caller, olga: Caller, curator: Caller, fact: MemoryRecord
) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility="everyone"))
    report(bob, ReportMemories(wrong=[fact.pk], outdated=[fact.pk]))
    assert not stale_review.needs_verification(alice).exists()
    report(olga, ReportMemories(outdated=[fact.pk], note="moved"))
    assert list(stale_review.needs_verification(alice)) == [fact]
    (request,) = stale_review.verification_requests(curator, list(stale_review.to_verify(curator)))
    assert {one.by for one in request.reports} == {bob.email, olga.email}
    assert not stale_review.needs_verification(bob).exists()
    Report.objects.filter(by=bob.email).update(at=timezone.now() - timedelta(days=31))
    assert not stale_review.needs_verification(alice).exists()
    report(olga, ReportMemories(withdraw=[fact.pk]))
    assert (Report.objects.filter(by=olga.email).exists(), notices()) == (False, [(alice.email, bob.email)])


def test_withdrawing_a_report_leaves_the_notification_about_that_of_somebody_else(
    alice: Caller, bob: Caller, curator: Caller, fact: MemoryRecord
) -> None:
    for caller in (bob, curator, alice):
        report(caller, ReportMemories(wrong=[fact.pk]))
    assert notices() == [(alice.email, bob.email)]  # one unread notification is enough, and none is about one's own
    report(alice, ReportMemories(withdraw=[fact.pk]))
    report(bob, ReportMemories(withdraw=[fact.pk]))
    assert notices() == [(alice.email, curator.email)]
    report(curator, ReportMemories(withdraw=[fact.pk]))
    assert notices() == []


@pytest.mark.parametrize("settled_by", ["verify", "revise"])
def test_verifying_or_rewording_a_memory_settles_its_reports(
    settled_by: str, alice: Caller, bob: Caller, curator: Caller, fact: MemoryRecord
) -> None:
    for caller in (bob, curator):
        report(caller, ReportMemories(wrong=[fact.pk]))
    if settled_by == "verify":
        services.verify(alice, Verify(record_id=fact.pk))
    else:
        services.revise(alice, Revise(record_id=fact.pk, content="Revenue includes refunds since May."))
    fact.refresh_from_db()
    assert not stale_review.needs_verification(alice).exists()
    assert [one.is_settled for one in reports_about(alice, fact).doubts] == [True, True]
    assert notices() == []  # nobody had read them
    if settled_by == "revise":  # the same report on the same day, about the new text
        assert report(bob, ReportMemories(wrong=[fact.pk])).added == {"wrong": 1}
        assert notices() == [(alice.email, bob.email)]


def test_the_week_lists_reports_about_ones_own_memories(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    report(bob, ReportMemories(wrong=[fact.pk], used=[fact.pk], note="no"))
    (doubt,) = analyst.doubts(alice, last_seven_days())
    assert (doubt.by, doubt.note, doubt.record) == (bob.email, "no", fact)
    assert not analyst.doubts(bob, last_seven_days())


def test_the_page_of_a_memory_shows_reports_and_withdraws_ones_own(
    alice_user: User, bob: Caller, bob_user: User, fact: MemoryRecord, client: Client
) -> None:
    report(bob, ReportMemories(wrong=[fact.pk], used=[fact.pk], note="<b>refunds</b> are in"))
    client.force_login(alice_user)
    page = client.get(f"/memories/{fact.pk.hex}/").content.decode()
    assert "used 1, wrong 1, outdated 0" in page
    assert "&lt;b&gt;refunds&lt;/b&gt; are in" in page
    assert "Withdraw them" not in page
    client.force_login(bob_user)
    assert "Withdraw them" in client.get(f"/memories/{fact.pk.hex}/").content.decode()
    client.post(f"/memories/{fact.pk.hex}/withdraw-reports/")
    assert not Report.objects.exists()


def test_the_admin_filters_reported_memories(
    ada_user: User, bob: Caller, curator: Caller, fact: MemoryRecord, client: Client
) -> None:
    report(bob, ReportMemories(wrong=[fact.pk], note="refunds are in"))
    client.force_login(ada_user)
    address = "/admin/memories/memoryrecord/"

    def count(query: str) -> int:
        return int(client.get(address + query).context["cl"].result_count)

    assert (count("?reported=1"), count("?reported=2")) == (1, 0)
    client.post(address, {"choose-columns": "save", "column": ["fact", "reported"]})
    assert '<td class="field-reported">1</td>' in client.get(address).content.decode()
    report(curator, ReportMemories(outdated=[fact.pk]))
    assert count("?reported=2") == 1
    assert "refunds are in" in client.get(f"{address}{fact.pk}/change/").content.decode()


def test_reports_go_with_their_memory_and_with_time(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    report(bob, ReportMemories(used=[fact.pk], wrong=[fact.pk]))
    Report.objects.update(at=timezone.now() - timedelta(days=31))
    retention.delete_expired()
    assert list(Report.objects.values_list("verdict", flat=True)) == ["wrong"]
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert not Report.objects.exists()


def test_reports_follow_their_memory_to_its_heir_and_keep_their_author(
    alice: Caller, bob: Caller, olga: Caller, ada: Caller, fact: MemoryRecord
) -> None:
    report(bob, ReportMemories(wrong=[fact.pk], note="no"))
    hand_overs.hand_over(ada, old=alice.email, new=olga.email)
    fact.refresh_from_db()
    assert [one.by for one in reports_about(olga, fact).doubts] == [bob.email]
    with identity.acting_as(alice):
        assert not Report.objects.exists()


def test_a_report_needs_a_person(fact: MemoryRecord) -> None:
    nobody = Caller(email="", persona="", personas=frozenset())
    with pytest.raises(DomainError):
        report(nobody, ReportMemories(used=[fact.pk]))
