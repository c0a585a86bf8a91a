"""Updates and deletions of upstream records: validation, requests, outcomes, and resuming after a kill."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from analysis import action_execution, actions, sessions
from analysis.ingest import ingest
from analysis.mcp_tools import analysis_act
from analysis.models import Action, ActionItem, DeclaredSource, IngestedRecord, Outcome
from analysis.operations import IngestRecords, RunAction
from analysis.sources.attribute_values import check_value
from analysis.sources.declaration import Attribute
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.work import progress
from tests.analysis.conftest import DECLARATION
from tests.fake_rest_api import Api
from tests.other_processes import until

pytestmark = pytest.mark.django_db
READING = {"status": "reading"}  # matches 24 of the 120 books


@pytest.fixture(autouse=True)
def ingested(api: Api, alice: Caller) -> None:
    ingest(alice, IngestRecords(analysis_id="audit", model="book", ingest_all=True))
    api.requests.clear()


def operation(**overrides: Any) -> RunAction:
    defaults = {"analysis_id": "audit", "model": "book", "action": "update", "where": READING}
    return RunAction.read({**defaults, "attributes": {"status": "unread"}, **overrides})


def writes(api: Api) -> list[str]:
    return [path.split("/")[-1] for method, path in api.requests if method != "GET"]


def test_a_dry_run_sends_no_request_and_returns_the_scope(api: Api, alice: Caller) -> None:
    preview = actions.dry_run(alice, operation())
    assert (preview.matched, len(preview.sample_ids), len(preview.sample_data)) == (24, 10, 3)
    assert preview.earliest <= preview.latest
    assert "ingestedAt" in preview.sample_data[0]
    assert api.requests == []


def test_an_update_changes_the_upstream_and_the_ingested_records(api: Api, alice: Caller) -> None:
    messages: list[str] = []
    progress.listen(lambda position, total, message: messages.append(message))
    result = actions.act(alice, operation())
    progress.listen(lambda *report: None)
    assert result.counts == {"succeeded": 24}
    assert not [book for book in api.books.values() if book["status"] == "reading"]
    assert messages[-1] == "update: 24/24 records processed"
    assert api.most_at_once <= 5 + 1
    assert actions.dry_run(alice, operation()).matched == 0  # the ingested records match the upstream


def test_a_deletion_removes_upstream_and_ingested_records(api: Api, alice: Caller) -> None:
    result = actions.act(alice, operation(action="delete", attributes=None))
    assert result.counts == {"succeeded": 24}
    assert len(api.books) == IngestedRecord.objects.count() == 96


def test_many_records_need_the_token_of_an_identical_dry_run(api: Api, alice: Caller) -> None:
    everything = operation(where=None)
    with pytest.raises(Invalid) as caught:
        actions.act(alice, everything)
    assert caught.value.field == "confirm"
    token = actions.dry_run(alice, everything).confirm
    with pytest.raises(Conflict):
        actions.act(alice, operation(where=None, attributes={"status": "completed"}, confirm=token))
    with pytest.raises(Invalid):
        actions.act(alice, operation(where=None, confirm=token + "x"))
    IngestedRecord.objects.filter(record_id="1").delete()
    with pytest.raises(Conflict):
        actions.act(alice, operation(where=None, confirm=token))
    assert writes(api) == []
    token = actions.dry_run(alice, everything).confirm
    assert actions.act(alice, operation(where=None, confirm=token)).total == 119


def test_a_partial_failure_is_reported_and_resumed(api: Api, alice: Caller) -> None:
    api.fail_writes = {"3": [422], "8": [403], "13": [429, 503]}
    result = actions.act(alice, operation())
    assert result.counts == {"succeeded": 22, "failed": 2}
    assert result.action.state == "partial"
    assert {(item.record_id, item.status_code) for item in result.errors} == {("3", 422), ("8", 403)}
    assert "not allowed; try again (422)" in result.errors[0].error
    api.fail_writes, api.requests[:] = {}, []
    again = actions.resume(alice, action_id=result.action.pk)
    assert (again.counts, again.action.state, sorted(writes(api))) == ({"succeeded": 24}, "done", ["3", "8"])
    with pytest.raises(Conflict, match="nothing to resume"):
        actions.resume(alice, action_id=result.action.pk)


def test_a_resumed_update_keeps_what_was_read_of_a_record_since(api: Api, alice: Caller) -> None:
    api.fail_writes = {"3": [422]}
    result = actions.act(alice, operation())
    api.books["3"]["title"] = "Retitled by a colleague"
    ingest(alice, IngestRecords(analysis_id="audit", model="book", ingest_all=True))
    api.fail_writes = {}
    actions.resume(alice, action_id=result.action.pk)
    copy = IngestedRecord.objects.get(record_id="3")
    assert (copy.data["title"], copy.data["status"]) == ("Retitled by a colleague", "unread")


def test_revalidation_skips_records_that_changed_upstream(api: Api, alice: Caller) -> None:
    api.books["3"]["title"] = "Changed meanwhile"
    del api.books["8"]
    result = actions.act(alice, operation(revalidate=True))
    assert result.counts == {"succeeded": 22, "drifted": 2}
    drifted = {item.record_id: item.error for item in result.action.items.filter(outcome=Outcome.DRIFTED)}
    assert drifted == {"3": "changed since it was ingested: title", "8": "no longer exists"}
    assert {"3", "8"} & set(writes(api)) == set()


def test_a_write_without_response_has_an_unknown_outcome_and_is_not_repeated(api: Api, alice: Caller) -> None:
    api.drop_after_write = {"3"}
    result = actions.act(alice, operation())
    assert result.counts == {"succeeded": 23, "unknown": 1}
    assert writes(api).count("3") == 1  # not repeated without reading first
    assert api.books["3"]["status"] == "unread"


def test_each_id_is_encoded_as_one_path_segment(api: Api, alice: Caller) -> None:
    api.books = {
        record_id: {"id": record_id, "status": "reading"} for record_id in ("a/b", "../x", "a?b=1", "ü #", "0")
    }
    ingest(alice, IngestRecords(analysis_id="odd", model="book", ingest_all=True))
    result = actions.act(alice, operation(analysis_id="odd"))
    assert result.counts == {"succeeded": 5}
    assert {book["status"] for book in api.books.values()} == {"unread"}
    assert all(path.count("/") == 2 for method, path in api.requests if method == "PATCH")


def test_records_without_id_are_counted_and_not_changed(api: Api, alice: Caller) -> None:
    api.books = {"1": {"id": 1, "status": "reading"}, "2": {"status": "reading"}}
    ingest(alice, IngestRecords(analysis_id="odd", model="book", ingest_all=True))
    preview = actions.dry_run(alice, operation(analysis_id="odd"))
    assert (preview.matched, preview.without_id) == (1, 1)


@pytest.mark.parametrize(
    ("overrides", "error", "field"),
    [
        ({"action": "drop"}, Invalid, "action"),
        ({"attributes": {}}, Invalid, "attributes"),
        ({"attributes": {"status": "burned"}}, Invalid, "attributes.status"),
        ({"attributes": {"rating": "5"}}, Invalid, "attributes.rating"),
        ({"attributes": {"rating": [1, 2]}}, Invalid, "attributes.rating"),
        ({"attributes": {"status": ["reading"]}}, Invalid, "attributes.status"),
        ({"attributes": {"title": 5}}, Invalid, "attributes.title"),
        ({"attributes": {"secret": 1}}, Invalid, "attributes.secret"),
        ({"attributes": {"colour": 1}}, Invalid, "attributes.colour"),
        ({"model": "shelf"}, Invalid, "model"),
        ({"model": "memory"}, Invalid, "model"),
        ({"analysis_id": "nothing"}, NotFound, "analysis_id"),
        ({"where": {"a": {"$near": 1}}}, Invalid, "where.a"),
        ({"user_id": "bob@example.org"}, Forbidden, "user_id"),
    ],
)
def test_an_error_names_the_field_and_nothing_is_sent(
    api: Api, alice: Caller, overrides: dict[str, Any], error: Any, field: str
) -> None:
    with pytest.raises(error) as caught:
        actions.act(alice, operation(**overrides))
    assert caught.value.field == field
    assert api.requests == []
    assert not Action.objects.exists()


def test_a_dry_run_checks_the_types_of_values_as_well(api: Api, alice: Caller) -> None:
    with pytest.raises(Invalid, match="'5' is not an integer; allowed: a whole number, without quotes"):
        actions.dry_run(alice, operation(attributes={"rating": "5"}))


VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "string": (["x", ""], [1, ["x"], {}, True]),
    "text": (["x\ny"], [1.5, []]),
    "integer": ([0, -7, 2**60, 5.0], ["5", 5.5, [5], True, "", math.inf, math.nan]),
    "number": ([0, 1.5, -2], ["1.5", [1.5], False, math.nan]),
    "boolean": ([True, False], ["true", 1, 0, []]),
    "date": (["2026-05-31"], ["2026-02-30", "20260531", "2026-W22-1", "2026-05-31T08:00", "soon", 20260531, []]),
    "datetime": (
        ["2026-05-31T08:00:00Z", "2026-05-31 08:00:00.5+02:00", "2026-05-31"],
        ["soon", "2026-05-31T25:00", 1],
    ),
    "array": ([[], [1, "x"]], ["[]", {}, 1]),
    "object": ([{}, {"a": [1]}], ["{}", [], 1]),
    "enum": (["anything"], [1, ["x"]]),
}


@pytest.mark.parametrize("kind", list(VALUES))
def test_values_have_the_declared_type(kind: Any) -> None:
    valid, invalid = VALUES[kind]
    for value in [*valid, None]:
        check_value("attributes.x", Attribute(type=kind), value)
    for value in invalid:
        with pytest.raises(Invalid, match=f"is not an? {kind}"):
            check_value("attributes.x", Attribute(type=kind), value)


def test_an_enum_with_declared_values_accepts_only_these() -> None:
    attribute = Attribute(type="enum", values=("a", "b"))
    check_value("attributes.x", attribute, "a")
    others: list[Any] = ["c", None, ["a"], {}]
    for value in others:
        with pytest.raises(Invalid, match="allowed: a, b"):
            check_value("attributes.x", attribute, value)


def test_only_the_owner_of_an_analysis_acts_or_resumes(api: Api, alice: Caller, bob: Caller, ada: Caller) -> None:
    api.fail_writes = {"3": [403]}
    result = actions.act(alice, operation())
    for stranger in (bob, ada):
        with pytest.raises(NotFound):
            actions.act(stranger, operation())
        with pytest.raises(NotFound):
            actions.resume(stranger, action_id=result.action.pk)
    with pytest.raises(NotFound):
        actions.get_action(bob, result.action.pk)
    assert actions.get_action(ada, result.action.pk).pk == result.action.pk  # admins may see actions of others


def test_requests_name_the_user_that_the_service_acts_for(api: Api, alice: Caller) -> None:
    service = replace(alice, rights=frozenset({"act_for_users"}))
    actions.act(service, operation(user_id="bob@example.org", where={"id": 3}))
    assert api.headers[-1]["X-On-Behalf-Of"] == "bob@example.org"


def test_action_outcomes_outlive_the_session(api: Api, alice: Caller) -> None:
    result = actions.act(alice, operation())
    sessions.clear(alice, analysis_id="audit")
    assert ActionItem.objects.filter(action=result.action, outcome="succeeded").count() == 24


def test_a_cancelled_call_leaves_no_outcome_unknown(api: Api, alice: Caller) -> None:
    class Cancelled(BaseException):
        pass

    def stop(position: float, total: float | None, message: str) -> None:
        if position == 7:
            raise Cancelled

    progress.listen(stop)
    with pytest.raises(Cancelled):
        actions.act(alice, operation())
    progress.listen(lambda *report: None)
    action = Action.objects.get()
    counts = action_execution.outcomes(action)
    assert set(counts) <= {"succeeded", "planned"}
    assert counts["succeeded"] == len(writes(api))
    assert actions.resume(alice, action_id=action.pk).counts == {"succeeded": 24}
    assert sorted(writes(api)) == sorted(set(writes(api)))  # no request was sent twice


KILLED = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from django.db import connection
connection.settings_dict["NAME"] = sys.argv[1]
from analysis import actions
from analysis.operations import RunAction
from foundation.people.permissions import build_caller
from memory_project.models import User
caller = build_caller(User.objects.get(email="alice@example.org"), channel="test")
operation = RunAction(analysis_id="audit", model="book", action=sys.argv[2],
                      attributes={"status": "unread"}, where={"status": "reading"})
actions.act(caller, operation)
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["update", "delete"])
def test_a_resume_after_a_kill_repeats_no_request(api: Api, alice: Caller, action: str) -> None:
    """Kill the process during its requests. A record that others changed meanwhile keeps the outcome unknown."""
    started: list[str] = []
    api.on_write = started.append
    api.delay_s = 0.4
    name = str(connection.settings_dict["NAME"])
    process = subprocess.Popen([sys.executable, "-c", KILLED, name, action], env=dict(os.environ))
    assert until(lambda: len(started) >= 7 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.4)  # requests in flight arrive
    assert until(lambda: api.at_once == 0)
    api.delay_s = 0
    row = Action.objects.get()
    assert action_execution.outcomes(row).get("sending", 0) > 0
    changed_by_others = row.items.filter(outcome="sending").order_by("-id")[0].record_id
    if action == "update":
        api.books[changed_by_others].update(status="completed", title="By somebody else")
    before = list(started)
    result = actions.resume(alice, action_id=row.pk)
    twice = [record_id for record_id in started[len(before) :] if record_id in before]
    assert twice == []
    if action == "update":
        assert result.counts == {"succeeded": 23, "unknown": 1}
        assert api.books[changed_by_others]["status"] == "completed"
    else:
        assert result.counts == {"succeeded": 24}
        assert len(api.books) == 96


@pytest.mark.parametrize("record_id", ["", ".", ".."])
def test_an_id_that_cannot_be_a_path_segment_is_never_sent(api: Api, alice: Caller, record_id: str) -> None:
    api.books = {"x": {"id": record_id, "status": "reading"}}
    ingest(alice, IngestRecords(analysis_id="odd", model="book", ingest_all=True))
    preview = actions.dry_run(alice, operation(analysis_id="odd"))
    assert (preview.matched, preview.without_id) == (0, 1)
    actions.act(alice, operation(analysis_id="odd"))
    assert writes(api) == []


def test_a_resume_reads_records_with_unknown_outcomes(api: Api, alice: Caller) -> None:
    api.drop_after_write = {"3"}
    result = actions.act(alice, operation())
    api.requests.clear()
    again = actions.resume(alice, action_id=result.action.pk)
    # the update had succeeded: it was read and not sent again
    assert (again.counts, writes(api)) == ({"succeeded": 24}, [])


def test_action_id_cannot_be_combined_with_other_arguments(api: Api, alice: Caller) -> None:
    api.fail_writes = {"3": [403]}
    result = actions.act(alice, operation())
    with pytest.raises(Invalid) as caught:
        analysis_act(alice, action_id=result.action.pk.hex, dry_run=True)
    assert (
        caught.value.message
        == "dry_run: is not accepted together with action_id, which does not need it; allowed: action_id"
    )


def test_a_write_that_never_left_is_a_failure_and_not_unknown(
    api: Api, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.sources.rest.ATTEMPTS", 1)
    DeclaredSource.objects.update(declaration=DECLARATION.format(base="http://127.0.0.1:9"))  # nobody listens there
    result = actions.act(alice, operation())
    assert result.counts == {"failed": 24}
