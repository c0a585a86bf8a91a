"""Risky changesets: two approvals by different curators, and what may happen while one waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, Write, WriteRun
from knowledge.changesets import approvals, rollback
from knowledge.changesets.apply import Applied, get_changeset, preview, resume
from knowledge.changesets.risk import in_words
from knowledge.insights import queries
from knowledge.models import ApprovalRule, Changeset, ChangesetState, Insight, InsightState
from knowledge.operations import Apply
from memories import services
from memories.models import Impression, MemoryRecord
from memories.operations import Erase, Forget
from memories.writing.erasure import erase
from memory_project.models import Notification, User
from tests.conftest import person
from tests.knowledge.changeset_examples import apply, approved, change, snapshot
from tests.knowledge.conftest import ORDERS, put

pytestmark = pytest.mark.django_db

PII = "urn:li:tag:PII"


@pytest.fixture
def second(personas: dict[str, Persona], curators: Group) -> Caller:
    """Another curator of the same personas."""
    user = person("second@example.org", personas["sales"])
    user.groups.add(curators)
    return build_caller(User.objects.get(pk=user.pk), channel="test")


@pytest.fixture
def pii(small_catalog: None) -> Catalog:
    put(PII, "tagProperties", {"name": "PII"})
    return get_catalog()


def propose(alice: Caller, cora: Caller) -> Applied:
    return apply(alice, cora, change("add_tag", "", PII))


def test_a_change_of_a_sensitive_tag_is_written_by_the_second_curator_only(
    pii: Catalog, alice: Caller, cora: Caller, second: Caller, olga: Caller
) -> None:
    before = snapshot()
    proposed = propose(alice, cora)
    changeset = proposed.changeset
    assert (changeset.state, in_words(changeset.risks)) == ("waiting", ["changes the sensitive tag or term PII"])
    assert snapshot() == before
    with pytest.raises(Forbidden, match="another curator"):
        approvals.approve(cora, changeset_id=changeset.pk)
    with pytest.raises((Forbidden, NotFound)):
        approvals.approve(replace(olga, rights=cora.rights), changeset_id=changeset.pk)
    with pytest.raises(Forbidden):
        approvals.approve(alice, changeset_id=changeset.pk)
    applied = approvals.approve(second, changeset_id=changeset.pk, notes="Agreed.")
    assert (applied.changeset.state, applied.insights_marked) == ("applied", 1)
    assert snapshot() != before
    assert [(row.by, row.verdict) for row in changeset.approvals.all()] == [
        (cora.email, "approved"),
        (second.email, "approved"),
    ]
    rollback.roll_back(cora, changeset_id=changeset.pk)
    assert snapshot() == before
    with pytest.raises(Conflict, match="does not wait"):
        approvals.approve(second, changeset_id=changeset.pk)


def test_only_curators_see_a_changeset_that_is_not_published(
    pii: Catalog, alice: Caller, bob: Caller, cora: Caller, second: Caller
) -> None:
    changeset = propose(alice, cora).changeset
    for caller in (alice, bob):
        assert list(queries.changesets(caller)) == []
        with pytest.raises(NotFound):
            get_changeset(caller, changeset.pk)
    assert list(queries.changesets(second)) == [changeset]
    approvals.approve(second, changeset_id=changeset.pk)
    assert list(queries.changesets(bob)) == [changeset]
    rollback.roll_back(cora, changeset_id=changeset.pk)
    assert list(queries.changesets(bob)) == [changeset]
    changeset.changes.update(outcome="failed")  # as if it had been rolled back after a part was written
    assert list(queries.changesets(bob)) == []


def test_declined_and_withdrawn_changesets_set_their_insights_free(
    pii: Catalog, alice: Caller, cora: Caller, second: Caller
) -> None:
    changeset = propose(alice, cora).changeset
    insight = Insight.objects.get(pk=changeset.insight_ids[0])
    again = Apply.read({"insight_ids": [insight.pk.hex], "changes": [change("add_tag", "", PII)], "entity_urn": ORDERS})
    with pytest.raises(Conflict):  # bound to the one that waits
        preview_and_apply(again, second)
    for curator, verdict in ((second, "declined"), (cora, "withdrawn")):
        changeset = Changeset.objects.get(state=ChangesetState.WAITING)
        approvals.decline(curator, changeset_id=changeset.pk, notes="Not yet.")
        insight.refresh_from_db()
        assert (insight.state, insight.changeset) == (InsightState.APPROVED, None)
        assert changeset.approvals.last().verdict == verdict  # type: ignore[union-attr]
        with pytest.raises(Conflict):
            approvals.approve(second, changeset_id=changeset.pk)
        with pytest.raises(Conflict):
            resume(second, changeset_id=changeset.pk)
        with pytest.raises(Conflict):
            rollback.roll_back(second, changeset_id=changeset.pk)
        preview_and_apply(again, cora)


def preview_and_apply(operation: Apply, caller: Caller) -> None:
    from knowledge.changesets.apply import apply as apply_changes

    assert preview(caller, operation).risks
    apply_changes(caller, operation)


def test_the_second_curator_approves_the_diff_that_the_first_one_saw(
    pii: Catalog, alice: Caller, cora: Caller, second: Caller
) -> None:
    text = change("update_description", detail="Orders without returns.")
    changeset = apply(alice, cora, change("add_tag", "", PII), text).changeset
    described = changeset.changes.get(change_type="update_description")
    by_others = Write(described.urn, described.aspect, tuple(described.path), "add", "Somebody else's text.")
    pii.write(by_others, WriteRun("other", "other@example.org", {}))
    with pytest.raises(Conflict, match="has changed since"):
        approvals.approve(second, changeset_id=changeset.pk)
    assert get_changeset(cora, changeset.pk).state == ChangesetState.WAITING


def test_a_memory_that_is_forgotten_or_erased_while_its_changeset_waits(
    pii: Catalog, alice: Caller, cora: Caller, second: Caller
) -> None:
    changeset = propose(alice, cora).changeset
    record_id = changeset.insight_ids[0]
    with pytest.raises(Conflict, match="must decline it first"):
        erase(alice, Erase.read({"id": record_id, "confirm": True}))
    services.forget(alice, Forget.read({"id": record_id}))
    with pytest.raises(Conflict, match="archived"):
        approvals.approve(second, changeset_id=changeset.pk)
    approvals.decline(second, changeset_id=changeset.pk)
    erase(alice, Erase.read({"id": record_id, "confirm": True}))
    assert not MemoryRecord.objects.filter(pk=record_id).exists()


def test_readers_and_derived_entities_count(
    small_catalog: None, alice: Caller, cora: Caller, second: Caller, ada: Caller
) -> None:
    rule: dict[str, Any] = {"readers": 2, "derived": None, "sensitive": []}
    approvals.save_rule(ada, approvals.SaveApprovalRule.read(rule))
    assert apply(alice, cora, change("update_description", detail="First.")).changeset.state == "applied"
    record = approved(alice, cora).record
    for reader in ("one@example.org", "two@example.org", "two@example.org"):
        Impression.objects.create(record=record, connection=reader, to=reader, tool="query_sql", version="1")
    changeset = apply(alice, cora, change("update_description", detail="Second.")).changeset
    assert changeset.risks == [{"kind": "readers", "count": 2, "limit": 2}]
    approvals.save_rule(ada, approvals.SaveApprovalRule.read({**rule, "readers": None, "derived": 1}))
    changeset = apply(alice, cora, change("update_description", detail="Third.")).changeset
    assert [risk["kind"] for risk in changeset.risks] == ["derived"]


def test_only_admins_set_the_rule_and_see_who_agrees(
    pii: Catalog, alice: Caller, cora: Caller, second: Caller, ada: Caller
) -> None:
    for values in ({"readers": 0}, {"derived": 201}, {"sensitive": [""]}):
        with pytest.raises(Invalid):
            approvals.SaveApprovalRule.read(values)
    with pytest.raises(Forbidden):
        approvals.save_rule(cora, approvals.SaveApprovalRule.read({"readers": 5}))
    with pytest.raises(Forbidden):
        approvals.agreement(cora)
    assert not ApprovalRule.objects.exists()
    approvals.approve(second, changeset_id=propose(alice, cora).changeset.pk)
    approvals.decline(second, changeset_id=apply(alice, cora, change("remove_tag", "", PII)).changeset.pk)
    approvals.decline(cora, changeset_id=apply(alice, cora, change("remove_tag", "", PII)).changeset.pk)
    (row,) = approvals.agreement(ada)
    # She approved an insight that the other one applied, and her changeset was approved; another was declined.
    assert (row.curator, row.confirmed, row.contradicted) == (cora.email, 2, 1)


def test_curators_are_notified_until_one_has_decided(
    pii: Catalog, alice: Caller, cora: Caller, second: Caller, olga: Caller
) -> None:
    def told() -> list[tuple[str, str]]:
        rows = Notification.objects.filter(record_id=changeset.pk).order_by("pk")
        return list(rows.values_list("person__email", "kind"))

    changeset = propose(alice, cora).changeset
    assert told() == [(second.email, "second_approval")]
    approvals.decline(second, changeset_id=changeset.pk)
    assert told() == [(cora.email, "changeset_declined")]
