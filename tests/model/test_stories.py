"""The product obeys the rules of the plain model in random stories, and in those that once broke them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foundation.people.caller import Caller
from tests.model.entities import catalog
from tests.model.machine import Stories, run
from tests.model.story import Story
from tests.model.world import populate

pytestmark = pytest.mark.django_db
EXAMPLES = 30  # `make simulate` runs more


@pytest.fixture
def callers(db: None) -> dict[str, Caller]:
    return populate(catalog().values())


@pytest.fixture
def story(callers: dict[str, Caller]) -> Iterator[Story]:
    story = Story(callers)
    yield story
    story.close()


def test_the_product_agrees_with_the_model_in_random_stories(
    callers: dict[str, Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stories, "callers", callers)
    run(seed=None, examples=EXAMPLES, steps=30)


# -- texts that are remembered already --------------------------------------------------------------------------


def test_no_correction_or_edit_makes_a_second_memory_with_a_text(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    second = story.remember("alice", ["orders"])
    assert not story.correct("alice", second, first)
    assert not story.revise("alice", second, text=story[first].text)
    story.forget("alice", first)
    assert story.correct("alice", second, first)
    assert not story.restore("alice", first)


# -- baselines: each of these stories once ended with another status ---------------------------------------------


def test_a_memory_about_two_entities_is_active_again_after_our_deprecation_is_rolled_back(story: Story) -> None:
    both = story.remember("alice", ["orders", "refunds"])
    story.check()
    changeset = applied(story, "orders", ("deprecation", "use the mart"))
    assert story[both].status == "stale"
    story.roll_back("cora", changeset)
    assert story[both].status == "active"


@pytest.mark.parametrize("verb", ["undo", "restore"])
def test_a_forgotten_memory_comes_back_stale_if_its_entity_was_deprecated_meanwhile(story: Story, verb: str) -> None:
    m = story.remember("alice", ["orders", "refunds"])
    story.forget("alice", m)
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    if verb == "undo":
        story.undo("alice", m, "forget")
    else:
        story.restore("alice", m)
    assert story[m].status == "stale"


@pytest.mark.parametrize("verb", ["appeal", "undo_review"])
def test_a_rejected_insight_comes_back_stale_if_its_entity_was_deprecated_meanwhile(story: Story, verb: str) -> None:
    m = story.capture("alice", ["orders"])
    story.reject("cora", m)
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    if verb == "appeal":
        story.appeal("alice", m)
    else:
        story.undo_review("cora", m)
    assert story[m].status == "stale"


def test_a_stale_memory_is_stale_again_when_the_insight_that_replaced_it_is_rolled_back(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    changeset = applied(story, "orders", ("tag", True), replaces=m)
    story.roll_back("cora", changeset)
    others_add_a_column(story, "orders")
    story.check()
    assert story[m].status == "stale"


def test_undoing_a_verification_brings_the_earlier_baseline_back(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    story.verify("alice", m)
    story.undo("alice", m, "verify")
    story.check()
    assert story[m].status == "stale"
    story.others_set("orders", "deprecation", None)
    story.check()
    assert story[m].status == "active"


def test_an_entity_that_was_away_only_between_two_checks_leaves_a_restored_memory_active(story: Story) -> None:
    m = story.remember("alice", ["orders", "refunds"])
    story.check()
    story.forget("alice", m)
    columns = dict(story.e.entities["refunds"].columns)
    story.others_change("refunds", exists=False, columns=columns)
    story.undo("alice", m, "forget")
    assert story[m].status == "stale"
    story.others_change("refunds", columns=columns)
    story.check()
    assert story[m].status == "active"


def test_an_entity_added_while_the_catalog_is_unavailable_gets_its_baseline_later(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.catalog_goes()
    story.revise("alice", m, entities=["orders", "refunds"])
    story.catalog_returns()
    story.others_change("refunds", exists=False, columns=dict(story.e.entities["refunds"].columns))
    story.check()
    assert story[m].status == "stale"


def test_a_verification_while_the_catalog_is_unavailable_counts_for_what_the_catalog_says_then(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    story.catalog_goes()
    story.verify("alice", m)
    story.catalog_returns()
    others_add_a_column(story, "orders")
    story.check()
    assert story[m].status == "active"


def test_an_interrupted_changeset_does_not_make_its_own_insight_stale(story: Story) -> None:
    m = story.capture("alice", ["orders"])
    story.approve("cora", m)
    story.apply("cora", m, [("deprecation", "use the mart"), ("tag", True)], writes_left=1)
    story.catalog_returns()
    assert story[m].status == "active"


def test_edited_tags_leave_a_memory_stale(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    story.revise("alice", m, tags=["revenue"])
    assert story[m].status == "stale"


@pytest.mark.parametrize("style", ["backticks", "dotted", "plain"])
@pytest.mark.parametrize(("entity", "column"), [("orders", "status"), ("orders", "order_id"), ("plans", "planNo")])
def test_a_removed_column_makes_a_memory_stale_that_names_it_unmistakably(
    story: Story, entity: str, column: str, style: str
) -> None:
    m = story.remember("alice", [entity], text=story.e.new_text(entity, column, style))
    columns = dict(story.e.entities[entity].columns)
    del columns[column]
    story.others_change(entity, columns=columns)
    story.check()
    assert story[m].status == ("active" if (column, style) == ("status", "plain") else "stale")


def test_a_mark_as_wrong_outlasts_a_change_of_the_catalog_that_is_reverted(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    story.mark_wrong("cora", m)
    story.others_set("orders", "deprecation", None)
    story.check()
    assert story[m].status == "stale"


def test_a_failed_check_outlasts_a_change_of_the_catalog_and_a_mark(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.add_check("alice", m)
    story.others_set("orders", "deprecation", "use the mart")
    story.check()
    story.data_change(m)
    story.checks_run()
    story.checks_run()
    story.others_set("orders", "deprecation", None)
    story.check()
    assert story[m].status == "stale"
    story.mark_wrong("alice", m)
    story.withdraw("alice", m)
    assert story[m].status == "stale"
    story.data_change(m)
    story.checks_run()
    assert story[m].status == "active"


# -- chains and changesets ----------------------------------------------------------------------------------------


def test_a_chain_has_one_current_end_after_its_middle_is_rolled_back(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    middle = applied(story, "orders", ("tag", True), replaces=first)
    last = applied(story, "orders", ("description", "Paid orders."), replaces="m2")
    story.roll_back("cora", middle)
    assert (story[first].status, story["m2"].status, story["m3"].status) == ("superseded", "active", "active")
    assert story["m3"].supersedes == first
    story.roll_back("cora", last)
    assert story[first].status == "active"


def test_two_insights_do_not_replace_the_same_memory(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    rivals = [approved(story, "orders", replaces=first) for _ in range(2)]
    assert story.apply("cora", rivals[0], [("tag", True)])
    assert not story.apply("cora", rivals[1], [("description", "Paid orders.")])


@pytest.mark.parametrize("is_replacing", [False, True])
def test_undoing_a_correction_s_restoring_brings_its_predecessor_back_if_it_was_replaced_then(
    story: Story, is_replacing: bool
) -> None:
    first = story.remember("alice", ["orders"])
    correction = story.correct("alice", first)
    story.forget("alice", correction)
    if is_replacing:
        story.restore("alice", first)
    story.restore("alice", correction)
    story.undo("alice", correction, "restore")
    assert story[first].state == ("living" if is_replacing else "superseded")


def test_undoing_a_correction_s_archiving_leaves_one_current_end(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    correction = story.correct("alice", first)
    story.forget("alice", correction)
    story.restore("alice", first)
    story.undo("alice", correction, "forget")
    assert {story[first].is_living, story[correction].is_living} == {True, False}


def test_a_tag_stays_while_another_changeset_relies_on_it(story: Story) -> None:
    one, two = (applied(story, "orders", ("tag", True)) for _ in range(2))
    story.roll_back("cora", one)
    story.roll_back("cora", two)
    assert story.e.entities["orders"].value("tag") is None


def test_a_later_text_gives_way_to_the_text_of_others_if_the_earlier_changeset_is_gone(story: Story) -> None:
    one = applied(story, "orders", ("description", "One."))
    two = applied(story, "orders", ("description", "Two."))
    story.roll_back("cora", one, skip_conflicts=True)
    story.roll_back("cora", two)
    assert story.e.entities["orders"].value("description") is None


# -- proposals and owners -----------------------------------------------------------------------------------------


def test_an_insight_with_the_text_of_a_plain_memory_leaves_that_memory_alone(story: Story) -> None:
    plain = story.remember("alice", ["orders"])
    text = story[plain].text
    insight = story.capture("alice", ["orders", "refunds"], text=text)
    story.reject("cora", insight)
    story.appeal("alice", insight)
    assert story.remember("alice", ["orders"], text=text) == plain
    story.approve("cora", insight)
    changeset = story.apply("cora", insight, [("tag", True)])
    assert story[plain].status == "superseded"
    story.roll_back("cora", changeset)
    assert story[plain].status == "active"


def test_an_insight_supersedes_the_memory_that_has_its_text_when_it_is_applied(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    insight = story.capture("alice", ["refunds"], text=story[first].text)
    story.forget("alice", first)
    second = story.remember("alice", ["orders"], text=story[first].text)
    story.approve("cora", insight)
    story.apply("cora", insight, [("tag", True)])
    assert (story[first].status, story[second].status) == ("archived", "superseded")


def test_an_insight_supersedes_the_memory_that_had_its_text_when_it_was_captured(story: Story) -> None:
    plain = story.remember("alice", ["orders"])
    insight = story.capture("alice", ["refunds"], text=story[plain].text)
    story.revise("alice", plain, text=story.e.new_text())
    story.approve("cora", insight)
    changeset = story.apply("cora", insight, [("tag", True)])
    assert story[plain].status == "superseded"
    story.roll_back("cora", changeset)
    assert story[plain].status == "active"


def test_everything_of_a_person_is_handed_over_also_on_the_way_back(story: Story) -> None:
    story.remember("alice", ["orders"])
    story.hand_over("ada", "alice", "bob")
    story.remember("bob", ["refunds"])
    story.hand_over("ada", "bob", "alice")
    assert {m.owner for m in story.e.memories.values()} == {"alice"}


def others_add_a_column(story: Story, entity: str) -> None:
    """A change that makes no memory stale, and after which the check looks at the entity again."""
    columns = story.e.entities[entity].columns
    story.others_change(entity, columns={**columns, "added": ("NUMBER", True)})


def approved(story: Story, entity: str, replaces: str = "") -> str:
    insight = story.capture("alice", [entity], replaces=replaces)
    story.approve("cora", insight)
    return insight


def applied(story: Story, entity: str, change: tuple[str, Any], replaces: str = "") -> str:
    return story.apply("cora", approved(story, entity, replaces), [change])


# -- citations -------------------------------------------------------------------------------------------------


def test_a_citation_of_an_insight_follows_its_rollback_and_a_second_application(story: Story) -> None:
    changeset = applied(story, "orders", ("tag", True))
    story.cite("bob", "m1")
    story.roll_back("cora", changeset)
    assert story.documents.rows[0][1].cited["m1"].reason == "rolled_back"
    story.acknowledge("bob")
    story.approve("cora", "m1")
    story.apply("cora", "m1", [("tag", True)])
    assert story.documents.rows[0][1].cited["m1"].reason == ""


def test_a_citation_is_told_of_the_rollback_of_a_changeset_that_was_applied_in_part(story: Story) -> None:
    insight = approved(story, "orders")
    changeset = story.apply("cora", insight, [("tag", True), ("description", "Text 1.")], writes_left=1)
    story.cite("bob", insight)
    story.catalog_returns()
    story.roll_back("cora", changeset)
    assert story.documents.rows[0][1].cited[insight].reason == "rolled_back"


def test_an_acknowledged_correction_is_cited_from_then_on(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    story.cite("bob", first)
    second = story.correct("alice", first)
    story.acknowledge("bob")
    story.correct("alice", second)
    assert story.documents.open() == ["bob"]
    story.erase("alice", second)
    story.acknowledge("bob")
    assert story.documents.open() == []


def test_the_model_imports_nothing_from_the_product() -> None:
    folder = Path(__file__).parent
    modules = (
        "entities",
        "expected",
        "interviews",
        "memories",
        "reviews",
        "scopes",
        "citations",
        "sentences",
        "checks",
    )
    names = [name for module in modules for name in imported(ast.parse((folder / f"{module}.py").read_text()))]
    allowed = sys.stdlib_module_names | {f"tests.model.{module}" for module in modules} | {"tests.model"}
    assert [name for name in names if name not in allowed and name.partition(".")[0] not in allowed] == []


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


# -- verified, then changed --------------------------------------------------------------------------------------


def test_a_verification_counts_for_the_version_that_was_verified(story: Story) -> None:
    m = story.remember("alice", ["orders"], visibility="persona")
    text = story[m].text
    story.verify("ada", m)
    assert story[m].is_verified
    story.share("alice", m, "everyone")
    assert not story[m].is_verified
    story.undo("alice", m, "share")
    assert story[m].is_verified
    story.revise("alice", m, text=story.e.new_text())
    assert not story[m].is_verified
    story.revise("alice", m, text=text)
    assert story[m].is_verified
    story.verify("ada", m)
    story.undo("ada", m, "verify")
    assert story[m].is_verified  # the earlier verification


def test_a_text_that_an_admin_wrote_is_not_verified_by_that_admin(story: Story) -> None:
    m = story.remember("alice", ["orders"])
    story.revise("ada", m, text=story.e.new_text())
    story.verify("ada", m)
    assert not story[m].is_verified


def test_undoing_the_review_of_an_insight_that_its_author_has_verified(story: Story) -> None:
    m = story.capture("alice", ["orders"])
    story.approve("cora", m)
    story.verify("alice", m)
    story.undo_review("cora", m)
    assert story[m].insight.state == "pending"  # type: ignore[union-attr]


def test_a_document_is_up_to_date_again_if_its_memory_was_corrected_before_and_after_it_was_cited(story: Story) -> None:
    first = story.remember("alice", ["orders"])
    second = story.correct("alice", first)
    story.cite("alice", first)
    story.correct("alice", second)
    story.acknowledge("alice")


def test_only_a_curator_who_can_read_the_replaced_memory_applies_an_insight(story: Story) -> None:
    private = story.remember("bob", ["orders"], visibility="private")
    m = story.capture("bob", ["orders"], replaces=private)
    story.approve("ada", m)
    assert not story.apply("cleo", m, [("deprecation", "outdated")])


def test_undoing_a_verification_keeps_a_check_that_was_added_since(story: Story) -> None:
    m = story.remember("bob", ["refunds"])
    story.verify("bob", m)
    story.add_check("bob", m)
    story.undo("bob", m, "verify")
    assert story[m].check


# -- several at once, two people at once, and outages in the middle ---------------------------------------------


def test_a_curator_corrects_an_approved_memory_that_is_stale(story: Story) -> None:
    insight = story.capture("bob", ["refunds"])
    story.approve("cleo", insight)
    story.mark_wrong("ada", insight)
    assert story.correct("cora", insight)


def test_a_rollback_that_breaks_off_is_continued(story: Story) -> None:
    insight = story.capture("alice", ["orders"])
    story.approve("cora", insight)
    changeset = story.apply("cora", insight, [("tag", True), ("description", "Text 1.")])
    assert not story.roll_back("cora", changeset, writes_left=1)
    story.catalog_returns()
    assert story.roll_back("cora", changeset)
    story.end()


def test_an_edit_of_the_text_settles_the_marks_of_the_old_one(story: Story) -> None:
    fact = story.remember("alice", ["orders"])
    story.mark_wrong("alice", fact)
    story.revise("alice", fact, text=story.e.new_text())
    assert story.verify("bob", fact)
    other = story.remember("alice", ["orders"])
    story.mark_wrong("bob", other)
    story.revise("alice", other, text=story.e.new_text())
    story.mark_wrong("olga", other)
    assert story[other].status == "active"


def test_a_bulk_action_and_its_undo(story: Story) -> None:
    names = [story.remember("alice", ["orders"]) for _ in range(3)]
    story.forget("alice", names[0])
    story.bulk("forget", "alice", names)
    story.undo_bulk()
    assert [story[name].state for name in names] == ["archived", "living", "living"]


def test_nobody_decides_on_what_has_changed_since_they_looked(story: Story) -> None:
    insight = story.capture("alice", ["orders"])
    story.look(insight)
    story.approve("ada", insight)
    assert not story.decide_late("cora", insight, "rejects")


def test_a_mark_that_was_withdrawn_does_not_come_back_with_an_undo(story: Story) -> None:
    fact = story.remember("alice", ["orders"])
    story.mark_wrong("alice", fact)
    story.verify("alice", fact)
    story.withdraw("alice", fact)
    story.undo("alice", fact, "verify")
    assert story[fact].status == "active"


def test_what_was_remembered_again_goes_back_archived(story: Story) -> None:
    fact = story.remember("alice", ["orders"])
    story.hand_over("ada", "alice", "bob")
    story.remember("alice", ["orders"], text=story[fact].text)
    story.undo_hand_over("ada")
    assert (story[fact].owner, story[fact].state) == ("alice", "archived")
