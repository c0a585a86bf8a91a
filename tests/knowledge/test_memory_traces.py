"""What a memory has changed in the catalog, and tags of memories that a curator has approved."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.changesets import rollback
from knowledge.changesets.traces import traces_of
from knowledge.models import ChangesetState, Insight
from memories.models import MemoryRevision
from memories.operations import Retag
from memories.writing.retagging import retag
from memory_project.models import User
from tests.knowledge.changeset_examples import CASES, apply, approved
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.usefixtures("small_catalog")


def test_a_memory_names_the_entities_it_has_changed(
    alice: Caller, alice_user: User, olga: Caller, cora: Caller
) -> None:
    changeset = apply(alice, cora, CASES["add_tag"]).changeset
    insight = Insight.objects.get()
    assert [(trace.changeset, trace.urns) for trace in traces_of(alice, [insight.pk])] == [(changeset, [ORDERS])]
    assert traces_of(olga, [insight.pk]) == []  # of another persona
    client = Client()
    client.force_login(alice_user)
    page = client.get(reverse("memory", args=[insight.pk])).content.decode()
    assert reverse("changeset", args=[changeset.pk]) in page
    rollback.roll_back(cora, changeset_id=changeset.pk)
    (trace,) = traces_of(alice, [insight.pk])
    assert trace.changeset.state == ChangesetState.ROLLED_BACK


def test_approved_memories_are_not_retagged_without_a_curator(alice: Caller, cora: Caller) -> None:
    insight = approved(alice, cora)
    with pytest.raises(Conflict, match="approved by a curator"):
        retag(alice, Retag(record_id=insight.pk, add=["tills"]))
    insight.refresh_from_db()
    assert (insight.pending_edit, MemoryRevision.objects.filter(change="retag").count()) == ({}, 0)
