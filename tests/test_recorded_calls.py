"""Compare every tool and REST response with recorded_calls.json.

A difference is a change of the public interface: describe it in CHANGELOG.md, then record again with RECORD=1.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from django.test import Client

from foundation.people.caller import Caller, system_caller
from knowledge.operations import CATEGORIES
from memories.models import Category, Dimension
from memory_project.accounts.tokens import create_token
from memory_project.models import User
from tests.analysis.conftest import api as upstream  # noqa: F401 - a fixture with sample books
from tests.fake_rest_api import Api
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, cora, cora_user, curators, fill_catalog  # noqa: F401 - a curator's fixtures
from tests.recorded_calls import RECORDING, Session

pytestmark = pytest.mark.django_db(transaction=True)
API = "/api/v1/memories/"
NOBODY = "0" * 32


@pytest.fixture
def session(
    request: pytest.FixtureRequest,
    alice_user: User,
    bob_user: User,
    olga_user: User,
    ada_user: User,
    cora_user: User,  # noqa: F811
) -> Session:
    fill_catalog()
    with connection.cursor() as cursor:  # seeded sampling depends on row ids
        cursor.execute("ALTER SEQUENCE ingested_records_id_seq RESTART")
    users = {"alice": alice_user, "bob": bob_user, "olga": olga_user, "ada": ada_user, "cora": cora_user}
    callers: dict[str, Caller] = {name: request.getfixturevalue(name) for name in users}
    clients = {name: _client(user) for name, user in users.items()}
    return Session(callers, clients)


def _client(user: User) -> Client:
    _, token = create_token(system_caller(), user=user, name="played")
    return Client(headers={"authorization": f"Bearer {token}"})


def test_every_response_matches_its_recording(session: Session, upstream: Api, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    upstream.fill(40)
    caches["calls"].clear()  # it has what earlier tests have called
    for play in (
        remember,
        change,
        look,
        recall,
        refuse,
        rest,
        catalog,
        capture,
        curate,
        apply,
        analyse,
        run_actions,
        brief,
    ):
        play(session)
    if os.environ.get("RECORD"):
        lines = ",\n".join(json.dumps(response, ensure_ascii=False, sort_keys=True) for response in session.responses)
        RECORDING.write_text(f"[\n{lines}\n]\n")
    recorded = json.loads(RECORDING.read_text())
    assert len(session.responses) == len(recorded)
    for number, (response, expected) in enumerate(zip(session.responses, recorded, strict=True)):
        assert response == expected, f"call {number}"


def remember(play: Session) -> None:
    for number, (dimension, category) in enumerate(zip(Dimension, [*Category][:5], strict=True)):
        play.tool(
            "alice",
            "memory_manage",
            command="remember",
            dimension=dimension,
            category=category,
            content=f"Fact number {number} about {category}: it is so.",
            tags=["played", str(number)],
        )
    play.tool(
        "alice",
        "memory_manage",
        command="remember",
        content="Revenue excludes refunds.",
        confidence="high",
        source="user",
        entity_urns=[ORDERS],
        visibility="everyone",
        metadata={"seen": {"in": ["a", "b"]}},
        related_columns=[{"urn": ORDERS, "column": "amount", "relevance": "net"}],
    )
    play.tool("alice", "memory_manage", command="remember", content="Revenue excludes refunds.")
    play.tool("alice", "memory_manage", command="remember", content="Revenue excludes refunds!", tags='["json"]')
    play.tool("olga", "memory_manage", command="remember", content="Supply counts pallets, not boxes.", dimension=None)
    play.tool("bob", "memory_manage", command="remember", content="A private thought of Bob's.", visibility="private")
    play.tool("alice", "memory_manage")


def change(play: Session) -> None:
    id = play.tool("alice", "memory_manage", command="remember", content="Stores 9001 to 9099 are tests.")["id"]
    manage = "memory_manage"
    play.tool("alice", manage, command="update", id=id, confidence="high", metadata={"checked": True}, reason="seen")
    play.tool("alice", manage, command="update", id=id)
    play.tool("alice", manage, command="update", id=id, content="Stores 9001 to 9199 are tests.", tags=["stores"])
    new = play.tool("alice", manage, command="supersede", id=id, content="Stores 9000 to 9199 are tests.", reason="new")
    play.tool("alice", manage, command="supersede", id=id, content="Stores 1 to 9199 are tests.")
    play.tool("alice", manage, command="supersede", id=new["id"], content="Stores 9000 to 9199 are tests.")
    play.tool("bob", manage, command="update", id=new["id"], content="Bob was here, but may not.")
    play.tool("olga", manage, command="update", id=new["id"], content="Olga was here, but may not.")
    play.tool("bob", manage, command="feedback", id=new["id"], verdict="wrong", note="9200 is one too")
    play.tool("bob", manage, command="feedback", id=new["id"], verdict="withdraw")
    play.tool("bob", manage, command="feedback", id=new["id"], verdict="useful")
    play.tool("bob", manage, command="feedback", id=new["id"], verdict="so-so")
    play.tool("bob", manage, command="feedback", id=new["id"])
    play.tool("bob", "memory_feedback", used=[new["id"]], outdated=[new["id"]], note="9200 is one since May")
    play.tool("bob", "memory_feedback", used=[new["id"]], wrong=[new["id"]])
    play.tool("bob", "memory_feedback", withdraw=[new["id"]])
    play.tool("bob", "memory_feedback", used=[new["id"]], note="It helped.")
    play.tool("bob", "memory_feedback")
    play.tool("olga", "memory_feedback", used=[new["id"]])
    play.tool("alice", manage, command="verify", id=new["id"], note="looked at the list of stores")
    play.tool("alice", manage, command="share", id=new["id"], visibility="everyone")
    play.tool("alice", manage, command="share", id=new["id"], visibility="friends")
    play.tool("alice", manage, command="share", id=new["id"])
    play.tool("alice", manage, command="forget", id=new["id"], reason="no longer")
    play.tool("alice", manage, command="forget", id=new["id"])
    play.tool("alice", manage, command="verify", id=new["id"])
    play.tool("alice", manage, command="restore", id=new["id"])
    play.tool("alice", manage, command="history", id=new["id"])
    play.tool("olga", manage, command="history", id=id)
    play.tool("alice", manage, command="erase", id=new["id"])
    play.tool("alice", manage, command="erase", id=new["id"], confirm=True)
    play.tool("alice", manage, command="history", id=new["id"])


def look(play: Session) -> None:
    manage = "memory_manage"
    play.tool("bob", manage, command="list")
    play.tool("bob", manage, command="list", limit=2, offset=1)
    play.tool("olga", manage, command="list", limit=1000)
    play.tool("bob", manage, command="list", filter_dimension="event", filter_category="")
    play.tool("bob", manage, command="list", filter_entity_urn=ORDERS)
    play.tool("alice", manage, command="list", filter_status="superseded")
    play.tool("alice", manage, command="list", filter_status="lost")
    play.tool("alice", manage, command="list", limit=0)
    play.tool("alice", manage, command="list", offset=-1)
    play.tool("alice", manage, command="review_stale")


def recall(play: Session) -> None:
    for person in ("alice", "bob", "olga"):
        play.tool(person, "memory_recall", query="refunds in revenue")
    for strategy in ("auto", "semantic", "lexical", "entity", "graph"):
        play.tool("bob", "memory_recall", query="revenue refunds", strategy=strategy, entity_urns=[ORDERS], limit=3)
    play.tool("bob", "memory_recall", query="fact", dimension="event", tags=["played"], k=2)
    play.tool("bob", "memory_recall", query="fact", limit=500, include_stale=True)
    play.tool("bob", "memory_recall", query="fact", as_of="2020-01-01")
    play.tool("bob", "memory_recall", query="fact", as_of="yesterday")
    play.tool("bob", "memory_recall")
    play.tool("bob", "memory_recall", strategy="entity")
    play.tool("bob", "memory_recall", query="fact", strategy="best")
    play.tool("bob", "memory_recall", query="fact", limit=0)
    play.tool("bob", "memory_recall", query="fact", limit="many")
    play.tool("bob", "memory_recall", query="fact", depth=2)
    play.tool("bob", "memory_recall", query="fact " * 1000)
    play.tool("bob", "memory_recall", entity_urns=["orders"])
    play.tool("bob", "memory_recall", query="fact", dimension="place")


def refuse(play: Session) -> None:
    def manage(**arguments: Any) -> None:
        play.tool("alice", "memory_manage", **arguments)

    text = "A text that is long enough."
    manage(command="delete")
    manage(command="remember")
    manage(command="remember", content="short")
    manage(command="remember", content="x" * 4001)
    manage(command="remember", content=["a list"])
    manage(command="remember", content=f"{text}\x00")
    manage(command="remember", content=text, dimension="place")
    manage(command="remember", content=text, category="rumour")
    manage(command="remember", content=text, confidence="certain")
    manage(command="remember", content=text, source="oracle")
    manage(command="remember", content=text, tags=["a,b"])
    manage(command="remember", content=text, tags=["x"] * 5 + [str(n) for n in range(30)])
    manage(command="remember", content=text, tags=["x" * 81])
    manage(command="remember", content=text, entity_urns=["urn:li:dataset"])
    manage(command="remember", content=text, entity_urns=[f"urn:li:tag:{n}" for n in range(11)])
    manage(command="remember", content=text, related_columns=[{"urn": ORDERS}])
    manage(command="remember", content=text, related_columns=[{"urn": "x", "column": "y", "relevance": "z"}])
    manage(command="remember", content=text, related_columns=["amount"])
    manage(command="remember", content=text, metadata={"superseded_by": NOBODY})
    manage(command="remember", content=text, metadata={"x": "y" * 17_000})
    manage(command="remember", content=text, metadata=["x"])
    manage(command="remember", content=text, id=NOBODY)
    manage(command="remember", content=text, colour="red")
    manage(command="update", id="not-an-id", content=text)
    manage(command="update", id=NOBODY, content=text)
    manage(command="forget")
    manage(command="forget", id=NOBODY, content=text)
    manage(command="erase", id=NOBODY, confirm="perhaps")


def rest(play: Session) -> None:
    response = play.rest("alice", "post", API, {"content": "Costs include freight.", "tags": ["costs"]})
    id = response["memory"]["id"]
    play.rest("alice", "post", API, {"content": "Costs include freight.", "category": "correction"})
    play.rest("bob", "get", f"{API}{id}/")
    play.rest("olga", "get", f"{API}{id}/")
    play.rest("olga", "post", f"{API}{id}/supersede/", {"content": "Costs exclude freight."})
    play.rest("bob", "post", f"{API}{id}/supersede/", {"content": "Costs exclude freight."})
    play.rest("alice", "post", f"{API}{id}/supersede/", {"content": "Costs exclude freight.", "reason": "rule of May"})
    play.rest("alice", "post", f"{API}{id}/supersede/", {"content": "Costs forget freight."})
    play.rest("alice", "post", f"{API}{id}/supersede/", {"content": "short"})
    play.rest("alice", "get", f"{API}{id}/")
    play.rest("bob", "get", f"{API}?limit=2")
    play.rest("bob", "get", f"{API}?status=superseded&dimension=knowledge")
    play.rest("bob", "get", f"{API}?status=lost")
    play.rest("bob", "get", f"{API}?limit=many")
    play.rest("bob", "get", f"{API}?colour=red")
    play.rest("bob", "post", f"{API}recall/", {"query": "freight"})
    play.rest("olga", "post", f"{API}recall/", {"query": "freight"})
    play.rest("bob", "post", f"{API}recall/", {"query": "freight", "strategy": "lexical", "limit": 1})
    play.rest("bob", "post", f"{API}recall/", {"query": "freight", "as_of": "never"})
    play.rest("bob", "post", f"{API}recall/", {"entity_urns": [ORDERS], "strategy": "entity"})
    play.rest("bob", "post", API, {"content": "short"})
    play.rest("bob", "post", API, {"content": "A text that is long enough.", "dimension": "place"})
    play.rest("bob", "post", API, {"content": "A text that is long enough.", "colour": "red"})
    play.rest("bob", "post", API, ["a list"])
    play.rest("bob", "get", f"{API}{NOBODY}/")


def catalog(play: Session) -> None:
    play.tool("alice", "catalog_search", query="orders")
    play.tool("alice", "catalog_search", query="sales", types=["dataset"], limit=1)
    play.tool("alice", "catalog_search", types=["glossaryTerm"])
    play.tool("alice", "catalog_search", types=["spaceship"])
    play.tool("alice", "catalog_search", query="sales", limit=0)
    play.tool("alice", "catalog_entity", urn=ORDERS)
    play.tool("alice", "catalog_entity", urn=ORDERS, columns_from=1, columns_limit=1)
    play.tool("alice", "catalog_entity", urn="urn:li:tag:nowhere")
    play.tool("alice", "catalog_entity", urn="orders")
    play.tool("alice", "catalog_entity")
    play.tool("alice", "catalog_lineage", urn=MART)
    play.tool("alice", "catalog_lineage", urn=REFUNDS, direction="downstream", hops=2)
    play.tool("alice", "catalog_lineage", urn=MART, direction="sideways")
    play.tool("alice", "catalog_lineage", urn=MART, hops=9)


def capture(play: Session) -> None:
    text = "Test stores are 9001 to 9099, and orders hold them."
    operation = {"category": "data_quality", "insight_text": text, "entity_urns": [ORDERS]}
    action = {"action_type": "add_tag", "target": "", "detail": "Training"}
    play.tool("alice", "capture_insight", **operation, suggested_actions=[action])
    play.tool("alice", "capture_insight", **operation)
    for category in [*CATEGORIES][1:4]:
        play.tool(
            "bob",
            "capture_insight",
            category=category,
            insight_text=f"Bob saw {category} in the refunds.",
            entity_urns=[REFUNDS],
            confidence="low",
            source="user",
            visibility="everyone",
        )
    play.tool("alice", "capture_insight")
    play.tool("alice", "capture_insight", category="rumour", insight_text=text)
    play.tool("alice", "capture_insight", category="data_quality", insight_text="short")
    play.tool("alice", "capture_insight", **operation, source="oracle")
    play.tool("alice", "capture_insight", **operation, suggested_actions=[{"action_type": "explode"}])
    play.tool("alice", "capture_insight", **operation, suggested_actions=[action] * 6)
    play.tool("alice", "capture_insight", **operation, suggested_actions=["add_tag"])
    play.tool("alice", "capture_insight", appeals=NOBODY, insight_text="It was rejected for no reason.")


def curate(play: Session) -> None:
    def curate(action: str = "", person: str = "cora", **arguments: Any) -> dict[str, Any]:
        return play.tool(person, "apply_knowledge", **({"action": action} if action else {}), **arguments)

    curate()
    curate("bulk_review", person="alice")
    curate("bulk_review")
    ids = [insight["id"] for insight in curate("review", entity_urn=REFUNDS)["insights"]]
    curate("review", entity_urn="refunds")
    curate("ponder")
    curate("approve")
    curate("approve", insight_ids=[ids[0], NOBODY], review_notes="seen")
    curate("undo_review", insight_ids=[ids[0]])
    curate("approve", insight_ids=ids * 30)
    curate("reject", insight_ids=[ids[1]], review_notes="known already")
    curate("reject", insight_ids=["not-an-id"])
    play.tool("bob", "capture_insight", appeals=ids[1], insight_text="It is not known to everybody.")
    curate("edit", insight_ids=ids[2:3], content="Bob saw something else in the refunds.")
    curate("edit", insight_ids=ids)
    curate("edit", insight_ids=ids[2:3], changes=[{"change_type": "explode", "detail": "x"}])
    curate(
        "edit_and_approve",
        insight_ids=ids[2:3],
        content="Bob saw something quite else in the refunds.",
        changes=[{"change_type": "add_tag", "detail": "Refund"}],
    )
    curate("synthesize", entity_urn=REFUNDS)
    curate("synthesize")
    curate("approve", insight_ids=ids[:1], content="not taken here")


def apply(play: Session) -> None:
    def curate(action: str, **arguments: Any) -> dict[str, Any]:
        return play.tool("cora", "apply_knowledge", action=action, **arguments)

    (id,) = [insight["id"] for insight in curate("review", entity_urn=ORDERS)["insights"]]
    changes = [
        {"change_type": "add_tag", "target": "", "detail": "Training"},
        {"change_type": "update_description", "target": "column:amount", "detail": "The net amount."},
    ]
    curate("apply", insight_ids=[id], changes=changes, entity_urn=ORDERS, confirm=True)
    curate("approve", insight_ids=[id])
    curate("apply", insight_ids=[id], changes=changes, entity_urn=ORDERS, dry_run=True)
    curate("apply", insight_ids=[id], changes=changes, entity_urn=ORDERS)
    curate("apply", insight_ids=[id], changes=[{"change_type": "explode"}], entity_urn=ORDERS, confirm=True)
    curate("apply", insight_ids=[id], changes=[], entity_urn=ORDERS, confirm=True)
    changeset_id = curate("apply", insight_ids=[id], changes=changes, entity_urn=ORDERS, confirm=True)["changeset_id"]
    curate("apply", insight_ids=[id], changes=changes, entity_urn=ORDERS, confirm=True)
    play.tool("alice", "catalog_entity", urn=ORDERS)
    curate("list_changesets")
    curate("list_changesets", changeset_id=changeset_id)
    curate("list_changesets", changeset_id=NOBODY)
    curate("export_changeset", changeset_id=changeset_id)
    curate("resume", changeset_id=changeset_id)
    curate("rollback", changeset_id=changeset_id)
    curate("rollback", changeset_id=changeset_id, confirm=True)
    curate("rollback", changeset_id=changeset_id, confirm=True)
    curate("rollback")


def analyse(play: Session) -> None:
    def query(mode: str, **arguments: Any) -> dict[str, Any]:
        return play.tool("alice", "analysis_query", analysis_id="audit", mode=mode, **arguments)

    play.tool("alice", "analysis_query", analysis_id="nowhere", mode="describe")
    play.tool("alice", "analysis_ingest", analysis_id="audit")
    play.tool("alice", "analysis_ingest", analysis_id="audit", model="ship")
    play.tool("alice", "analysis_ingest", analysis_id="audit", model="book", filters={"colour": "red"})
    play.tool("alice", "analysis_ingest", analysis_id="audit", model="book", ingest_all=True, per_page=40)
    play.tool("alice", "analysis_ingest", analysis_id="notes", model="memory", ingest_all=True)
    query("describe")
    query("describe", where={"rating": {"$gt": 2}})
    query("aggregate", group_by="status")
    query("aggregate", group_by=["status", "rating"], metrics=[{"op": "avg", "field": "price"}], top_n=3)
    query("aggregate", group_by={"field": "updated_at", "bucket": "month"})
    query("aggregate", group_by="colour")
    query("aggregate", metrics=[{"op": "guess", "field": "price"}], group_by="status")
    query(
        "filter", where={"status": "completed", "rating": {"$lt": 2}}, limit=3, sort="-rating", fields=["id", "title"]
    )
    query("filter")
    query("filter", where={"rating": {"$near": 2}})
    query("filter", where={"rating": 1}, limit=0)
    query("filter", where={"rating": 1}, group_by="status")
    query("sample", sample_size=3, stratify_by="status", seed=7)
    query(
        "sample", sample_size=2, proximity={"field": "updated_at", "origin": "2026-05-01", "window": "20 days"}, seed=7
    )
    query("sample", sample_size=900)
    query("guess")
    findings = [{"finding": "Completed books rated 1 are outliers.", "category": "quality"}, {"finding": "x"}]
    play.tool("alice", "analysis_store", analysis_id="audit", findings=findings[:1], persistent=True)
    play.tool(
        "alice", "analysis_store", analysis_id="audit", findings=[{"finding": "Unread books are cheap."}, findings[1]]
    )
    play.tool("alice", "analysis_store", analysis_id="audit", findings=[])
    play.tool("alice", "analysis_store", analysis_id="audit", findings=["a text"])
    play.tool("alice", "analysis_store", analysis_id="audit")
    query("semantic", query="outliers among the books")
    query("semantic", query="outliers", threshold=7)
    query("semantic")


def run_actions(play: Session) -> None:
    def act(**arguments: Any) -> dict[str, Any]:
        return play.tool("alice", "analysis_act", analysis_id="audit", model="book", **arguments)

    condition = {"rating": 1}
    preview = act(action="update", where=condition, attributes={"status": "unread"}, dry_run=True)
    act(action="explode", where=condition)
    act(action="update", where=condition)
    act(action="update", where=condition, attributes={"secret": "x"})
    act(action="update", where=condition, attributes={"status": "unread"}, confirm=preview["confirm"])
    act(action="delete", where={"rating": {"$gt": 90}}, dry_run=True)
    play.tool("alice", "analysis_act", action_id=NOBODY)
    play.tool("alice", "analysis_act", action_id=NOBODY, dry_run=True)
    play.tool("bob", "analysis_act", analysis_id="audit", model="book", action="delete", where=condition)
    play.tool("alice", "analysis_export", analysis_id="audit", where=condition, format="jsonl")
    play.tool("alice", "analysis_export", analysis_id="audit", format="xlsx")
    play.tool("alice", "analysis_clear", analysis_id="audit")
    play.tool("alice", "analysis_clear", analysis_id="audit")


def brief(play: Session) -> None:
    fact = "Stores send orders at night."
    play.tool("alice", "memory_manage", command="remember", content=fact, entity_urns=[ORDERS], tags=["repo:h/o/n"])
    for person in ("bob", "olga"):
        play.tool(person, "memory_briefing", entities=[REFUNDS], since="2020-01-01", max_tokens=400)
        session = {"session": "s", "program": "agent"}
        play.rest(person, "post", "/api/v1/hooks/session-start/", {**session, "repository": "h/o/n"})
        play.rest(
            person, "post", "/api/v1/hooks/tool/", {**session, "session": "t", "statement": "SELECT 1 FROM orders"}
        )
    play.tool("bob", "memory_briefing", entities=["nowhere"])
    play.rest("bob", "post", "/api/v1/hooks/prompt/", {"session": "s", "program": "agent"})
