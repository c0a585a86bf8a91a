"""Applying and rolling back changesets: every change type in both catalogs, validation before any write, and export."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Catalog, Write, WriteRun
from knowledge.catalog.json_patch import canonical, value_at
from knowledge.catalog.metadata_files import as_proposals
from knowledge.changesets import rollback
from knowledge.changesets.apply import apply as apply_changes
from knowledge.changesets.apply import get_changeset, resume
from knowledge.changesets.apply import preview as preview_changes
from knowledge.changesets.change_request import CHANGE_TYPES
from knowledge.insights.capture import capture
from knowledge.models import Changeset, ChangesetState, Insight, InsightState
from knowledge.operations import Apply, Capture
from knowledge.review.decisions import reject
from memories import services
from memories.models import MemoryRecord, Status
from memories.operations import Remember
from tests.knowledge.changeset_examples import CASES, TAG, apply, approved, change, snapshot
from tests.knowledge.conftest import ORDERS, V2_COLUMN, put

pytestmark = pytest.mark.django_db


# -- every change type, applied and rolled back ---------------------------------------------------------------


def test_every_change_type_has_a_case() -> None:
    assert {case["change_type"] for case in CASES.values()} == set(CHANGE_TYPES)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_applied_and_rolled_back(name: str, lived_in: Catalog, alice: Caller, cora: Caller) -> None:
    before = snapshot()
    result = apply(alice, cora, CASES[name])
    assert result.changeset.state == ChangesetState.APPLIED, result.changeset.error
    assert result.changeset.catalog == lived_in.name
    after = snapshot()
    assert after != before
    for row in result.changes:
        now = value_at(row.aspect, lived_in.read([row.urn], [row.aspect])[row.urn][row.aspect].value, row.path)
        assert (row.operation == "remove") or canonical(now) == canonical(row.written)
    rolled_back = rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert (rolled_back.changeset.state, rolled_back.conflicts) == (ChangesetState.ROLLED_BACK, [])
    assert snapshot() == before


def test_rolling_back_several_changes_of_one_path_restores_the_first_value(
    lived_in: Catalog, alice: Caller, cora: Caller
) -> None:
    before = snapshot()
    texts = [change("update_description", detail=f"Version {n}.") for n in range(3)]
    result = apply(alice, cora, *texts, change("add_tag", detail="New"), change("remove_tag", detail="New"))
    assert result.changeset.state == ChangesetState.APPLIED
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert snapshot() == before


# -- effects on insights ---------------------------------------------------------------------------------------


def test_an_insight_is_captured_applied_and_rolled_back(
    small_catalog: None, alice: Caller, olga: Caller, cora: Caller
) -> None:
    old = services.remember(alice, Remember(content="Training stores are 9001 to 9050.")).record
    insight = approved(alice, cora, supersedes=old.pk.hex)
    result = apply_changes(
        cora,
        Apply.read(
            {"insight_ids": [insight.pk.hex], "changes": [change("add_tag", detail="Training")], "entity_urn": ORDERS}
        ),
    )
    insight.refresh_from_db()
    old.refresh_from_db()
    assert (insight.state, insight.applied_by, insight.changeset) == (
        InsightState.APPLIED,
        cora.email,
        result.changeset,
    )
    assert (old.status, old.superseded_by) == (Status.SUPERSEDED, insight.pk)
    assert MemoryRecord.objects.visible_to(olga).get().pk == insight.pk
    rolled_back = rollback.roll_back(cora, changeset_id=result.changeset.pk)
    insight = Insight.objects.select_related("record").get()
    old.refresh_from_db()
    assert rolled_back.insights_returned == 1
    assert (insight.state, insight.record.visibility, insight.record.supersedes) == (
        InsightState.PENDING,
        "private",
        None,
    )
    assert (old.status, old.superseded_by) == (Status.ACTIVE, None)


def test_only_approved_insights_are_applied(small_catalog: None, alice: Caller, cora: Caller) -> None:
    pending = capture(alice, Capture(insight_text="This one still waits.", category="correction")).insight
    rejected = capture(alice, Capture(insight_text="This one was refused.", category="correction")).insight
    reject(cora, insight_id=rejected.pk)
    for insight in (pending, rejected):
        with pytest.raises(Conflict, match="only approved"):
            apply_changes(
                cora,
                Apply.read({"insight_ids": [insight.pk.hex], "changes": [CASES["add_tag"]], "entity_urn": ORDERS}),
            )
    with pytest.raises(Invalid, match="insight_ids"):
        apply_changes(cora, Apply.read({"insight_ids": [], "changes": [CASES["add_tag"]], "entity_urn": ORDERS}))
    assert not Changeset.objects.exists()


def test_applying_twice_is_rejected(small_catalog: None, alice: Caller, cora: Caller) -> None:
    result = apply(alice, cora, CASES["add_tag"])
    with pytest.raises(Conflict):
        apply_changes(
            cora,
            Apply.read(
                {"insight_ids": result.changeset.insight_ids, "changes": [CASES["add_tag"]], "entity_urn": ORDERS}
            ),
        )
    with pytest.raises(Conflict):
        resume(cora, changeset_id=result.changeset.pk)
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    with pytest.raises(Conflict, match="is rolled back: there is nothing"):
        rollback.roll_back(cora, changeset_id=result.changeset.pk)


def test_analysts_cannot_apply_and_outsiders_find_nothing(
    small_catalog: None, alice: Caller, olga: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    with pytest.raises(Forbidden):
        apply_changes(
            alice,
            Apply.read({"insight_ids": [insight.pk.hex], "changes": [CASES["add_tag"]], "entity_urn": ORDERS}),
        )
    result = apply_changes(
        cora, Apply.read({"insight_ids": [insight.pk.hex], "changes": [CASES["add_tag"]], "entity_urn": ORDERS})
    )
    with pytest.raises(Forbidden):
        rollback.roll_back(alice, changeset_id=result.changeset.pk)
    with pytest.raises(NotFound):
        get_changeset(olga, result.changeset.pk)


# -- validation before anything is sent ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (change("update_description", "column:nowhere", "x"), Invalid, "amount, status, customer.id"),
        (change("update_description"), Invalid, "detail"),
        (change("fly"), Invalid, "update_description"),
        (change("add_documentation", "javascript:alert(1)", "x"), Invalid, "https://"),
        (change("add_owner", "KING", "a@example.org"), Invalid, "TECHNICAL_OWNER"),
        (change("add_owner", "", "nobody"), Invalid, "e-mail"),
        (change("create_glossary_term", "Net revenue", "again"), Conflict, "urn:li:glossaryTerm:net"),
        (change("update_context_document", "nowhere", "x"), NotFound, "nowhere"),
        (change("deprecate", "nonsense", "x"), Invalid, "target"),
        (change("update_description", "amount", "After tax."), Invalid, "column:amount for a column"),
        (change("add_tag", "amount", "Training"), Invalid, "column:amount for a column"),
        (change("flag_quality_issue", "column:amount", "It is late."), Invalid, "is not taken by"),
        (change("set_domain", "", "Finence"), NotFound, "Finence is not in the catalog"),
        (change("add_glossary_term", "", "nett"), NotFound, "nett is not in the catalog"),
    ],
)
def test_one_invalid_change_prevents_all(
    small_catalog: None, alice: Caller, cora: Caller, wrong: dict[str, str], error: type[Exception], message: str
) -> None:
    before = snapshot()
    with pytest.raises(error) as caught:
        apply(alice, cora, CASES["add_tag"], wrong)
    assert message in str(caught.value)
    assert snapshot() == before
    assert not Changeset.objects.exists()


def test_changes_must_be_possible_for_the_entity(small_catalog: None, alice: Caller, cora: Caller) -> None:
    with pytest.raises(Invalid, match="can't be applied to a glossaryTerm"):
        apply(alice, cora, CASES["add_tag"], urn="urn:li:glossaryTerm:net")
    with pytest.raises(NotFound, match="not in the catalog"):
        apply(alice, cora, CASES["add_tag"], urn=ORDERS.replace("orders", "nowhere"))
    put(ORDERS, "status", {"removed": True})
    with pytest.raises(NotFound, match="was removed"):
        apply(alice, cora, CASES["add_tag"])


def test_a_preview_writes_nothing_and_distinguishes_absent_from_empty(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    before = snapshot()
    put(ORDERS, "editableDatasetProperties", {"description": ""})
    insight = approved(alice, cora)
    preview = preview_changes(
        cora,
        Apply.read(
            {
                "insight_ids": [insight.pk.hex],
                "changes": [CASES["update_description"], CASES["add_tag"]],
                "entity_urn": ORDERS,
            }
        ),
    )
    from knowledge.responses import planned_response

    description, tag = [planned_response(planned) for planned in preview.planned]
    assert (description["before"], description["was_absent"]) == ("", False)
    assert (tag["before"], tag["was_absent"]) == (None, True)
    assert snapshot() == before
    assert not Changeset.objects.exists()


def test_a_value_that_already_existed_is_not_rolled_back(small_catalog: None, alice: Caller, cora: Caller) -> None:
    LocalCatalog().write(Write(ORDERS, "globalTags", ("tags", TAG), "add", {"tag": TAG}), WriteRun("x", "x"))
    result = apply(alice, cora, CASES["add_tag"])
    assert [row.outcome for row in result.changes] == ["noop"]
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert TAG in snapshot()


def test_a_changeset_is_exported_as_proposals_and_replayed(
    small_catalog: None, alice: Caller, cora: Caller, tmp_path: Any
) -> None:
    import json

    from django.core.management import call_command

    result = apply(alice, cora, CASES["add_tag"], CASES["set_domain"], CASES["deprecate"])
    after = snapshot()
    exported = as_proposals(result.changes)
    assert [proposal["changeType"] for proposal in exported] == ["PATCH", "PATCH", "UPSERT"]
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    (tmp_path / "cs.json").write_text(json.dumps(exported))
    call_command("load_catalog", str(tmp_path / "cs.json"), verbosity=0)
    assert snapshot() == after


def test_replay_writes_only_missing_values(lived_in: Catalog, alice: Caller, cora: Caller) -> None:
    result = apply(alice, cora, CASES["add_tag"], CASES["set_domain"])
    after = snapshot()
    assert rollback.replay(cora, changeset_id=result.changeset.pk) == (0, 2)
    lived_in.write(Write(ORDERS, "globalTags", ("tags", TAG), "remove"), WriteRun("ui", "x"))
    assert rollback.replay(cora, changeset_id=result.changeset.pk) == (1, 1)
    assert snapshot() == after
    assert V2_COLUMN in snapshot()
