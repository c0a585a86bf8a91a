"""The semantic cache: hits for questions that say the same, and near questions for the agent to judge."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from memories.conversation.models import CachedAnswer, CacheUse
from tests.memories.conversation.conftest import call

pytestmark = pytest.mark.django_db
SHIPPED = {"query": "How many orders did Anna ship from Hamburg to Munich before the audit?", "response": "12"}


@pytest.mark.parametrize(
    ("question", "differs"),
    [
        ("How many orders did Anna ship from Hamburg to Munich after the audit?", "before against after"),
        ("How many orders did Anna ship from Munich to Hamburg before the audit?", "the same words in another order"),
        ("How many orders did Anna not ship from Hamburg to Munich before the audit?", "“not” on one side only"),
        ("How many orders did Ben ship from Hamburg to Munich before the audit?", "anna against ben"),
        ("How many parcels did Anna ship from Hamburg to Munich before the audit?", "orders against parcels"),
    ],
)
def test_another_question_is_near_and_says_what_differs(alice: Caller, question: str, differs: str) -> None:
    call(alice, "store_cache", **SHIPPED)
    response = call(alice, "check_cache", query=question, similarity_threshold=0.0)
    (near,) = response["near"]
    assert set(response) == {"cache_hit", "near"}
    assert set(near) == {"question", "similarity", "differs", "cache_id"}
    assert (response["cache_hit"], near["question"], near["differs"]) == (False, SHIPPED["query"], differs)
    assert "12" not in str(near["differs"])


def test_a_question_that_says_the_same_is_a_hit(alice: Caller) -> None:
    call(alice, "store_cache", **SHIPPED)
    question = "How many orders were shipped by Anna from Hamburg to Munich before the audit?"
    hit = call(alice, "check_cache", query=question)
    assert (hit["cache_hit"], hit["query"], hit["response"]) == (True, SHIPPED["query"], "12")
    tightened = call(alice, "check_cache", query=question, similarity_threshold=0.999)
    assert (tightened["cache_hit"], tightened["near"][0]["differs"]) == (False, "only the wording")


def test_the_answer_of_a_near_question_is_fetched_by_its_id(alice: Caller) -> None:
    call(alice, "store_cache", **SHIPPED)
    question = "How many parcels did Anna ship from Hamburg to Munich before the audit?"
    (near,) = call(alice, "check_cache", query=question)["near"]
    chosen = call(alice, "check_cache", query=question, cache_id=near["cache_id"])
    assert chosen == {"cache_hit": True, **SHIPPED, "score": near["similarity"]}
    assert (CacheUse.objects.get().hits, CachedAnswer.objects.get().hits) == (1, 1)


def test_only_an_own_unexpired_answer_is_fetched_by_id(alice: Caller, bob: Caller) -> None:
    cache_id = call(alice, "store_cache", **SHIPPED)["cache_id"]
    for caller, wanted in ((bob, cache_id), (alice, uuid4().hex)):
        with pytest.raises(NotFound, match="cache_id"):
            call(caller, "check_cache", query="parcels", cache_id=wanted)
    assert "near" not in call(bob, "check_cache", query=SHIPPED["query"])
    CachedAnswer.objects.filter(pk=UUID(cache_id)).update(expires_at=timezone.now())
    with pytest.raises(NotFound):
        call(alice, "check_cache", query="parcels", cache_id=cache_id)


def test_three_near_questions_are_listed_without_their_answers(alice: Caller) -> None:
    for color in ("red", "blue", "green", "white"):
        call(alice, "store_cache", query=f"How many {color} pumps are in stock in the plant?", response="secret")
    response = call(alice, "check_cache", query="How many black pumps are in stock in the plant?")
    assert len(response["near"]) == 3
    assert "secret" not in str(response)
