"""Catalog values that several changesets rest on, and values that others change while a changeset is rolled back."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.catalog.interface import Catalog, CatalogUnavailable, Write, WriteRun
from knowledge.changesets import delivery, rollback
from knowledge.changesets.apply import resume
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Change, ChangeOutcome, Insight
from memories import services
from memories.operations import Forget
from tests.knowledge.changeset_examples import CASES, TAG, apply, change, snapshot
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db


def test_a_value_stays_until_the_last_insight_that_rests_on_it_is_rolled_back(
    lived_in: Catalog, alice: Caller, cora: Caller
) -> None:
    before = snapshot()
    first = apply(alice, cora, CASES["add_tag"])
    second = apply(alice, cora, CASES["add_tag"])
    (relying,) = second.changeset.insight_ids
    preview = apply_knowledge(cora, "rollback", changeset_id=first.changeset.pk.hex, dry_run=True)
    assert [(row["outcome"], row["relied_on_by"]) for row in preview["preview"]] == [("would be kept", [relying])]
    result = apply_knowledge(cora, "rollback", changeset_id=first.changeset.pk.hex, confirm=True)
    assert (result["reverted_changes"], result["kept_changes"][0]["relied_on_by"]) == ([], [relying])
    assert TAG in snapshot()
    assert Insight.objects.get(pk=relying).state == "applied"
    rollback.roll_back(cora, changeset_id=second.changeset.pk)
    assert snapshot() == before


def test_a_created_entity_stays_while_another_changeset_relies_on_it(
    lived_in: Catalog, alice: Caller, cora: Caller
) -> None:
    definition = change("define_structured_property", "shared.owner_team", "The team that owns it.")
    before = snapshot()
    first, second = (apply(alice, cora, definition) for _ in range(2))
    rollback.roll_back(cora, changeset_id=first.changeset.pk)
    assert "shared.owner_team" in snapshot()
    rollback.roll_back(cora, changeset_id=second.changeset.pk)
    assert snapshot() == before


def test_a_later_changeset_does_not_bring_back_a_value_that_was_rolled_back(
    lived_in: Catalog, alice: Caller, cora: Caller
) -> None:
    before = snapshot()
    first = apply(alice, cora, change("update_description", detail="The first text."))
    second = apply(alice, cora, change("update_description", detail="The second text."))
    rollback.roll_back(cora, changeset_id=first.changeset.pk, skip_conflicts=True)
    assert "The second text." in snapshot()
    rollback.roll_back(cora, changeset_id=second.changeset.pk)
    assert snapshot() == before


def test_a_value_that_others_write_during_the_rollback_is_not_overwritten(
    lived_in: Catalog, alice: Caller, cora: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = apply(alice, cora, CASES["update_description"], CASES["add_tag"])
    save_outcome = delivery.save_outcome

    def save_and_interfere(row: Change, outcome: ChangeOutcome, error: str = "") -> None:
        if outcome == ChangeOutcome.REVERTED:  # the tag, which is undone first
            write = Write(ORDERS, "editableDatasetProperties", ("description",), "add", "Mine now.")
            lived_in.write(write, WriteRun("ui", "x"))
        save_outcome(row, outcome, error)

    monkeypatch.setattr(rollback, "save_outcome", save_and_interfere)
    result = rollback.roll_back(cora, changeset_id=applied.changeset.pk)
    assert "Mine now." in snapshot()
    assert TAG not in snapshot()
    assert [row.aspect for row in result.conflicts] == ["editableDatasetProperties"]


def test_resuming_checks_the_insights_again(
    lived_in: Catalog, alice: Caller, cora: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = delivery.CatalogWrite.send

    def fail_at_the_tag(self: Any, row: Change) -> Any:
        if row.aspect == "globalTags":
            raise CatalogUnavailable("the catalog is unavailable")
        return send(self, row)

    with monkeypatch.context() as patch:
        patch.setattr(delivery.CatalogWrite, "send", fail_at_the_tag)
        partial = apply(alice, cora, CASES["update_description"], CASES["add_tag"])
    assert partial.changeset.state == "partial"
    (insight_id,) = partial.changeset.insight_ids
    services.forget(alice, Forget.read({"record_id": insight_id}))
    with pytest.raises(Conflict, match="archived"):
        resume(cora, changeset_id=partial.changeset.pk)
    assert TAG not in snapshot()
    rollback.roll_back(cora, changeset_id=partial.changeset.pk)
