"""A memory may hold in one scope alone: for a persona, a domain of the catalog, or a purpose that admins keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.insights import capture as capturing
from knowledge.models import CatalogEntity
from knowledge.operations import Capture
from memories import services
from memories.models import MemoryRecord, Purpose
from memories.operations import RecallMemories, Remember, Rescope, Revise, Supersede
from memories.rendering import as_text
from memories.responses import recall_response
from memories.retrieval.recall import recall
from memories.validity.scopes.choices import labels
from memories.writing.bulk_import import remember_many
from memories.writing.rescoping import rescope
from memories.writing.undo import undo
from memory_project.exchange.imports.staging import problem_of

pytestmark = pytest.mark.django_db
REVENUE = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.revenue,PROD)"
FINANCE = "urn:li:domain:finance"


SCOPES_OF_ROWS = ("purpose:Board reporting", "persona:sales", "")


@pytest.fixture
def scopes(personas: object) -> None:
    Purpose.objects.create(name="board", title="Board reporting")
    CatalogEntity.objects.create(urn=FINANCE, entity_type="domain", name="Finance")


def remember(caller: Caller, content: str, **fields: object) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": content, **fields})).record


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("persona:sales", "persona:sales"),
        ("persona: Sales", "persona:sales"),
        ("domain:finance", f"domain:{FINANCE}"),
        (f"domain:{FINANCE}", f"domain:{FINANCE}"),
        ("purpose:Board reporting", "purpose:board"),
        ("", ""),
    ],
)
def test_a_scope_is_named_by_its_name_or_label(scopes: None, alice: Caller, given: str, stored: str) -> None:
    record = remember(alice, "Revenue is net of refunds here.", scope=given)
    record.refresh_from_db()
    assert record.scope == stored


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("persona:nobody", "nobody has"),
        ("persona:supply", "nobody has"),  # a persona that Alice does not hold
        ("purpose:forecast", "purpose:board"),
        ("domain:Marketing", f"domain:{FINANCE}"),
        ("team:finance", "persona:NAME, domain:NAME, purpose:NAME"),
        ("persona:", "is not a scope"),
        ("finance", "is not a scope"),
        (f"purpose:{'x' * 600}", "0 to 520 characters"),
    ],
)
def test_a_scope_that_nobody_has_is_refused_with_the_allowed_ones(
    scopes: None, alice: Caller, given: str, problem: str
) -> None:
    kept = remember(alice, "Revenue is gross of refunds here.")
    calls: list[Callable[[], object]] = [
        lambda: remember(alice, "Revenue is net of refunds here.", scope=given),
        lambda: remember_many(alice, facts=[{"content": "Revenue is net of refunds.", "scope": given}]),
        lambda: services.revise(alice, Revise.read({"id": kept.pk, "scope": given})),
        lambda: services.supersede(
            alice, Supersede.read({"id": kept.pk, "content": "Revenue is net.", "scope": given})
        ),
        lambda: rescope(alice, Rescope.read({"id": kept.pk, "scope": given})),
        lambda: capturing.capture(
            alice, Capture.read({"category": "correction", "insight_text": "Revenue is net.", "scope": given})
        ),
    ]
    for call in calls:
        with pytest.raises(Invalid) as refused:
            call()
        assert refused.value.field.endswith("scope")
        assert problem in refused.value.message
    assert list(MemoryRecord.objects.values_list("pk", "scope", "status")) == [(kept.pk, "", "active")]


def test_only_who_may_edit_a_memory_says_where_it_holds_and_it_can_be_undone(
    scopes: None, alice: Caller, bob: Caller, olga: Caller
) -> None:
    record = remember(alice, "Revenue is net of refunds here.", scope="purpose:board")
    refusals: list[tuple[Caller, type[DomainError]]] = [(bob, Forbidden), (olga, NotFound)]
    for caller, refusal in refusals:
        with pytest.raises(refusal):
            rescope(caller, Rescope.read({"id": record.pk, "scope": "domain:finance"}))
    assert rescope(alice, Rescope.read({"id": record.pk, "scope": "persona:sales"})).scope == "persona:sales"
    assert undo(alice, record_id=record.pk, change="rescope").scope == "purpose:board"
    with pytest.raises(Conflict):
        undo(alice, record_id=record.pk, change="rescope")


def test_a_correction_inherits_the_scope_also_of_a_removed_purpose(scopes: None, alice: Caller) -> None:
    record = remember(alice, "Revenue is net of refunds here.", scope="purpose:board")
    assert labels([record.scope]) == {"purpose:board": "Board reporting"}
    Purpose.objects.update(title="Board")  # a new label is shown at once
    assert labels([record.scope]) == {"purpose:board": "Board"}
    Purpose.objects.all().delete()
    corrected = services.supersede(
        alice, Supersede.read({"id": record.pk, "content": "Revenue is net of refunds and tax."})
    ).record
    assert corrected.scope == "purpose:board"
    assert labels([corrected.scope]) == {"purpose:board": "board (removed)"}
    assert services.revise(alice, Revise.read({"id": corrected.pk, "scope": ""})).scope == ""


def recalled(caller: Caller, **arguments: object) -> dict[str, object]:
    response = recall_response(recall(caller, RecallMemories.read(arguments)))
    return {**response, "text": as_text(response)}


def test_recall_returns_both_truths_and_says_that_one_has_to_ask(scopes: None, alice: Caller, olga: Caller) -> None:
    remember(alice, "Revenue excludes refunds.", entity_urns=[REVENUE], scope="domain:finance")
    remember(alice, "Revenue includes refunds.", entity_urns=[REVENUE], scope="persona:sales")
    found = recalled(alice, query="what is revenue", entity_urns=[REVENUE])
    assert {hit["holds_for"] for hit in found["memories"]} == {"Finance", "Sales"}  # type: ignore[attr-defined]
    assert "2 memories hold in different scopes" in str(found["note"])
    assert "ask which is meant" in str(found["text"])
    assert "holds for Finance" in str(found["text"])
    assert recalled(olga, query="what is revenue", entity_urns=[REVENUE])["count"] == 0


def test_without_an_entity_contradicting_texts_need_the_question_and_others_do_not(scopes: None, alice: Caller) -> None:
    remember(alice, "The fiscal year starts in March.", scope="domain:finance")
    remember(alice, "The fiscal year starts in April.", scope="persona:sales")
    assert "ask which" in str(recalled(alice, query="when does the fiscal year start")["note"])
    remember(alice, "Coffee machines are descaled monthly.", scope="purpose:board")
    found = recalled(alice, query="coffee machines", limit=1)
    assert (found["count"], "note" in found) == (1, False)


def test_an_import_keeps_scopes_and_refuses_rows_whose_scope_nobody_has(scopes: None, alice: Caller) -> None:
    given = [{"content": f"Revenue of channel {n} is net.", "scope": scope} for n, scope in enumerate(SCOPES_OF_ROWS)]
    stored = [record.scope for record, _ in remember_many(alice, facts=given)]
    assert stored == ["purpose:board", "persona:sales", ""]
    assert problem_of(alice, "memory", given[0]) == ""
    assert "nobody has" in problem_of(alice, "memory", {**given[0], "scope": "purpose:none"})
