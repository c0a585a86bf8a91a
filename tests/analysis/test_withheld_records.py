"""Records of sources that their owner may not read: they can't be queried, and neither can the summaries of pages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from analysis import child_ingest, findings, sessions, sources
from analysis.ingest import ingest
from analysis.models import DeclaredSource, Finding, Session
from analysis.operations import IngestChildren, IngestRecords, StoreFindings
from analysis.querying.query import scope_for
from foundation.operations.errors import Forbidden, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memories.writing import hand_overs
from memory_project.models import User
from tests.fake_rest_api import Api
from tests.mcp_client import as_caller
from tests.pages import browser

pytestmark = pytest.mark.django_db(transaction=True)

SOURCE = """base_url = "https://api.example/v1"
read_personas = ["{persona}"]
[models.{model}]
endpoint = "{model}"
[models.{model}.associations.{child}]
kind = "has_many"
"""


def test_whoever_loses_a_source_reads_its_records_no_more(api: Api, alice: Caller, alice_user: User) -> None:
    ingest(alice, IngestRecords(analysis_id="audit", model="book", ingest_all=True))
    own = "Half of the books are unread"
    findings.store(alice, StoreFindings.read({"analysis_id": "audit", "findings": [{"finding": own}]}))
    session = Session.objects.get()
    (summary, *_) = Finding.objects.exclude(page_key="")
    modes: list[dict[str, Any]] = [
        {"mode": "describe"},
        {"mode": "aggregate", "group_by": "status"},
        {"mode": "filter", "where": {"status": "completed"}},
        {"mode": "filter", "where": {"no_such_field": 1}},
        {"mode": "sample"},
    ]

    async def action(client: Any) -> list[Any]:
        answers = [await client.call_tool("analysis_query", {"analysis_id": "audit", **mode}) for mode in modes]
        answers.append(await client.call_tool("analysis_export", {"analysis_id": "audit", "format": "csv"}))
        return answers

    page = reverse("analysis", args=[session.pk])
    declaration = DeclaredSource.objects.get().declaration
    for personas, is_readable in ((["sales", "supply"], True), (["finance"], False), ([], False), (["sales"], True)):
        changed = declaration.replace('read_personas = ["sales", "supply"]', f"read_personas = {json.dumps(personas)}")
        DeclaredSource.objects.update(declaration=changed)
        answers = [str(answer.content) for answer in as_caller(alice, action)]
        assert ["you may not read book" in answer for answer in answers] == [not is_readable] * len(answers)
        assert any("completed" in answer for answer in answers) == is_readable
        assert ("secret" in "".join(answers)) == is_readable  # the name of a field
        if is_readable:
            assert findings.get_finding(alice, summary.pk) == summary
        else:
            with pytest.raises(NotFound):
                findings.get_finding(alice, summary.pk)
        hits = [hit.finding for hit in findings.search(alice, session, "unread books", threshold=-1.0).hits]
        assert own in [hit.finding for hit in hits]
        assert (summary in hits) == is_readable
        text = browser(alice_user).get(page).content.decode()
        assert ("not available to your personas" in text) != is_readable
        assert ("completed" in text) == is_readable


def test_an_heir_without_the_source_reads_none_of_its_records(api: Api, alice: Caller, ada: Caller) -> None:
    ingest(alice, IngestRecords(analysis_id="audit", model="book", per_page=50))
    api.children = {"1": [{"id": "r1", "stars": 5}]}
    children = {"analysis_id": "audit", "parent_model": "book", "child_resource": "reviews", "parent_ids": ["1"]}
    child_ingest.ingest(alice, IngestChildren.read(children))
    heir = build_caller(User.objects.create_user("heir@example.org", "a long password"), channel="test")
    hand_overs.hand_over(ada, old=alice.email, new=heir.email)
    session = sessions.get_session(heir, "audit")
    assert sorted(sessions.models_of(session)) == ["book", "review"]
    for model in ("book", "review"):
        with pytest.raises(Forbidden, match=f"you may not read {model}"):
            scope_for(heir, session, model, None)
    assert findings.search(heir, session, "books", threshold=-1.0).hits == []


def declare(**declarations: tuple[str, str, str]) -> None:
    """Declare sources, each with the persona that may read it, a model and its child."""
    for name, (persona, model, child) in declarations.items():
        declaration = SOURCE.format(persona=persona, model=model, child=child)
        DeclaredSource.objects.create(name=name, declaration=declaration)


@pytest.mark.parametrize(
    ("declared", "withheld"),
    [
        ({"crm": ("sales", "deal", "note")}, set()),
        ({"erp": ("finance", "order", "line")}, {"order", "erp.order", "line"}),
        # records of "order" were ingested before the other source declared it
        (
            {"erp": ("finance", "order", "line"), "shop": ("sales", "order", "item")},
            {"order", "erp.order", "line"},
        ),
        # a child that is called like a model counts as that model, and like a child of both sources as readable
        ({"erp": ("finance", "order", "note"), "crm": ("sales", "deal", "order")}, {"order", "erp.order", "note"}),
        ({"erp": ("finance", "order", "note"), "crm": ("sales", "deal", "note")}, {"order", "erp.order"}),
        ({"erp": ("finance", "order", "memory")}, {"order", "erp.order"}),
    ],
)  # fmt: skip
def test_names_of_withheld_models(alice: Caller, declared: dict[str, tuple[str, str, str]], withheld: set[str]) -> None:
    declare(**declared)
    assert sources.withheld_models(alice) == withheld
    DeclaredSource.objects.update(is_enabled=False)  # which gives nobody more
    assert sources.withheld_models(alice) == withheld
