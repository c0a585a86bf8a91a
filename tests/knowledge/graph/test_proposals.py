"""Proposed splits and near-duplicates, which an admin accepts, dismisses or reopens."""

from __future__ import annotations

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from knowledge.graph import tasks
from knowledge.graph.maintenance import proposals
from knowledge.graph.models import Entity, Observation, UpkeepKind, UpkeepProposal, UpkeepState
from memory_project.models import User
from tests.knowledge.graph.calls import call
from tests.knowledge.graph.crowds import create_crowd

pytestmark = pytest.mark.django_db
SHORT, LONG = "Deployed on Vercel, custom domain", "Deployed on Vercel, custom domain!"
LIST = "admin:graph_upkeepproposal_changelist"


def create_duplicates(caller: Caller) -> None:
    call(caller, "create_entities", entities=[{"name": "P", "observations": [SHORT, LONG, "Unrelated."]}])


def current_texts() -> list[str]:
    return list(Observation.objects.filter(ended_at=None).order_by("number").values_list("text", flat=True))


def test_changes_are_proposed_once(alice: Caller, ada: Caller) -> None:
    create_crowd(alice)
    create_duplicates(alice)
    first = tasks.propose_maintenance()
    kinds = set(UpkeepProposal.objects.values_list("kind", flat=True))
    assert kinds == {UpkeepKind.SPLIT, UpkeepKind.DUPLICATE}
    assert first == UpkeepProposal.objects.count()
    assert tasks.propose_maintenance() == 0
    proposal = UpkeepProposal.objects.get(entity__name="P")
    assert (proposal.ends and proposal.ends.text, proposal.stays and proposal.stays.text) == (SHORT, LONG)


def test_accepting_a_duplicate_ends_it_and_reopening_restores_it(alice: Caller, ada: Caller) -> None:
    create_duplicates(alice)
    tasks.propose_maintenance()
    proposal = UpkeepProposal.objects.get()
    proposals.accept(ada, proposal_id=proposal.pk)
    assert current_texts() == [LONG, "Unrelated."]
    with pytest.raises(Conflict):
        proposals.dismiss(ada, proposal_id=proposal.pk)
    proposals.reopen(ada, proposal_id=proposal.pk)
    assert current_texts() == [SHORT, LONG, "Unrelated."]
    call(alice, "delete_observations", name="P", observations=[LONG])
    with pytest.raises(Conflict):
        proposals.accept(ada, proposal_id=proposal.pk)
    assert current_texts() == [SHORT, "Unrelated."]


def test_accepting_a_split_moves_the_observations(alice: Caller, ada: Caller) -> None:
    texts = create_crowd(alice)
    tasks.propose_maintenance()
    proposal = UpkeepProposal.objects.get(kind=UpkeepKind.SPLIT)
    proposals.accept(ada, proposal_id=proposal.pk)
    children = Entity.objects.filter(name__startswith="Crowd - ")
    assert Observation.objects.filter(entity__in=children, ended_at=None).count() == len(texts)
    with pytest.raises(Conflict):
        proposals.reopen(ada, proposal_id=proposal.pk)


def test_the_tools_omit_dismissed_proposals(alice: Caller, ada: Caller) -> None:
    create_crowd(alice)
    create_duplicates(alice)
    tasks.propose_maintenance()
    for proposal in UpkeepProposal.objects.all():
        proposals.dismiss(ada, proposal_id=proposal.pk)
    assert call(alice, "find_split_candidates") == {"candidates": []}
    assert call(alice, "find_duplicate_observations", entity_name="P")["duplicate_pairs"] == []
    assert tasks.propose_maintenance() == 0


def test_only_admins_decide(alice: Caller, bob: Caller, ada: Caller) -> None:
    create_duplicates(alice)
    tasks.propose_maintenance()
    proposal = UpkeepProposal.objects.get()
    for outsider in (alice, bob):
        with pytest.raises(Forbidden):
            proposals.accept(outsider, proposal_id=proposal.pk)
        with pytest.raises(Forbidden):
            proposals.check_graph(outsider, graph=proposal.entity.graph)
    assert UpkeepProposal.objects.get().state == UpkeepState.OPEN


def test_a_worker_checks_a_large_graph(alice: Caller, ada: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    create_duplicates(alice)
    graph = Entity.objects.get().graph
    queue: list[tuple[str, ...]] = []
    monkeypatch.setattr(proposals, "ENTITIES_AT_ONCE", 0)
    monkeypatch.setattr(proposals, "async_task", lambda *arguments: queue.append(arguments))
    assert proposals.check_graph(ada, graph=graph) is None
    ((task, graph_id),) = queue
    assert (task, tasks.propose_maintenance_of(graph_id)) == ("knowledge.graph.tasks.propose_maintenance_of", 1)


def test_an_admin_decides_in_the_admin_lists(alice: Caller, ada_user: User, bob_user: User) -> None:
    create_duplicates(alice)
    graph = Entity.objects.get().graph
    client, outsider = Client(), Client()
    client.force_login(ada_user)
    outsider.force_login(bob_user)
    check_action = {"action": "look", ACTION_CHECKBOX_NAME: [graph.pk]}
    page = client.post(reverse("admin:graph_graph_changelist"), check_action, follow=True).content.decode()
    assert "1 new proposal." in page
    assert "1 is open, under Proposed maintenance." in page
    proposal = UpkeepProposal.objects.get()
    assert "end “Deployed on Vercel" in client.get(reverse(LIST)).content.decode()
    assert outsider.get(reverse(LIST)).status_code in (302, 403)
    choice = {"action": "accept_upkeep", ACTION_CHECKBOX_NAME: [proposal.pk]}
    assert "Ends the duplicate" in client.post(reverse(LIST), choice).content.decode()
    outcome = client.post(reverse(LIST), {**choice, "confirm": "1"}, follow=True).content.decode()
    assert "Accepted" in outcome
    assert current_texts() == [LONG, "Unrelated."]
    entity_page = client.get(reverse("admin:graph_entity_change", args=[Entity.objects.get().pk])).content.decode()
    assert "Unrelated." in entity_page
