"""Curation in the admin: lists, bulk actions with reasons, and changesets as diffs."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import Permission
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from foundation.links import url_for
from foundation.people.caller import Caller
from knowledge.admin.changesets import ChangesetAdmin
from knowledge.admin.insights import InsightAdmin
from knowledge.changesets.apply import apply
from knowledge.insights.capture import capture
from knowledge.models import Changeset, Insight
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.admin import lists
from memories.admin.lists import EstimatedPaginator
from memories.admin.records import MemoryRecordAdmin
from memories.models import Batch, MemoryRecord
from memories.operations import Remember, Supersede
from memories.writing import bulk_actions
from memory_project.models import User
from memory_project.portal.urls import urlpatterns
from tests.knowledge.changeset_examples import approved, change
from tests.knowledge.conftest import ORDERS
from tests.pages import INSIGHTS, browser, run_action, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def insight(small_catalog: None, alice: Caller) -> Insight:
    action = {"action_type": "add_tag", "detail": "Training"}
    return capture(
        alice,
        Capture.read(
            {
                "insight_text": "Stores 9001 to 9099 are <training> tills.",
                "category": "data_quality",
                "entity_urns": [ORDERS],
                "suggested_actions": [action],
            }
        ),
    ).insight


def test_the_list_shows_what_a_curator_needs(cora_user: User, insight: Insight) -> None:
    client = browser(cora_user)
    page = text(client, reverse(INSIGHTS))
    for cell in ("&lt;training&gt; tills", "pending", "data quality", "medium", "sales", "alice@example.org", "ago"):
        assert cell in page
    assert insight.pk.hex not in page.replace(f'value="{insight.pk}"', "")  # no row shows its id
    assert "<training>" not in page
    filtered_url = reverse(INSIGHTS) + f"?q={ORDERS}"
    assert "training" in text(client, filtered_url)
    assert "training" not in text(client, reverse(INSIGHTS) + "?q=urn:li:dataset:other")
    detail = text(client, reverse("admin:knowledge_insight_change", args=[insight.pk]))
    assert "Tag of sales.orders: <ins>Training</ins>" in detail
    assert reverse("review-one", args=[insight.pk]) in detail


def test_a_rejection_needs_a_reason_and_runs_as_a_batch(cora_user: User, alice: Caller, insight: Insight) -> None:
    client = browser(cora_user)
    question = run_action(client, "reject", insight.pk)
    assert (question.status_code, "Known already" in question.content.decode()) == (200, True)
    assert Insight.objects.get().state == "pending"
    missing = run_action(client, "reject", insight.pk, confirm="1")
    assert (missing.status_code, "“Reason” is missing: the authors need to know why" in missing.content.decode()) == (
        400,
        True,
    )
    response = run_action(client, "reject", insight.pk, confirm="1", reason="Known already")
    assert (response.status_code, response["Location"]) == (302, reverse("batch", args=[Batch.objects.get().pk]))
    insight.refresh_from_db()
    assert (insight.state, insight.review_notes, insight.reviewed_by) == ("rejected", "Known already", cora_user.email)


def test_select_all_includes_the_rows_of_other_pages(cora_user: User, alice: Caller, insight: Insight) -> None:
    for number in range(60):
        capture(alice, Capture(insight_text=f"A claim with the number {number}.", category="correction"))
    client = browser(cora_user)
    question = run_action(client, "approve", insight.pk, select_across="1")
    assert "Approve: 61" in question.content.decode()
    run_action(client, "approve", insight.pk, select_across="1", confirm="1")
    assert len(Batch.objects.get().unit_ids) == 61


def test_users_without_the_permission_cannot_curate(
    cora_user: User, alice_user: User, olga_user: User, insight: Insight
) -> None:
    alice_user.is_staff = olga_user.is_staff = True
    alice_user.save()
    olga_user.save()
    assert browser(alice_user).get(reverse(INSIGHTS)).status_code == 403
    cora_user.groups.clear()
    assert run_action(browser(cora_user), "approve", insight.pk, confirm="1").status_code == 403
    assert Insight.objects.get().state == "pending"


def test_a_changeset_is_shown_as_a_diff_with_its_sources(
    small_catalog: None, cora_user: User, alice: Caller, cora: Caller
) -> None:
    source = approved(alice, cora)
    changes = [change("update_description", "column:amount", "The net amount.")]
    applied = apply(cora, Apply.read({"insight_ids": [source.pk.hex], "changes": changes, "entity_urn": ORDERS}))
    client = browser(cora_user)
    rows = text(client, reverse("admin:knowledge_changeset_changelist"))
    assert "sales.orders" in rows
    assert "urn:li:dataset" not in rows
    page = text(client, reverse("admin:knowledge_changeset_change", args=[applied.changeset.pk]))
    assert "<ins>The net amount.</ins> (landed)" in page
    assert reverse("changeset", args=[applied.changeset.pk]) in page
    assert str(source.record) in page
    assert "<details" in page.partition("Stored values")[0].rpartition("<fieldset")[2]


def test_a_memory_shows_its_chain_and_is_forgotten_with_a_reason(
    ada_user: User, alice: Caller, fact: MemoryRecord
) -> None:
    new = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.")).record
    client = browser(ada_user)
    page = text(client, reverse("admin:memories_memoryrecord_change", args=[new.pk]))
    assert "Revenue in the sales mart excludes refunds.</a> (superseded)" in page
    list_url = "admin:memories_memoryrecord_changelist"
    assert "Forget: 1" in run_action(client, "forget", new.pk, list_url=list_url).content.decode()
    run_action(client, "forget", new.pk, list_url=list_url, confirm="1", reason="no longer")
    new.refresh_from_db()
    assert new.status == "archived"
    assert new.revisions.last().reason == "no longer"  # type: ignore[union-attr]


def test_stale_memories_and_corrections_have_their_own_lists(
    ada_user: User, alice: Caller, olga_user: User, fact: MemoryRecord
) -> None:
    new = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.")).record
    stale = services.remember(alice, Remember(content="Orders come twice a day.")).record
    services.mark_stale(alice, record_id=stale.pk, reason="the column day was removed")
    client = browser(ada_user)
    stale_url, corrections_url = (f"admin:memories_{name}_changelist" for name in ("stalememory", "correction"))
    page = text(client, reverse(stale_url))
    assert "the column day was removed" in page
    assert str(new) not in page
    page = text(client, reverse(corrections_url))
    assert (str(new) in page, str(fact) in page, str(stale) in page) == (True, True, False)
    run_action(client, "verify", stale.pk, list_url=stale_url, confirm="1")
    stale.refresh_from_db()
    assert stale.status == "active"
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    assert str(new) not in text(browser(olga_user), reverse(corrections_url))


def test_a_correction_does_not_reveal_a_private_original(ada_user: User, bob_user: User, alice: Caller) -> None:
    old = services.remember(alice, Remember(content="A private belief about orders.", visibility="private")).record
    services.supersede(alice, Supersede(record_id=old.pk, content="A belief about all orders.", visibility="persona"))
    bob_user.is_staff = True
    bob_user.save()
    bob_user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    page = text(browser(bob_user), reverse("admin:memories_correction_changelist"))
    assert ("A belief about all orders." in page, "private belief" in page) == (True, False)


def test_a_confirmation_page_shows_the_effect_on_the_rows(
    cora_user: User, alice: Caller, cora: Caller, insight: Insight
) -> None:
    client = browser(cora_user)
    assert "readers once approved: persona" in run_action(client, "approve", insight.pk).content.decode()
    none_yet = run_action(client, "apply", insight.pk).content.decode()
    assert "This action doesn’t apply to any of the selected rows." in none_yet
    run_action(client, "approve", insight.pk, confirm="1")
    preview = run_action(client, "apply", insight.pk).content.decode()
    assert "<ins>Training</ins>" in preview
    run_action(client, "apply", insight.pk, confirm="1")
    insight.refresh_from_db()
    assert (insight.state, insight.applied_by) == ("applied", cora_user.email)
    changes = "admin:knowledge_changeset_changelist"
    confirmation = run_action(client, "roll_back", insight.changeset_id, list_url=changes).content.decode()
    assert "Training" in confirmation
    run_action(client, "roll_back", insight.changeset_id, list_url=changes, confirm="1")
    insight.refresh_from_db()
    assert insight.state == "pending"


def test_an_action_with_a_choice_asks_for_it(
    cora_user: User, ada_user: User, alice: Caller, insight: Insight, fact: MemoryRecord
) -> None:
    question = run_action(browser(cora_user), "hand_over", insight.pk)
    assert "ada@example.org" in question.content.decode()
    assert run_action(browser(cora_user), "hand_over", insight.pk, confirm="1").status_code == 400
    run_action(browser(cora_user), "hand_over", insight.pk, confirm="1", choice="ada@example.org")
    insight.refresh_from_db()
    assert insight.assignee == "ada@example.org"
    client, list_url = browser(ada_user), "admin:memories_memoryrecord_changelist"
    run_action(client, "share", fact.pk, list_url=list_url, confirm="1", choice="everyone")
    run_action(client, "reassign", fact.pk, list_url=list_url, confirm="1", choice="supply")
    fact.refresh_from_db()
    assert (fact.visibility, fact.persona) == ("everyone", "supply")
    run_action(
        client, "correct", fact.pk, list_url=list_url, confirm="1", choice="Revenue includes refunds.", reason="new"
    )
    fact.refresh_from_db()
    assert fact.status == "superseded"
    other = services.remember(alice, Remember(content="Orders of a day are complete at ten.")).record
    two_rows = run_action(
        client, "correct", other.pk, insight.pk, list_url=list_url, confirm="1", choice="Revenue is another thing."
    )
    assert (two_rows.status_code, "the text replaces a single memory" in two_rows.content.decode()) == (400, True)


def test_an_action_skips_rows_that_the_curator_may_not_decide(
    cora_user: User, alice: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    her_memory = services.remember(cora, Remember(content="What Cora herself has learned.")).record
    list_url = "admin:memories_memoryrecord_changelist"
    page = run_action(browser(cora_user), "forget", her_memory.pk, fact.pk, list_url=list_url).content.decode()
    assert ("Forget: 1" in page, "1 of the selected rows will be skipped" in " ".join(page.split())) == (True, True)
    run_action(browser(cora_user), "forget", her_memory.pk, fact.pk, list_url=list_url, confirm="1")
    fact.refresh_from_db()
    assert fact.status == "active"


# Each decision of a curator, with its route in the portal and its action in the admin.
BOTH = {
    "approve": ("review-decide", "insight approve"),
    "reject": ("review-decide", "insight reject"),
    "needs more": ("review-decide", "insight needs_more"),
    "hand over": ("review-decide", "insight hand_over"),
    "apply": ("review-decide", "insight apply"),
    "undo a decision": ("review-undo", "insight undo_review"),
    "roll an insight back": ("roll-back", "insight roll_back_insight"),
    "roll a changeset back": ("roll-back", "changeset roll_back"),
    "still true": ("change-memory", "memory verify"),
    "correct": ("edit-memory", "memory correct"),
    "forget": ("change-memory", "memory forget"),
    "restore": ("change-memory", "memory restore"),
    "share": ("change-memory", "memory share"),
    "move to another persona": ("change-memory", "memory reassign"),
}
# Only in the portal: each handles one text or one changeset, on the page that the admin row links to.
PORTAL_ONLY = {
    "review-edit", "review-replace", "review-act", "review-colleagues", "review-checks",
    "resume-changeset", "replay-changeset", "export-changeset",
}  # fmt: skip


def test_portal_and_admin_offer_a_curator_the_same_decisions(cora_user: User) -> None:
    request = RequestFactory().get("/")
    request.user = cora_user
    offers = {"insight": InsightAdmin, "changeset": ChangesetAdmin, "memory": MemoryRecordAdmin}
    models = {"insight": Insight, "changeset": Changeset, "memory": MemoryRecord}
    in_admin = {
        f"{name} {action}" for name, kind in offers.items() for action in kind(models[name], site).get_actions(request)
    }
    assert in_admin == {action for _, action in BOTH.values()}
    curating = {route.name for route in urlpatterns if route.name and route.name.startswith(("review-", "roll-back"))}
    curating |= {"resume-changeset", "replay-changeset", "export-changeset", "change-memory", "edit-memory"}
    pages = {"review-list", "review-one"}
    assert curating - pages - PORTAL_ONLY == {route for route, _ in BOTH.values()}


def test_lists_can_be_filtered_and_saved_as_views(cora_user: User, insight: Insight) -> None:
    client = browser(cora_user)
    page = text(client, reverse(INSIGHTS) + "?state__exact=pending&question=none")
    assert "training" in page
    assert "training" not in text(client, reverse(INSIGHTS) + "?state__exact=pending&question=open")
    assert "training" in text(client, reverse(INSIGHTS) + f"?entity={ORDERS}&author=alice@example.org")
    assert "training" not in text(client, reverse(INSIGHTS) + "?author=bob@example.org")
    confirmation = reverse(INSIGHTS) + "?state__exact=pending"
    client.post(reverse("save-view"), {"name": "Mine", "page": INSIGHTS, "back_to": confirmation})
    assert f'href="{reverse(INSIGHTS)}?state__exact=pending"' in text(client, reverse(INSIGHTS))


def test_large_counts_are_estimated(ada_user: User, monkeypatch: pytest.MonkeyPatch, alice: Caller) -> None:
    for number in range(4):
        services.remember(alice, Remember(content=f"Fact number {number} of a few."))
    rows = MemoryRecord.objects.all()
    assert EstimatedPaginator(rows, 2).count == 4
    assert lists.planned_rows(rows) > 0
    monkeypatch.setattr(lists.EstimatedPaginator, "max_count", 2)
    monkeypatch.setattr(lists, "planned_rows", lambda queryset: 123_456)
    assert EstimatedPaginator(rows, 2).count == 123_456


def test_batches_are_listed_and_undone(ada_user: User, ada: Caller, fact: MemoryRecord, cora_user: User) -> None:
    batch = bulk_actions.start(ada, act="forget", unit_ids=[fact.pk], note="old")
    list_url = "admin:memories_batch_changelist"
    assert "Forgotten: 1" in text(browser(ada_user), reverse(list_url))
    assert "Forgotten: 1" not in text(browser(cora_user), reverse(list_url))
    page = text(browser(ada_user), reverse("admin:memories_memoryrecord_change", args=[fact.pk]))
    assert reverse("batch", args=[batch.pk]) in page
    run_action(browser(ada_user), "undo", batch.pk, list_url=list_url)
    fact.refresh_from_db()
    assert fact.status == "active"


@pytest.mark.parametrize("term", ["Alice Arden", "alice arden", "Arden", "alice@example", "sales.orders", ORDERS])
def test_lists_are_searched_by_what_their_rows_show(ada_user: User, insight: Insight, term: str) -> None:
    for name in ("admin:knowledge_insight_changelist", "admin:memories_memoryrecord_changelist"):
        page = text(browser(ada_user), reverse(name) + "?" + urlencode({"q": term}))
        assert "1 row" in page, name
        page = text(browser(ada_user), reverse(name) + "?" + urlencode({"q": f"{term}x"}))
        assert "0 rows" in page, name


def test_a_preview_leaves_out_what_would_fail(cora_user: User, insight: Insight) -> None:
    run_action(browser(cora_user), "approve", insight.pk, confirm="1")
    run_action(browser(cora_user), "apply", insight.pk, confirm="1")
    page = run_action(browser(cora_user), "approve", insight.pk).content.decode()
    assert "This action doesn’t apply to any of the selected rows." in page


def test_a_curator_is_told_that_own_insights_are_skipped(cora_user: User, cora: Caller, insight: Insight) -> None:
    own = capture(cora, Capture(insight_text="A till counts twice on the first day.", category="correction")).insight
    page = " ".join(run_action(browser(cora_user), "approve", insight.pk, own.pk).content.decode().split())
    assert "1 of the selected rows will be skipped" in page
    assert "A till counts twice" not in page


def test_the_page_of_a_row_lists_empty_fields_at_its_end(ada_user: User, fact: MemoryRecord) -> None:
    page = browser(ada_user).get(reverse("admin:memories_memoryrecord_change", args=[fact.pk])).content.decode()
    shown, folded = page.split("Stored fields", 1)
    assert "field-stale_reason" not in shown
    assert "field-stale_reason" in folded
    assert "field-category" in shown


def test_the_admin_leads_to_the_form_that_edits_a_text(cora_user: User, alice: Caller, insight: Insight) -> None:
    page = text(browser(cora_user), reverse("admin:knowledge_insight_change", args=[insight.pk]))
    assert url_for("edit-insight", insight.pk.hex) in page


def test_rows_that_only_the_service_can_judge_are_kept(
    ada_user: User, cora: Caller, alice: Caller, insight: Insight, fact: MemoryRecord
) -> None:
    decisions.reject(cora, insight_id=insight.pk, notes="no")
    assert "Approve: 1" in run_action(browser(ada_user), "approve", insight.pk).content.decode()
    gone = {"superseded_by": uuid4(), "superseded_at": timezone.now()}
    MemoryRecord.objects.filter(pk=fact.pk).update(status="superseded", **gone)
    memories = "admin:memories_memoryrecord_changelist"
    page = run_action(browser(ada_user), "restore", fact.pk, list_url=memories).content.decode()
    assert "Restore: 1" in page


def test_a_search_for_the_domain_of_an_address_finds_no_people(ada_user: User, insight: Insight) -> None:
    assert "0 rows" in text(browser(ada_user), reverse("admin:knowledge_insight_changelist") + "?q=example.org")
