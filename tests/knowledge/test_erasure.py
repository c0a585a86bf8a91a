"""Erasing removes a memory and its copies, and leaves the same words in texts of others."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from analysis import findings
from analysis.models import Finding
from analysis.operations import StoreFindings
from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.people.caller import WIPE, Caller
from knowledge.catalog.interface import Catalog
from knowledge.changesets import erased_entities, promoted, rollback
from knowledge.changesets.apply import apply as apply_changes
from knowledge.graph import entities
from knowledge.graph.models import Observation
from knowledge.graph.operations import AddObservations, CreateEntities
from knowledge.insights.capture import capture
from knowledge.models import Change, Changeset, Decision, Insight
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.conversation import cache, wipe
from memories.conversation.deletion import delete_expired
from memories.conversation.models import CachedAnswer
from memories.conversation.operations import StoreCache, Wipe
from memories.models import Batch, MemoryRecord, MemoryRevision, Quotation, SameWords, Tombstone
from memories.operations import Erase, Forget, Remember, Revise, Supersede
from memories.retrieval import term_changes
from memories.writing import bulk_actions, erasure, same_words, text_places
from memory_project.management.commands import restore
from memory_project.models import AuditEvent, User
from tests.conftest import REFUNDS
from tests.knowledge.changeset_examples import approved, change
from tests.knowledge.conftest import ORDERS, everything, put
from tests.pages import browser

pytestmark = pytest.mark.django_db
# Tables in which erasing a memory leaves traces, or removes rows of this memory alone.
OWN_TABLES = {
    "memory_records",
    "memory_passages",
    "memory_tombstones",
    "erased_memories",
    "memory_same_words",
    "index_jobs",
    "memory_lexeme_changes",  # counted, and so emptied, with each erasure
    "memory_lexemes",
}


def remember(caller: Caller, text: str = REFUNDS, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": text, **fields})).record


def erase(caller: Caller, record: MemoryRecord) -> erasure.Erasure:
    return erasure.erase(caller, Erase(record_id=record.pk, confirm=True))


def tables() -> dict[str, list[str]]:
    """Return all rows of all tables, as texts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        names = [name for (name,) in cursor.fetchall()]
        rows = {}
        for name in names:
            cursor.execute(f'SELECT line::text FROM "{name}" AS line')  # noqa: S608 - a table's name
            rows[name] = sorted(row for (row,) in cursor.fetchall())
        return rows


def tables_with(text: str) -> set[str]:
    return {name for name, rows in tables().items() if any(text in row for row in rows)}


def store_finding(caller: Caller, text: str, **fields: Any) -> Finding:
    operation = StoreFindings.read({"analysis_id": "own", "findings": [{"finding": text}], **fields})
    (finding,), _ = findings.store(caller, operation)
    return finding


def store_answer(caller: Caller, response: str, **fields: Any) -> CachedAnswer:
    entry, _ = cache.store_cache(
        caller, StoreCache.read({"user_id": caller.email, "query": "How is it?", "response": response, **fields})
    )
    return entry


def observe(caller: Caller, text: str, **fields: Any) -> None:
    entities.create_entities(caller, CreateEntities.read({"entities": [{"name": "Mart"}]}))
    operation = AddObservations.read({"name": "Mart", "observations": [text], **fields})
    entities.add_observations(caller, operation)


# -- the same words in texts of others ---------------------------------------------------------------------


@pytest.fixture
def own_words(small_catalog: None, bob: Caller, cora: Caller) -> MemoryRecord:
    """Bob and Cora have the words in every place where people write."""
    text = f"As everybody knows: {REFUNDS} Since May."
    record = remember(bob, text, visibility="private", summary=REFUNDS)
    services.revise(bob, Revise(record_id=record.pk, content=f"{text} Still."))
    services.forget(bob, Forget(record_id=remember(bob, "Another memory of Bob.").pk, reason=text))
    store_finding(bob, text, persistent=True)
    store_answer(bob, text)
    observe(bob, text)
    insight = capture(bob, Capture(insight_text="Orders come twice a day.", category="data_quality")).insight
    decisions.approve(cora, insight_id=insight.pk, notes=text)
    other = remember(bob, "A memory that is forgotten in bulk.")
    bulk_actions.start(bob, act="forget", unit_ids=[other.pk], note=text)
    apply_changes(
        cora,
        Apply.read(
            {
                "insight_ids": [approved(bob, cora).pk.hex],
                "changes": [change("update_description", "", text)],
                "entity_urn": ORDERS,
            }
        ),
    )
    return record


def test_the_same_words_of_others_stay(own_words: MemoryRecord, alice: Caller) -> None:
    record = remember(alice)
    before = tables()
    erase(alice, record)
    after = tables()
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= OWN_TABLES
    assert not MemoryRecord.objects.filter(pk=record.pk).exists()


def test_a_roll_back_restores_the_words_that_the_catalog_had_before(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller
) -> None:
    """The words of the memory were in the catalog first. Nothing takes them away from there."""
    put(ORDERS, "editableDatasetProperties", {"description": REFUNDS})
    request = {"changes": [change("update_description", "", "Another text.")], "entity_urn": ORDERS}
    insight_ids = [approved(bob, cora).pk.hex]
    changeset = apply_changes(cora, Apply.read({"insight_ids": insight_ids, **request})).changeset
    erase(alice, remember(alice))
    rollback.roll_back(cora, changeset_id=changeset.pk)
    assert everything()[ORDERS, "editableDatasetProperties"] == {"description": REFUNDS}


def test_the_eraser_learns_only_of_texts_that_they_may_read(
    own_words: MemoryRecord, alice: Caller, bob: Caller, olga: Caller, ada: Caller
) -> None:
    assert erase(olga, remember(olga)).same_words == {"catalog": 1}  # everybody reads the catalog
    in_sales = {"catalog": 1, "reasons in the history": 2, "decision notes": 1, "review notes": 1}
    assert erase(alice, remember(alice)).same_words == in_sales
    remember(bob, f"I share this. {REFUNDS}")
    store_finding(alice, f"My own finding. {REFUNDS}")
    assert erase(alice, remember(alice)).same_words == {**in_sales, "memories": 1, "findings": 1}
    assert erase(alice, remember(alice, "Nobody has written this.")).same_words == {}
    everywhere = erase(ada, remember(ada)).same_words
    assert everywhere["memories"] == 2
    assert {"cached answers", "observations", "decision notes", "batch notes", "earlier texts"} <= set(everywhere)


def test_the_number_does_not_depend_on_texts_that_the_eraser_may_not_read(alice: Caller, bob: Caller) -> None:
    same_words_of_bob = [f"Number {n}. {REFUNDS}" for n in range(5)]
    for text in same_words_of_bob:
        remember(bob, text, visibility="private")
    limit, same_words.MAX_LISTED = same_words.MAX_LISTED, 3
    try:
        remember(bob, f"Shared. {REFUNDS}")
        assert erase(alice, remember(alice)).same_words == {"memories": 1}
        assert SameWords.objects.count() == 3
    finally:
        same_words.MAX_LISTED = limit


@pytest.mark.parametrize(
    ("own", "other", "is_same"),
    [
        (REFUNDS, "revenue in the sales mart, excludes refunds", True),
        (REFUNDS, "Refunds are excluded from revenue in the sales mart.", False),
        ("Der Umsatz enthält keine Erstattungen.", "Laut Lea: Der Umsatz enthält keine Erstattungen!", True),
        ("100% of 'sales.orders' \\ none", "It says 100% of 'sales.orders' \\ none.", True),
    ],
)
def test_words_are_the_same_in_any_case_and_punctuation(
    alice: Caller, bob: Caller, own: str, other: str, is_same: bool
) -> None:
    remember(bob, other)
    store_finding(alice, other)
    expected = {"memories": 1, "findings": 1} if is_same else {}
    assert erase(alice, remember(alice, own)).same_words == expected


def test_the_description_of_an_entity_with_a_long_urn_is_listed(alice: Caller, small_catalog: None) -> None:
    text = "Orders to suppliers, one row each."
    urn = ORDERS.replace("sales.orders", f"sales.{'orders' * 60}")
    put(urn, "datasetProperties", {"name": "orders", "description": text})
    assert erase(alice, remember(alice, text)).same_words == {"catalog": 1}
    assert SameWords.objects.get().row == urn


# -- what admins decide ------------------------------------------------------------------------------------


LIST = "admin:memories_samewords_changelist"


def test_admins_see_each_text_and_decide(
    own_words: MemoryRecord, alice: Caller, alice_user: User, ada: Caller, ada_user: User
) -> None:
    erase(alice, remember(alice))
    rows = {entry.place: entry for entry in SameWords.objects.all()}
    assert REFUNDS not in "".join(tables()["memory_same_words"] + tables()["memory_tombstones"])
    assert browser(alice_user).get(reverse(LIST)).status_code in (302, 403)
    page = browser(ada_user).get(reverse(LIST)).content.decode()
    assert "As everybody knows" in page
    assert "bob@example.org" in page
    detail = reverse("admin:memories_samewords_change", args=[rows["cached answers"].pk])
    assert REFUNDS in browser(ada_user).get(detail).content.decode()
    for act, place in (("erase_same_words", "cached answers"), ("leave_same_words", "findings")):
        data = {"action": act, ACTION_CHECKBOX_NAME: [str(rows[place].pk)]}
        assert "As everybody knows" in browser(ada_user).post(reverse(LIST), data).content.decode()
        response = browser(ada_user).post(reverse(LIST), {**data, "confirm": "1"}, follow=True)
        assert response.status_code == 200
    assert not CachedAnswer.objects.exists()
    assert Finding.objects.count() == 1
    decided = SameWords.objects.exclude(decision="open").values_list("place", "decision", "decided_by")
    assert set(decided) == {("cached answers", "erased", ada.email), ("findings", "left", ada.email)}
    assert AuditEvent.objects.filter(email=ada.email, channel="admin").count() >= 2
    assert Batch.objects.filter(created_by=ada.email, outcomes=[""]).count() == 2


def test_every_place_can_be_erased_from_the_list_except_the_catalog(
    own_words: MemoryRecord, alice: Caller, ada: Caller
) -> None:
    erase(alice, remember(alice))
    for entry in SameWords.objects.all():
        if entry.place == "catalog":
            with pytest.raises(Conflict, match="only a changeset changes"):
                erasure.erase_same_words(ada, entry_id=entry.pk)
        else:
            erasure.erase_same_words(ada, entry_id=entry.pk)
    left = tables_with(REFUNDS)
    assert left == {"catalog_aspects", "catalog_entities", "changes"}
    assert Tombstone.objects.filter(record_id=own_words.pk).exists()


def test_a_decision_is_made_once_and_by_admins_alone(alice: Caller, bob: Caller, ada: Caller) -> None:
    record = remember(bob, f"Bob’s own words. {REFUNDS}")
    erase(alice, remember(alice))
    entry = SameWords.objects.get()
    for act in (same_words.leave, erasure.erase_same_words):
        with pytest.raises(Forbidden):
            act(bob, entry_id=entry.pk)
    same_words.leave(ada, entry_id=entry.pk)
    with pytest.raises(Conflict, match="left by ada"):
        erasure.erase_same_words(ada, entry_id=entry.pk)
    assert MemoryRecord.objects.filter(pk=record.pk).exists()


def test_a_text_waits_for_one_decision_however_often_its_words_are_erased(alice: Caller, bob: Caller) -> None:
    remember(bob, f"Bob’s own words. {REFUNDS}")
    for _ in range(3):
        erase(alice, remember(alice))
    assert SameWords.objects.count() == 1


def test_a_text_that_has_changed_since_it_was_found_stays(alice: Caller, bob: Caller, ada: Caller) -> None:
    record = remember(bob, f"Bob’s own words. {REFUNDS}")
    erase(alice, remember(alice))
    services.revise(bob, Revise(record_id=record.pk, content="Something else altogether."))
    with pytest.raises(Conflict, match="has changed"):
        erasure.erase_same_words(ada, entry_id=SameWords.objects.get(place="memories").pk)
    assert MemoryRecord.objects.filter(pk=record.pk).exists()


# -- copies --------------------------------------------------------------------------------------------------


def test_texts_go_with_the_memories_that_they_name(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    named = {"memory_ids": [fact.pk.hex]}
    store_finding(bob, "Revenue is net of refunds, says Alice.", **named)
    store_answer(bob, "Net of refunds.", **named)
    observe(bob, "Alice says net.", **named)
    kept = store_finding(bob, "Revenue is net of refunds, says Bob.")
    removed = erase(alice, fact).removed
    assert removed == {"findings": 1, "cached answers": 1, "observations": 1}
    assert list(Finding.objects.values_list("pk", flat=True)) == [kept.pk]
    assert not CachedAnswer.objects.exists()
    assert not Observation.objects.exists()


def test_an_insight_goes_with_the_memory_that_its_finding_or_observation_names(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    finding = store_finding(bob, "Revenue is net of refunds, says Alice.", memory_ids=[fact.pk.hex])
    observe(bob, "Alice says net.", memory_ids=[fact.pk.hex])
    observation = Observation.objects.get()
    derived = [
        Capture(finding_id=finding.pk, category="data_quality"),
        Capture(observation_id=observation.number, category="data_quality"),
    ]
    captured = [capture(bob, operation).insight for operation in derived]
    own = Capture(insight_text="I found out how revenue is computed.", finding_id=finding.pk, category="data_quality")
    kept = capture(bob, own).insight
    erase(alice, fact)
    assert not Insight.objects.filter(pk__in=[insight.pk for insight in captured]).exists()
    assert tables_with("says Alice") | tables_with("Alice says net") == set()
    assert Insight.objects.filter(pk=kept.pk).exists()


@pytest.mark.parametrize("store", [store_finding, store_answer, observe])
def test_only_readable_memories_can_be_named(alice: Caller, olga: Caller, fact: MemoryRecord, store: Any) -> None:
    with pytest.raises(NotFound, match="no such memory") as refused:
        store(olga, "I name what I can't read.", memory_ids=[fact.pk.hex])
    assert refused.value.field == "memory_ids"
    assert not Finding.objects.exists()
    assert not CachedAnswer.objects.exists()
    assert not Observation.objects.exists()


def test_a_quotation_is_cut_out_of_a_note_about_several_memories(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller
) -> None:
    quoted, other = (
        capture(alice, Capture(insight_text=text, category="data_quality")).insight
        for text in ("The margin of Ghent is 4.2 percent.", "Orders come twice a day.")
    )
    note = f"Both are right: {quoted.record.content} I asked Lea."
    bulk_actions.start(cora, act="approve", unit_ids=[quoted.pk, other.pk], note=note)
    removed = erase(alice, quoted.record).removed
    assert removed == {"batch notes": 1, "decision notes": 2, "reasons in the history": 1, "notifications": 1}
    cut = "Both are right: [erased] I asked Lea."
    other.refresh_from_db()
    assert (Batch.objects.get().note, Decision.objects.get().notes, other.review_notes) == (cut, cut, cut)
    assert MemoryRevision.objects.get(record=other.pk).reason == cut


def test_a_reason_that_quotes_the_correction_is_cut(alice: Caller, fact: MemoryRecord) -> None:
    text = "Revenue in the sales mart includes refunds."
    operation = Supersede(record_id=fact.pk, content=text, reason=f"Lea said: {text} Since May.")
    new = services.supersede(alice, operation).record
    erase(alice, new)
    assert tables_with(text) == set()
    assert MemoryRevision.objects.get(record=fact, change="supersede").reason == "Lea said: [erased] Since May."


def test_the_reasons_for_other_corrections_stay(alice: Caller, fact: MemoryRecord) -> None:
    operation = Supersede(record_id=fact.pk, content="Revenue includes refunds.", reason="Lea said so.")
    new = services.supersede(alice, operation).record
    erase(alice, new)
    assert MemoryRevision.objects.get(record=fact, change="supersede").reason == "Lea said so."


def test_the_text_of_a_bulk_correction_goes_with_the_correction(alice: Caller, fact: MemoryRecord) -> None:
    text = "Revenue in the sales mart includes refunds."
    bulk_actions.start(alice, act="correct", unit_ids=[fact.pk], choice=text)
    erase(alice, MemoryRecord.objects.get(content=text))
    assert Batch.objects.get().choice == ""


def test_an_insight_captured_beside_the_memory_is_erased_with_it(
    small_catalog: None, alice: Caller, fact: MemoryRecord
) -> None:
    insight = capture(alice, Capture(insight_text=REFUNDS, category="business_context")).insight
    assert erase(alice, fact).removed == {"memories": 1}
    assert not Insight.objects.filter(pk=insight.pk).exists()
    assert tables_with(REFUNDS) == set()
    assert set(Tombstone.objects.values_list("record_id", flat=True)) == {fact.pk, insight.pk}


def test_a_memory_whose_copy_is_in_the_catalog_is_refused_as_a_whole(
    small_catalog: None, alice: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    insight = capture(alice, Capture(insight_text=REFUNDS, category="business_context")).insight
    decisions.approve(cora, insight_id=insight.pk)
    operation = {"insight_ids": [insight.pk.hex], "changes": [change("add_tag", "", "Net")], "entity_urn": ORDERS}
    changeset = apply_changes(cora, Apply.read(operation)).changeset
    with pytest.raises(Conflict, match=changeset.pk.hex):
        erase(alice, fact)
    assert MemoryRecord.objects.filter(pk__in=[fact.pk, insight.pk]).count() == 2


# -- the catalog -----------------------------------------------------------------------------------------------

SECRET = "The margin of Ghent is 4.2 percent before tax."


def applied(owner: Caller, curator: Caller, *changes: dict[str, str], text: str = SECRET) -> tuple[Insight, Changeset]:
    fields = {"insight_text": text, "category": "data_quality", "entity_urns": [ORDERS]}
    insight = capture(owner, Capture.read(fields)).insight
    decisions.approve(curator, insight_id=insight.pk)
    operation = {"insight_ids": [insight.pk.hex], "changes": list(changes), "entity_urn": ORDERS}
    return insight, apply_changes(curator, Apply.read(operation)).changeset


def test_a_rolled_back_changeset_leaves_no_text_and_the_catalog_as_it_was(
    either_catalog: Catalog, alice: Caller, cora: Caller
) -> None:
    put(ORDERS, "editableDatasetProperties", {"description": "The old text."})
    insight, changeset = applied(alice, cora, change("update_description", "", f"Note: {SECRET}"))
    rollback.roll_back(cora, changeset_id=changeset.pk)
    before = everything()
    removed = erase(alice, insight.record).removed
    assert removed["changes"] == 1
    assert everything() == before
    assert tables_with("Ghent") == set()
    row = Change.objects.get(changeset=changeset)
    assert (row.before, row.before_erased) == ("The old text.", False)


def test_a_roll_back_does_not_bring_an_erased_text_back(
    either_catalog: Catalog, alice: Caller, bob: Caller, cora: Caller
) -> None:
    """A later changeset found the erased text in the catalog. Its rollback would restore it."""
    insight, first = applied(alice, cora, change("update_description", "", SECRET))
    _, between = applied(bob, cora, change("update_description", "", "Between."), text="Orders are final after a day.")
    _, later = applied(bob, cora, change("add_tag", "", "Net"), text="Orders are net of tax, says finance.")
    rollback.roll_back(cora, changeset_id=first.pk, skip_conflicts=True)
    # as if the rollback had not found the later change
    Change.objects.filter(changeset=between).update(had_before=True, before=SECRET)
    erase(alice, insight.record)
    assert tables_with(SECRET) == set()
    preview = rollback.roll_back_preview(cora, changeset_id=between.pk)
    assert [undo.is_erased for undo in preview.undos] == [True]
    with pytest.raises(Conflict, match="was erased"):
        rollback.roll_back(cora, changeset_id=between.pk)
    result = rollback.roll_back(cora, changeset_id=between.pk, skip_conflicts=True)
    assert "erased" in result.conflicts[0].error
    assert everything()[ORDERS, "editableDatasetProperties"]["description"] == "Between."
    assert rollback.roll_back(cora, changeset_id=later.pk).reverted


CREATIONS = [
    change("create_glossary_term", "Ghent margin", SECRET),
    change("add_context_document", "About Ghent", SECRET),
    change("raise_incident", "Ghent is off", SECRET),
]


@pytest.mark.parametrize("creation", CREATIONS, ids=lambda creation: creation["change_type"])
def test_created_entities_lose_their_texts_by_a_changeset(
    either_catalog: Catalog, alice: Caller, cora: Caller, creation: dict[str, str]
) -> None:
    insight, changeset = applied(alice, cora, creation)
    (urn,) = changeset.changes.filter(creates=True).values_list("urn", flat=True)
    rollback.roll_back(cora, changeset_id=changeset.pk)
    assert any(SECRET in str(value) for (name, _), value in everything().items() if name == urn)
    erase(alice, insight.record)
    assert erased_entities.carry_out_open() == 0
    assert not any(SECRET in str(value) for value in everything().values())
    assert tables_with(SECRET) == set()
    erasing = Changeset.objects.exclude(pk=changeset.pk).get()
    assert (erasing.state, erasing.applied_by) == ("applied", alice.email)
    with pytest.raises(Conflict, match="was erased"):
        rollback.roll_back(cora, changeset_id=erasing.pk)


def test_the_changeset_that_removes_a_text_is_shown_like_others(
    small_catalog: None,
    alice: Caller,
    cora: Caller,
    cora_user: User,
    ada_user: User,
    django_capture_on_commit_callbacks: Any,
) -> None:
    insight, changeset = applied(alice, cora, CREATIONS[0])
    rollback.roll_back(cora, changeset_id=changeset.pk)
    with django_capture_on_commit_callbacks(execute=True):
        erase(alice, insight.record)
    erasing = Changeset.objects.exclude(pk=changeset.pk).get()
    assert (erasing.state, promoted.counts()["glossary"]) == ("applied", 0)
    for pk in (erasing.pk, changeset.pk):
        page = browser(cora_user).get(reverse("changeset", args=[pk]))
        assert (page.status_code, SECRET in page.content.decode()) == (200, False)
        page = browser(ada_user).get(reverse("admin:knowledge_changeset_change", args=[pk]))
        assert (page.status_code, SECRET in page.content.decode()) == (200, False)
    assert "values were erased" in browser(cora_user).get(reverse("roll-back", args=[erasing.pk])).content.decode()
    for name in ("changesets", "admin:knowledge_changeset_changelist"):
        assert browser(ada_user).get(reverse(name)).status_code == 200


def test_other_insights_of_a_changeset_keep_their_texts(small_catalog: None, alice: Caller, cora: Caller) -> None:
    first, second = (
        capture(alice, Capture(insight_text=text, category="data_quality", entity_urns=[ORDERS])).insight
        for text in (SECRET, "Orders come twice a day.")
    )
    for insight in (first, second):
        decisions.approve(cora, insight_id=insight.pk)
    description = f"Lea: {SECRET} Orders come twice a day."
    operation = {
        "insight_ids": [first.pk.hex, second.pk.hex],
        "changes": [change("update_description", "", description)],
        "entity_urn": ORDERS,
    }
    changeset = apply_changes(cora, Apply.read(operation)).changeset
    rollback.roll_back(cora, changeset_id=changeset.pk)
    erase(alice, first.record)
    assert Change.objects.get(changeset=changeset).written == "Lea: [erased] Orders come twice a day."
    assert tables_with(SECRET) == set()
    erase(alice, second.record)
    assert Change.objects.get(changeset=changeset).written == "[erased]"


def test_a_created_entity_that_is_used_again_keeps_its_text(
    either_catalog: Catalog, alice: Caller, cora: Caller
) -> None:
    insight, changeset = applied(alice, cora, CREATIONS[0])
    (urn,) = changeset.changes.filter(creates=True).values_list("urn", flat=True)
    rollback.roll_back(cora, changeset_id=changeset.pk)
    put(urn, "status", {"removed": False})
    before = everything()
    erase(alice, insight.record)
    erased_entities.carry_out_open()
    assert everything() == before


# -- many rows ---------------------------------------------------------------------------------------------------


def test_no_place_is_read_as_a_whole(db: None) -> None:
    """With 20,000 rows, PostgreSQL finds texts by their words in an index of each place."""
    for name, place in text_places.places().items():
        rows = text_places.containing(place, [REFUNDS, SECRET]).values("pk")
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_indexscan = off")  # an index of another column, read as a whole
            plan = rows.explain()
        assert "Bitmap Index Scan" in plan, f"{name}: {plan}"


def test_erasing_among_many_rows_reads_few(alice: Caller, fact: MemoryRecord) -> None:
    finding = store_finding(alice, "Nothing of interest.")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO analysis_memories (id, session_id, model, finding, category, metadata, page_key,"
            " embedding_model, persistent, created_at) SELECT gen_random_uuid(), %s, '',"
            " 'Finding number ' || n || ' about revenue in the sales mart.', '', '{}', '', '', true, now()"
            " FROM generate_series(1, 20000) AS n",
            [finding.session_id],
        )
        cursor.execute("ANALYZE analysis_memories")
        place = text_places.places()["findings"]
        assert "finding_words" in text_places.containing(place, [REFUNDS]).explain()
    assert erase(alice, fact).same_words == {}
    assert Finding.objects.count() == 20_001


# -- rows from before origins were stored -----------------------------------------------------------------------


def run_statements(module: str, *names: str) -> None:
    migration = import_module(module)
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(getattr(migration, name))


def test_the_migration_derives_origins_from_ids(alice: Caller, fact: MemoryRecord) -> None:
    text = "Revenue in the sales mart includes refunds."
    other = remember(alice, "Something else altogether.")
    bulk_actions.start(alice, act="verify", unit_ids=[fact.pk, other.pk], note=f"Still true: {REFUNDS}")
    operation = Supersede(record_id=fact.pk, content=text, reason=f"Lea said: {text}")
    new = services.supersede(alice, operation).record
    stored = set(Quotation.objects.values_list("record", "place", "row", "is_whole"))
    assert len(stored) == 2
    Quotation.objects.all().delete()
    run_statements("memories.migrations.0026_origins_of_earlier_texts", "OF_BATCHES", "OF_REASONS")
    assert set(Quotation.objects.values_list("record", "place", "row", "is_whole")) == stored
    erase(alice, new)
    erase(alice, fact)
    assert tables_with(text) | tables_with(REFUNDS) == set()


def test_the_migration_finds_the_audit_events_of_deletions(alice: Caller, fact: MemoryRecord) -> None:
    AuditEvent.objects.create(
        channel="mcp", tool="delete_memory", outcome="ok", duration_ms=1, arguments={"memory_id": str(fact.pk)}
    )
    AuditEvent.objects.create(channel="mcp", tool="x", outcome="ok", duration_ms=1, arguments={"memory_id": "no id"})
    run_statements("memory_project.migrations.0010_audit_events_of_deletions", "NAMED")
    assert erase(alice, fact).removed == {"audit events": 1}
    assert AuditEvent.objects.get(tool="x").arguments == {"memory_id": "no id"}


# -- wiping and restoring ------------------------------------------------------------------------------------------


def test_a_wipe_counts_a_memory_and_its_copy_once(small_catalog: None, alice: Caller, fact: MemoryRecord) -> None:
    capture(alice, Capture(insight_text=REFUNDS, category="business_context"))
    user = replace(alice, rights=frozenset({WIPE}))
    outcome = wipe.request_wipe(user, Wipe(user_id=alice.email, confirm=True))
    assert outcome.counts["memory_records"] == 2
    assert tables_with(REFUNDS) == set()
    assert not SameWords.objects.exists()


def test_a_restore_erases_a_memory_again_whose_copy_was_applied_when_the_backup_was_made(
    small_catalog: None, alice: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    insight = capture(alice, Capture(insight_text=REFUNDS, category="business_context")).insight
    decisions.approve(cora, insight_id=insight.pk)
    operation = {"insight_ids": [insight.pk.hex], "changes": [change("add_tag", "", "Net")], "entity_urn": ORDERS}
    apply_changes(cora, Apply.read(operation))
    restore.Command().erase(fact.pk)
    assert not MemoryRecord.objects.filter(pk__in=[fact.pk, insight.pk]).exists()
    assert tables_with(REFUNDS) == set()


PLANTED = "quixotransplant"


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("way", ["erase", "wipe", "purge"])
def test_an_erased_word_is_nowhere_at_once(alice: Caller, way: str, is_counted: bool) -> None:
    if is_counted:
        remember(alice, "Other words are counted.")
        term_changes.update()
    record = remember(alice, f"The {PLANTED} ledger is kept by hand.")
    if is_counted:
        term_changes.update()
    assert tables_with(PLANTED[:12])
    if way == "erase":
        erase(alice, record)
    elif way == "wipe":
        wipe.request_wipe(replace(alice, rights=frozenset({WIPE})), Wipe(user_id=alice.email, confirm=True))
    else:
        services.forget(alice, Forget(record_id=record.pk))
        MemoryRecord.objects.filter(pk=record.pk).update(purge_after=timezone.now())
        delete_expired()
    assert tables_with(PLANTED[:12]) == set()
