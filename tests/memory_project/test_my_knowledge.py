"""My Knowledge: filters, bulk actions on what matches, passages of hits and saved views. And a memory's usage."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from foundation.operations.errors import Conflict, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.models import Batch, Impression, MemoryRecord
from memories.operations import Remember, Revise
from memories.use import attachments
from memory_project.accounts import saved_views
from memory_project.models import User
from memory_project.portal.pages import default_views
from memory_project.portal.search.passages import MAX_CHARS, excerpt
from tests.pages import browser

pytestmark = pytest.mark.django_db
HOME = "/"


def body(response: Any) -> str:
    assert response.status_code == 200, response.status_code
    return " ".join(response.content.decode().split())


def remember(caller: Caller, count: int, **fields: Any) -> list[MemoryRecord]:
    texts = [f"Till {n} of {caller.email} is closed at {n} o’clock." for n in range(count)]
    return [services.remember(caller, Remember.read({"content": text, **fields})).record for text in texts]


# -- filters -------------------------------------------------------------------------------------------------


def test_each_filter_can_be_removed_alone_and_all_together(alice_user: User, alice: Caller) -> None:
    remember(alice, 1, tags=["tills"], category="correction")
    page = body(
        browser(alice_user).get(HOME, {"category": "correction", "tag": "tills", "owner": "me", "status": "stale"})
    )
    links = re.findall(r'class="filter-chip" href="([^"]+)"', page)
    removed = [set(parse_qs(urlsplit(link.replace("&amp;", "&")).query)) for link in links]
    everything = {"status", "owner", "category", "tag"}
    assert sorted(map(sorted, removed)) == sorted(sorted(everything - {name}) for name in everything)
    assert 'href="/?all=1"' in page


def test_the_last_filter_leads_to_the_whole_list(alice_user: User) -> None:
    page = body(browser(alice_user).get(HOME, {"tag": "tills"}))
    assert re.findall(r'class="filter-chip" href="([^"]+)"', page) == ["/?all=1"]


def test_names_of_filters_are_not_markup(alice_user: User) -> None:
    assert "<script>x" not in body(browser(alice_user).get(HOME, {"tag": "<script>x", "by": "<script>x"}))


# -- bulk actions --------------------------------------------------------------------------------------------


def test_all_matching_memories_of_the_caller_are_selected_and_no_others(
    alice_user: User, alice: Caller, bob: Caller
) -> None:
    matching = remember(alice, 60, tags=["tills"])
    remember(bob, 3, tags=["tills"])
    services.remember(alice, Remember(content="A memory without the tag."))
    client = browser(alice_user)
    page = body(client.get(HOME, {"tag": "tills"}))
    assert ("63 memories" in page, "Select all 60 of your memories that match" in page) == (True, True)
    form = {"act": "retag", "all": "1", "filters": "?tag=tills", "add": "closed", "back_to": "/?tag=tills"}
    preview = body(client.post(reverse("preview-batch"), form))
    assert ("60 memories are selected" in preview, "60 memories will be changed" in preview) == (True, True)
    assert not MemoryRecord.objects.filter(tags__contains=["closed"]).exists()
    fields = dict(re.findall(r'name="(selection|choice)" value="([^"]*)"', preview))
    fields["choice"] = fields["choice"].replace("&quot;", '"')
    client.post(reverse("start-batch"), {"act": "retag", "back_to": "/", **fields})
    changed = set(MemoryRecord.objects.filter(tags__contains=["closed"]).values_list("pk", flat=True))
    assert changed == {row.pk for row in matching}
    client.post(reverse("undo-batch", args=[Batch.objects.get().pk]))
    assert not MemoryRecord.objects.filter(tags__contains=["closed"]).exists()


def test_a_preview_tells_what_is_skipped_and_why(alice_user: User, alice: Caller, bob: Caller) -> None:
    own, other = remember(alice, 2), remember(bob, 1)
    services.revise(alice, Revise(record_id=own[0].pk, visibility="everyone"))
    ids = [row.pk.hex for row in [*own, *other]]
    form = {"act": "share", "ids": ids, "visibility": "everyone"}
    page = body(browser(alice_user).post(reverse("preview-batch"), form))
    assert ("1 memory will be changed." in page, "2 will be skipped." in page) == (True, True)
    assert ("needs no change" in page, "belongs to another user" in page) == (True, True)


def test_a_choice_is_made_before_the_preview(alice_user: User, alice: Caller) -> None:
    (row,) = remember(alice, 1)
    page = body(browser(alice_user).post(reverse("preview-batch"), {"act": "reassign", "ids": row.pk.hex}))
    assert (">Persona</label>" in page, "will be changed" in page) == (True, False)
    bad = {"act": "reassign", "ids": row.pk.hex, "persona": "supply"}
    page = body(browser(alice_user).post(reverse("preview-batch"), bad))
    assert ("0 memories will be changed" in page, "available to you" in page) == (True, True)


@pytest.mark.parametrize("form", [{}, {"ids": "x"}, {"act": "erase"}, {"act": "forget", "selection": "a,b"}])
def test_an_unusable_selection_is_refused(alice_user: User, form: dict[str, str]) -> None:
    response = browser(alice_user).post(reverse("preview-batch"), {"ids": "0" * 32, "act": "x", **form}, follow=True)
    assert response.status_code == 200
    assert Batch.objects.count() == 0


# -- hits ----------------------------------------------------------------------------------------------------

LONG = " ".join(f"Sentence number {n} says nothing in particular." for n in range(40))


def test_an_excerpt_shows_where_the_words_are() -> None:
    text = f"{LONG} Gift cards are booked when they are used. {LONG}"
    assert "Gift cards are booked" in excerpt(text, "gift cards")
    assert excerpt(text, "gift cards").startswith("… ")
    assert excerpt("Short text about gift cards.", "nothing") == "Short text about gift cards."
    assert excerpt(text, "unknown").startswith("Sentence number 0")
    spread = f"gift {LONG} gift card voucher {LONG}"
    assert "gift card voucher" in excerpt(spread, "gift card voucher")


def test_the_passage_that_means_the_same_is_shown_unless_the_words_are_elsewhere() -> None:
    text = f"{LONG} Vouchers count late. {LONG} Gift cards are booked. {LONG}"
    start = text.index("Vouchers")
    passage = (start, start + len("Vouchers count late."))
    assert excerpt(text, "coupons", passage) == "… Vouchers count late. …"
    assert "Gift cards" in excerpt(text, "gift cards", passage)


@pytest.mark.parametrize("query", ["", "[", "a" * 5000, "\\", "of", "gift (cards"])
@pytest.mark.parametrize("text", ["", "x" * 5000, "of " * 2000, "ﬃ" * 400, "gift " * 900])
def test_an_excerpt_is_short_for_every_text(text: str, query: str) -> None:
    assert len(excerpt(text, query)) <= MAX_CHARS + 4


# -- saved views ---------------------------------------------------------------------------------------------


def test_my_knowledge_opens_with_the_default_view(alice_user: User, alice: Caller, bob: Caller) -> None:
    view = saved_views.save(alice, name="Mine", page="my-knowledge", query="owner=me")
    client = browser(alice_user)
    assert client.get(HOME).status_code == 200
    client.post(reverse("default-view", args=[view.pk]), {"is_default": "1"})
    assert client.get(HOME)["Location"] == "/?owner=me"
    assert client.get(HOME, {"all": "1"}).status_code == 200
    assert client.get(HOME, headers={"HX-Request": "true"}).status_code == 200
    with pytest.raises(NotFound):
        default_views.set_default(bob, view_id=view.pk, is_default=True)
    client.post(reverse("default-view", args=[view.pk]), {"is_default": "0"})
    assert client.get(HOME).status_code == 200


def test_a_default_view_goes_with_its_view(alice: Caller) -> None:
    views = [saved_views.save(alice, name=n, page="my-knowledge", query="owner=me") for n in "ab"]
    for view in views:
        default_views.set_default(alice, view_id=view.pk, is_default=True)
    assert default_views.default_view(alice, "my-knowledge") == views[1]
    saved_views.remove(alice, view_id=views[1].pk)
    assert default_views.default_view(alice, "my-knowledge") is None


def test_a_view_is_renamed_by_its_owner(alice_user: User, alice: Caller, bob: Caller) -> None:
    views = [saved_views.save(alice, name=n, page="my-knowledge", query="owner=me") for n in "ab"]
    saved_views.rename(alice, view_id=views[0].pk, name="c")
    with pytest.raises(Conflict, match="already the name"):
        saved_views.rename(alice, view_id=views[0].pk, name="b")
    with pytest.raises(NotFound):
        saved_views.rename(bob, view_id=views[0].pk, name="x")
    client = browser(alice_user)
    page = body(client.post(reverse("rename-view", args=[views[0].pk]), {"name": ""}, follow=True))
    assert "Name" in page
    assert [view.name for view in alice_user.saved_views.all()] == ["b", "c"]


# -- where a memory was used ---------------------------------------------------------------------------------


def impression(record: MemoryRecord, *people: str) -> None:
    rows = [Impression(record=record, connection="c", to=to, tool="analysis_query", version="v") for to in people]
    Impression.objects.bulk_create(rows)


def test_owners_see_counts_of_others_and_other_readers_their_own(
    alice_user: User, bob_user: User, fact: MemoryRecord
) -> None:
    impression(fact, "bob@example.org", "bob@example.org", "cy@example.org", "alice@example.org")
    address = reverse("memory", args=[fact.pk])
    owner, reader = body(browser(alice_user).get(address)), body(browser(bob_user).get(address))
    assert ("3 times in the last 30 days" in owner, "for 2 people" in owner) == (True, True)
    assert ("bob@" in owner, "cy@" in owner) == (False, False)
    assert ("2 times in the last 30 days" in reader, "other people" in reader, "cy@" in reader) == (True, False, False)
    assert reader.count("analysis_query") == 2


def test_counts_of_others_are_for_the_owner_and_admins(alice: Caller, bob: Caller, ada: Caller, fact: Any) -> None:
    impression(fact, "cy@example.org")
    assert [attachments.usage_of(caller, fact).others for caller in (alice, bob, ada)] == [1, 0, 1]


def test_the_heading_is_the_claim(alice_user: User, alice: Caller) -> None:
    short = services.remember(alice, Remember(content="net_revenue leaves out <refunds> & tax.")).record
    page = body(browser(alice_user).get(reverse("memory", args=[short.pk])))
    assert '<h1 class="fact" dir="auto">net_revenue leaves out &lt;refunds&gt; &amp; tax.</h1>' in page
    long = services.remember(alice, Remember(content="# Title\n\n**All** " + "words " * 60)).record
    page = body(browser(alice_user).get(reverse("memory", args=[long.pk])))
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", page)
    assert heading
    assert (heading[1].startswith("Title All words"), heading[1].endswith("…"), len(heading[1])) == (True, True, 120)


# -- queries -------------------------------------------------------------------------------------------------


def test_pages_need_few_queries_however_many_rows(
    alice_user: User, alice: Caller, fact: MemoryRecord, django_assert_max_num_queries: Any
) -> None:
    client = browser(alice_user)
    saved_views.save(alice, name="Mine", page="my-knowledge", query="owner=me")
    remember(alice, 60, tags=["tills"])
    for address in (HOME, "/?tag=tills&owner=me", reverse("saved-views"), reverse("memory", args=[fact.pk])):
        client.get(address)
        with django_assert_max_num_queries(12):
            client.get(address)
