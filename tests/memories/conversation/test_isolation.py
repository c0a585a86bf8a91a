"""Isolation: the connection determines the user of a call, and users never reach each other's data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.operations.errors import DomainError, Forbidden
from foundation.people.caller import Caller
from memories.conversation.acting_user import acting_as
from memories.conversation.models import CachedAnswer, UserDecision
from memories.models import MemoryRecord
from memories.operations import RecallMemories
from memories.retrieval.recall import recall
from tests.memories.conversation.conftest import LONG, TOOL, call, store_turns

pytestmark = pytest.mark.django_db
SECRET = "The vault's code word is heliotrope, and nobody may know it."
ARGUMENTS: dict[str, dict[str, Any]] = {
    "store_memory": {"conversation_id": "monday", "messages": [{"role": "human", "content": "hello"}]},
    "recall_memory": {"query": "heliotrope vault code word"},
    "hybrid_search": {"query": "heliotrope vault code word"},
    "delete_memory": {"time_range": {"start": "2000-01-01T00:00:00Z"}, "confirm": True},
    "check_cache": {"query": "vault code?", "similarity_threshold": 0},
    "store_cache": {"query": "vault code?", "response": "nothing"},
    "cache_invalidate": {"invalidate_all": True},
    "search_web": {"query": "x"},
    "memory_health": {},
    "wipe_user_data": {"confirm": True},
    "store_decision": {"key": "code", "value": "mine"},
    "recall_decision": {"key": "code"},
}


def test_every_tool_is_covered() -> None:
    assert set(ARGUMENTS) == set(TOOL)


def store_secrets(caller: Caller, user_id: str) -> None:
    call(caller, "store_memory", user_id=user_id, conversation_id="monday",
         messages=[{"role": "human", "content": SECRET}])  # fmt: skip
    call(caller, "store_cache", user_id=user_id, query="vault code?", response=SECRET)
    call(caller, "store_decision", user_id=user_id, key="code", value=SECRET)


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_the_id_of_another_user_is_rejected(alice: Caller, bob: Caller, ada: Caller, tool: str) -> None:
    store_secrets(alice, alice.email)
    for outsider in (bob, ada):  # also an admin, who uses the portal instead
        with pytest.raises(Forbidden, match="is not you"):
            call(outsider, tool, user_id=alice.email, **ARGUMENTS[tool])


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_a_call_never_reaches_data_of_another_user(alice: Caller, bob: Caller, ada: Caller, tool: str) -> None:
    store_secrets(alice, alice.email)
    before = MemoryRecord.objects.filter(created_by=alice.email, status="active").count()
    for outsider in (bob, ada):
        try:
            response = str(call(outsider, tool, **ARGUMENTS[tool]))
        except DomainError as error:
            response = error.message
        assert "heliotrope" not in response
    assert MemoryRecord.objects.filter(created_by=alice.email, status="active").count() == before
    assert CachedAnswer.objects.filter(created_by=alice.email, response=SECRET).exists()
    assert UserDecision.objects.get(created_by=alice.email).value == SECRET


@given(data=st.data())
@settings(max_examples=40)
def test_users_of_a_service_never_reach_each_other(service: Caller, data: st.DataObject) -> None:
    """With any tool, argument or id."""
    names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
    owner, visitor = data.draw(st.lists(names, min_size=2, max_size=2, unique=True))
    if service.email.casefold() in (owner.casefold(), visitor.casefold()):
        return
    for model in (MemoryRecord, CachedAnswer, UserDecision):
        model._default_manager.all().delete()  # rows of the previous example
    store_secrets(service, owner)
    ids = list(MemoryRecord.objects.filter(created_by=f"{service.email}#{owner}").values_list("pk", flat=True))
    tool = data.draw(st.sampled_from(sorted(ARGUMENTS)))
    arguments = dict(ARGUMENTS[tool])
    if tool == "delete_memory" and data.draw(st.booleans()):
        arguments = {"memory_id": data.draw(st.sampled_from(ids)).hex}
    try:
        response = str(call(service, tool, user_id=visitor, **arguments))
    except DomainError as error:
        response = error.message
    assert "heliotrope" not in response
    assert MemoryRecord.objects.filter(pk__in=ids, status="active").count() == len(ids)
    assert CachedAnswer.objects.filter(created_by=f"{service.email}#{owner}", response=SECRET).exists()


def test_users_of_a_service_have_their_own_namespace(service: Caller, alice: Caller, bob: Caller) -> None:
    store_turns(service, SECRET, user_id=alice.email)  # this user of the service has the same name as a person
    assert set(MemoryRecord.objects.values_list("created_by", flat=True)) == {f"{service.email}#{alice.email}"}
    assert call(alice, "recall_memory", query="heliotrope")["count"] == 0
    assert call(service, "recall_memory", query="heliotrope")["count"] == 0  # without naming the user
    assert call(service, "recall_memory", user_id=alice.email, query="heliotrope")["count"] == 1
    for person in (alice, bob, service):
        assert not recall(person, RecallMemories(query="heliotrope vault")).hits
    other_service = replace(bob, rights=service.rights)
    assert call(other_service, "recall_memory", user_id=alice.email, query="heliotrope")["count"] == 0


def test_a_service_acting_for_a_user_has_no_persona_or_rights(service: Caller, olga: Caller) -> None:
    acting = acting_as(service, "user-1")
    assert (acting.personas, acting.rights, acting.is_admin) == (frozenset(), frozenset(), False)
    store_turns(olga, LONG)
    assert call(service, "recall_memory", user_id="user-1", query="dark theme")["count"] == 0


def test_a_user_id_is_not_case_sensitive(alice: Caller) -> None:
    store_turns(alice, LONG)
    assert call(alice, "recall_memory", user_id="ALICE@example.org", query="dark theme")["count"] == 1
