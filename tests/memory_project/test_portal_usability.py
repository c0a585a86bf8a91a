"""Import of files, first steps, dates and time zones, live diffs, and highlighted words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from memories import services
from memories.models import Batch, MemoryRecord
from memories.operations import Remember
from memories.writing import bulk_actions
from memory_project.accounts import people
from memory_project.models import AuditEvent, User
from memory_project.portal.templatetags.portal import highlight, moment, text_fragment
from memory_project.web import locale
from tests.pages import browser

pytestmark = pytest.mark.usefixtures("small_catalog")


def test_the_first_steps_disappear_when_they_are_closed(alice_user: User, alice: Caller, bob_user: User) -> None:
    client = browser(alice_user)
    assert [step.is_done for step in client.get("/").context["first_steps"]] == [False] * 4
    services.remember(alice, Remember(content="A fact of my own."))
    assert [step.is_done for step in client.get("/?q=fact").context["first_steps"]] == [True, True, False, False]
    client.post(reverse("close-first-run"))
    assert client.get("/").context["first_steps"] == []
    assert len(browser(bob_user).get("/").context["first_steps"]) == 4


def test_times_are_in_the_time_zone_of_the_user(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    MemoryRecord.objects.filter(pk=fact.pk).update(created_at=datetime(2026, 7, 1, 22, 30, tzinfo=UTC))
    client = browser(alice_user)
    page = reverse("memory", args=[fact.pk])

    def text_of_page(**extra: Any) -> str:
        return client.get(page, **extra).content.decode()

    assert "1 Jul 2026, 22:30:00 UTC" in text_of_page()
    client.cookies["zone"] = "Asia%2FTokyo"
    assert "2 Jul 2026, 07:30:00 JST" in text_of_page()
    people.set_time_zone(alice, name="Europe/Zurich")
    assert "2 Jul 2026, 00:30:00 CEST" in text_of_page()
    assert "02.07.2026, 00:30:00 CEST" in text_of_page(headers={"accept-language": "de-CH,de;q=0.9"})
    client.cookies["zone"] = "../../etc/passwd"
    people.set_time_zone(alice, name="")
    assert "1 Jul 2026, 22:30:00 UTC" in text_of_page(headers={"accept-language": "xx-nonsense;q=hello"})


def test_pages_are_in_the_language_of_the_account_or_else_the_browser(alice: Caller, alice_user: User) -> None:
    client = browser(alice_user)
    account = reverse("account")

    def language(**headers: str) -> str:
        page = client.get(account, headers=headers).content.decode()
        return re.search(r'<html lang="(.*?)"', page)[1]  # type: ignore[index]

    assert language() == "en"
    assert language(accept_language="fr,de-CH;q=0.8,en;q=0.5") == "de"
    people.set_language(alice, code="es")
    assert language(accept_language="de") == "es"
    with pytest.raises(Invalid, match="language"):
        people.set_language(alice, code="../de")


def test_ages_and_numbers_are_localized() -> None:
    now = timezone.now()
    ages = {"5 min": timedelta(minutes=5), "5 h": timedelta(hours=5), "3 d": timedelta(days=3), "2 w": timedelta(20)}
    assert [locale.age(now - ago) for ago in ages.values()] == list(ages)
    numbers: list[str] = []

    def view(request: Any) -> Any:
        numbers.append(locale.number(1234567.5))
        return HttpResponse()

    request = RequestFactory().get("/", headers={"accept-language": "de"})
    request.user = type("Nobody", (), {"is_authenticated": False})()
    locale.localize(view)(request)
    assert (numbers, locale.number(1234567)) == (["1.234.567,5"], "1,234,567")
    assert moment(None, "day", "never") == "never"


def test_matching_words_are_marked_and_other_markup_is_escaped() -> None:
    assert highlight("Refunds <b>and</b> refunding", "a refund b") == (
        "<mark>Refunds</mark> &lt;b&gt;and&lt;/b&gt; <mark>refunding</mark>"
    )
    assert highlight("a (b) [c", "( [ \\") == "a (b) [c"


def test_a_text_fragment_names_the_first_and_last_words_of_a_passage() -> None:
    assert text_fragment("**Year-end**, at 5 & 6") == "#:~:text=Year%2Dend%2C%20at%205%20%26%206"
    assert text_fragment(" ".join("abcdefghij")) == "#:~:text=a%20b%20c%20d,g%20h%20i%20j"


def test_a_correction_shows_a_live_diff(alice_user: User, olga_user: User, fact: MemoryRecord) -> None:
    address = reverse("diff-memory", args=[fact.pk])
    page = browser(alice_user).post(address, {"content": fact.content.replace("excludes", "includes")}).content.decode()
    assert ("<del>" in page, "includes" in page) == (True, True)
    assert browser(olga_user).post(address, {"content": "x"}).status_code == 404
    assert not AuditEvent.objects.filter(tool__contains="diff").exists()  # reading a diff is not audited


def test_a_memory_is_moved_only_to_a_persona_that_the_user_holds(
    alice: Caller, alice_user: User, ada_user: User, bob_user: User, fact: MemoryRecord
) -> None:
    move = reverse("change-memory", args=[fact.pk, "reassign"])
    browser(alice_user).post(move, {"persona": "supply"})  # Alice does not hold this persona
    browser(bob_user).post(move, {"persona": "supply"})
    fact.refresh_from_db()
    assert fact.persona == "sales"
    browser(ada_user).post(move, {"persona": "supply"})
    fact.refresh_from_db()
    assert (fact.persona, fact.revisions.get().details["persona"]) == ("supply", "sales")
    assert browser(bob_user).get(reverse("memory", args=[fact.pk])).status_code == 404


def test_sharing_and_moving_can_be_undone(ada: Caller, ada_user: User, alice: Caller, fact: MemoryRecord) -> None:
    for action, choice, column, before in (
        ("share", "everyone", "visibility", "persona"),
        ("reassign", "supply", "persona", "sales"),
    ):
        batch = bulk_actions.start(ada, act=action, unit_ids=[fact.pk], choice=choice)
        fact.refresh_from_db()
        assert getattr(fact, column) == choice
        bulk_actions.undo(ada, batch_id=batch.pk)
        fact.refresh_from_db()
        assert getattr(fact, column) == before
    assert Batch.objects.count() == 4


@pytest.mark.parametrize(
    ("act", "fields", "said"),
    [
        ("forget", {}, "Forgotten."),
        ("share", {"visibility": "everyone"}, "Everyone may read the memory now."),
        ("verify", {}, "Verified as still true."),
    ],
)
def test_the_next_page_offers_to_undo_a_change(
    alice_user: User, fact: MemoryRecord, act: str, fields: dict[str, str], said: str
) -> None:
    before = MemoryRecord.objects.filter(pk=fact.pk).values("status", "visibility", "last_verified_at").get()
    browser = Client()
    browser.force_login(alice_user)
    page = browser.post(f"/memories/{fact.pk}/{act}/", fields, follow=True).content.decode()
    assert said in page
    assert f'action="/memories/{fact.pk}/undo/"' in page
    assert f'name="change" value="{act}"' in page
    undone = browser.post(f"/memories/{fact.pk}/undo/", {"change": act}, follow=True).content.decode()
    assert "Undone." in undone
    assert f'action="/memories/{fact.pk}/undo/"' not in undone
    assert MemoryRecord.objects.filter(pk=fact.pk).values("status", "visibility", "last_verified_at").get() == before


def test_a_correction_is_undone_on_its_page(alice_user: User, fact: MemoryRecord) -> None:
    browser = Client()
    browser.force_login(alice_user)
    corrected = {"correct": "1", "content": "A corrected text of the fact.", "dimension": fact.dimension}
    corrected |= {"category": fact.category, "confidence": fact.confidence, "visibility": fact.visibility}
    answer = browser.post(f"/memories/{fact.pk}/edit/", corrected, follow=True)
    new = MemoryRecord.objects.get(supersedes=fact)
    assert answer.request["PATH_INFO"] == f"/memories/{new.pk}/"
    assert f'action="/memories/{fact.pk}/undo/"' in answer.content.decode()
    browser.post(f"/memories/{fact.pk}/undo/", {"change": "supersede"})
    assert MemoryRecord.objects.get(pk=fact.pk).status == "active"
    assert MemoryRecord.objects.get(pk=new.pk).status == "archived"


def test_what_has_changed_nothing_offers_no_undo(alice_user: User, fact: MemoryRecord) -> None:
    browser = Client()
    browser.force_login(alice_user)
    page = browser.post(f"/memories/{fact.pk}/share/", {"visibility": fact.visibility}, follow=True).content.decode()
    assert "may read the memory now" in page
    assert f'action="/memories/{fact.pk}/undo/"' not in page
