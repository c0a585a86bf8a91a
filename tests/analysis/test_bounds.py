"""Limits of a call, the personas of a source, and errors instead of plausible wrong results."""

from __future__ import annotations

import resource
import zlib
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from analysis import actions, export, findings, rendering, sessions
from analysis.ingest import ingest
from analysis.models import Action, ActionState, DeclaredSource
from analysis.operations import Aggregate, Describe, Export, IngestRecords, RunAction, StoreFindings
from analysis.querying import description, query, sampling
from analysis.querying.query import scope
from analysis.sources.interface import UpstreamFailed
from foundation.database import locks
from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid
from foundation.people.caller import Caller
from memory_project.models import User
from tests.analysis.conftest import Hold
from tests.fake_rest_api import Api

pytestmark = pytest.mark.django_db


# -- personas of a source ------------------------------------------------------------------------------------


def declare(**personas: str) -> None:
    """Replace act_personas in the declaration of the source, and read_personas if it is given, with these lines."""
    source = DeclaredSource.objects.get(name="books")
    lines = "\n".join(f'{name} = ["{persona}"]' for name, persona in personas.items())
    if "read_personas" in personas:
        source.declaration = source.declaration.replace('read_personas = ["sales", "supply"]\n', "")
    source.declaration = source.declaration.replace('act_personas = ["sales"]', lines)
    source.save()


def test_a_source_is_read_by_the_personas_it_names(api: Api, alice: Caller, olga: Caller, ada: Caller) -> None:
    declare(read_personas="supply")
    with pytest.raises(Invalid, match="model: 'book' is unknown; allowed: memory"):
        ingest(alice, IngestRecords.read({"analysis_id": "a", "model": "book"}))
    assert ingest(olga, IngestRecords(analysis_id="a", model="book")).records == 50
    assert ingest(ada, IngestRecords(analysis_id="a", model="book")).records == 50


def test_without_act_personas_only_admins_act(api: Api, alice: Caller, ada: Caller) -> None:
    declare()
    for caller in (alice, ada):
        ingest(caller, IngestRecords(analysis_id="a", model="book"))
    api.requests.clear()
    arguments: dict[str, Any] = {"analysis_id": "a", "model": "book", "action": "delete", "where": {"id": 3}}
    with pytest.raises(Forbidden, match="act_personas"):
        actions.dry_run(alice, RunAction.read(arguments))
    with pytest.raises(Forbidden, match="act_personas"):
        actions.act(alice, RunAction.read(arguments))
    assert api.requests == []
    assert actions.act(ada, RunAction.read(arguments)).counts == {"succeeded": 1}


def test_every_request_names_the_caller_if_the_source_declares_a_header(api: Api, alice: Caller) -> None:
    ingest(alice, IngestRecords(analysis_id="a", model="book"))
    assert {headers["X-On-Behalf-Of"] for headers in api.headers} == {"alice@example.org"}


# -- limits of a call ----------------------------------------------------------------------------------------


def test_a_compressed_response_is_read_only_up_to_its_limit(api: Api, alice: Caller) -> None:
    compressor = zlib.compressobj(wbits=31)  # piece by piece, so that only reading them at once takes the memory
    pieces = [compressor.compress(b" " * 1_000_000) for _ in range(300)]
    api.padding = b"".join([*pieces, compressor.flush()])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UpstreamFailed, match="more than 20,000,000 bytes"):
        ingest(alice, IngestRecords.read({"analysis_id": "a", "model": "book"}))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        ({"$or": [{"rating": n} for n in range(201)]}, "too many conditions"),
        ({"$and": [{"rating": {"$gt": n, "$lt": 9}} for n in range(101)]}, "too many conditions"),
        ({"$or": [{"rating": {"$in": list(range(600))}}, {"rating": {"$in": list(range(600))}}]}, "too many values"),
    ],
)
def test_the_number_of_conditions_is_limited(hold: Hold, conditions: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        scope(hold([{"id": 1, "rating": 1}]), "", conditions)


def test_describe_reads_each_value_once(alice: Caller, hold: Hold) -> None:
    """Comparing every field with every other took minutes for 600 rows of 60 fields with distinct values."""
    session = hold([{"id": n, **{f"f{k:02d}": f"{n} {k} " + "x" * 80 for k in range(60)}} for n in range(600)])
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '5s'")
        summary = description.describe(scope(session, "", None))
        cursor.execute("SET statement_timeout = 0")
    assert [(field.distinct, field.missing) for field in summary.fields] == [(600, 0)] * 61


def test_describe_of_many_fields_fits_the_response_budget(alice: Caller, hold: Hold, settings: Any) -> None:
    session = hold([{"id": 1, **{f"field_{k}": "x" * 100 for k in range(1_000)}}])
    response = rendering.describe_answer(alice, session, Describe(analysis_id="audit"))
    assert response.data["omitted"] + len(response.data["fields"]) == 1_001
    assert len(response.text) < 2 * settings.ANSWER_BUDGET_BYTES


# -- errors instead of plausible wrong results ----------------------------------------------------------------


def test_a_field_that_no_record_holds_is_an_error_in_every_mode(alice: Caller, hold: Hold) -> None:
    session = hold([{"id": 1, "rating": 5, "at": "2026-01-01"}])
    selection = scope(session, "", None)
    near = {"field": "att", "origin": "2026-01-01", "window": "1 day"}
    for operation in (
        lambda: scope(session, "", {"ratign": 5}),
        lambda: scope(session, "", {"$or": [{"rating": 1}, {"$not": {"ratign": {"$gt": 2}}}]}),
        lambda: query.filtered(selection, sort="-ratign"),
        lambda: query.filtered(selection, fields=["ratign"]),
        lambda: query.aggregate(selection, "ratign"),
        lambda: query.aggregate(selection, "rating", metrics=[{"op": "sum", "field": "ratign"}]),
        lambda: sampling.sample(selection, stratify_by="ratign"),
        lambda: sampling.sample(selection, proximity=near),
        lambda: export.prepare(
            alice, Export(analysis_id="audit", model="", where=None, format="csv", fields=["ratign"])
        ),
    ):
        with pytest.raises(Invalid, match=r"no book record in this analysis has a field .*; allowed: at, id, rating"):
            operation()
    assert query.filtered(scope(session, "", {"gone_at": {"$exists": False}})).total == 1


def test_sums_are_exact(alice: Caller, hold: Hold) -> None:
    session = hold([{"id": 1, "kind": "a", "cents": 9_229_771}, {"id": 2, "kind": "a", "cents": 2**60}])
    metrics = [{"op": "sum", "field": "cents"}, {"op": "avg", "field": "cents"}]
    operation = Aggregate.read({"analysis_id": "audit", "group_by": "kind", "metrics": metrics, "top_n": 10})
    response = rendering.aggregate_answer(scope(session, "", {"id": 1}), operation)
    assert "sum(cents)=9229771, avg(cents)=9229771" in response.text
    (group,) = query.aggregate(scope(session, "", None), "kind", metrics=metrics).groups
    assert group.metrics["sum(cents)"] == 9_229_771 + 2**60


def test_group_by_accepts_one_object(hold: Hold) -> None:
    selection = scope(hold([{"id": n, "at": f"2026-0{n}-15"} for n in (1, 2, 2)]), "", None)
    result = query.aggregate(selection, {"field": "at", "bucket": "month"})
    assert [group.values for group in result.groups] == [["2026-01-01T00:00:00Z"], ["2026-02-01T00:00:00Z"]]


def test_a_requested_association_is_stored(api: Api, alice: Caller) -> None:
    ingest(alice, IngestRecords(analysis_id="a", model="book", fields=["author"], per_page=1))
    (row,) = query.filtered(scope(sessions.get_session(alice, "a"), "", None)).rows
    assert set(row) == {"id", "author_id", "author_name"}


def test_findings_that_match_by_word_pass_the_threshold(alice: Caller) -> None:
    items = [{"finding": "12 books rated 1: worth a re-read"}, {"finding": "x", "category": "quality_issue"}]
    findings.store(
        alice,
        StoreFindings.read({"analysis_id": "a", "findings": [*items, {"finding": "Authors come twice a day"}]}),
    )
    result = findings.search(alice, sessions.get_session(alice, "a"), "issues with rating or quality", threshold=0.99)
    assert {hit.finding.finding for hit in result.hits} == {"12 books rated 1: worth a re-read", "x"}


def test_column_names_are_inert_in_a_spreadsheet(alice: Caller, hold: Hold) -> None:
    hold([{"id": 1, "=HYPERLINK(1)": "x"}])
    file, _ = export.prepare(alice, Export(analysis_id="audit", model="", where=None, format="csv", fields=[]))
    head = next(export.lines(file))
    assert "'=HYPERLINK(1)" in head


def test_the_page_of_an_analysis_makes_few_queries(alice_user: User, hold: Hold) -> None:
    rows = [{"id": n, "kind": "ab"[n % 2], "size": n % 3, "day": "2026-01-01"} for n in range(100)]
    page = reverse("analysis", args=[hold(rows).pk])
    browser = Client()
    browser.force_login(alice_user)
    with CaptureQueriesContext(connection) as queries:
        response = browser.get(page)
    assert [(name, other_count) for name, _, other_count in response.context["distributions"]] == [
        ("kind", 0),
        ("size", 0),
    ]
    assert len(queries) <= 14


# -- interrupted actions -------------------------------------------------------------------------------------


def test_an_interrupted_action_blocks_a_new_one_until_it_is_resumed(api: Api, alice: Caller) -> None:
    ingest(alice, IngestRecords(analysis_id="a", model="book", per_page=120))
    arguments: dict[str, Any] = {"analysis_id": "a", "model": "book", "action": "update"}
    arguments |= {"attributes": {"status": "unread"}, "where": {"status": "reading"}}
    operation = RunAction.read(arguments)
    early = actions.dry_run(alice, operation).confirm
    result = actions.act(alice, operation)
    Action.objects.filter(pk=result.action.pk).update(state=ActionState.RUNNING)  # the state that a kill leaves
    result.action.items.filter(pk__in=result.action.items.values("pk")[20:]).update(outcome="planned")
    again = RunAction.read({**arguments, "where": {"status": "unread"}, "attributes": {"status": "reading"}})
    with pytest.raises(Conflict, match=result.action.pk.hex):
        actions.act(alice, again)
    with pytest.raises(DomainError):
        actions.act(
            # The token was created before the interruption, so it does not confirm it.
            alice,
            RunAction.read({**arguments, "confirm": early}),
        )
    preview = actions.dry_run(alice, again)
    assert [action.pk for action in preview.interrupted] == [result.action.pk]
    with locks.exclusive("action", result.action.pk, Conflict("busy")):
        assert actions.dry_run(alice, again).interrupted == []  # a running action is not interrupted
    assert actions.resume(alice, action_id=result.action.pk).counts == {"succeeded": 24}
    assert actions.dry_run(alice, again).interrupted == []
    assert actions.act(alice, again).action.state == ActionState.DONE
