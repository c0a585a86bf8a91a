"""The client's store of LangGraph: items, searches and namespaces, by the store's own methods and within a graph."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, TypedDict

from commonplace_client import Commonplace
from commonplace_client.adapters.langgraph import CommonplaceStore
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.base import GetOp, PutOp, SearchOp

plan = json.load(sys.stdin)
client = Commonplace(plan["url"], plan["token"])
store = CommonplaceStore(client)
run = plan["run"]
NUTS = {"text": "Maya is allergic to nuts.", "weight": 2, "nested": {"list": [1, None, "ä\n"]}}


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    try:
        call(*arguments, **options)
    except Exception as error:
        return type(error).__name__
    return ""


def items() -> dict[str, Any]:
    store.put((run, "maya", "food"), "nuts", NUTS)
    store.put((run, "maya", "food"), "copy", NUTS)  # the same value under another key
    store.put((run, "maya"), "city", {"text": "Maya lives in Lisbon.", "weight": 5})
    store.put((run, "noor"), "city", {"text": "Noor lives in Oslo.", "weight": 5})
    store.put((run, "maya"), "city", {"text": "Maya lives in Porto.", "weight": 6})
    item = store.get((run, "maya", "food"), "nuts")
    assert item
    found = {
        "value": item.value == NUTS and item.namespace == (run, "maya", "food") and item.key == "nuts",
        "replaced": getattr(store.get((run, "maya"), "city"), "value", None),
        "missing": store.get((run, "maya"), "nuts"),
        "prefix": sorted(item.key for item in store.search((run, "maya"))),
        "query": [item.namespace[1:] for item in store.search((run,), query="Where does Noor live?", limit=1)],
        "scored": all(item.score is not None for item in store.search((run,), query="allergic to nuts")),
        "filter": [item.key for item in store.search((run,), filter={"weight": {"$gte": 5}, "text": {"$ne": ""}})],
        "page": len(store.search((run,), limit=2, offset=3)),
        "namespaces": store.list_namespaces(prefix=(run,)),
        "depth": store.list_namespaces(prefix=(run, "*"), max_depth=2, limit=1, offset=1),
        "suffix": store.list_namespaces(prefix=(run,), suffix=("food",)),
    }
    store.delete((run, "maya", "food"), "nuts")
    found["deleted"] = store.get((run, "maya", "food"), "nuts")
    store.put((run, "maya", "food"), "nuts", NUTS)
    found["again"] = getattr(store.get((run, "maya", "food"), "nuts"), "value", None) == NUTS
    return found


def refusals() -> list[str]:
    return [
        refused(store.put, (run,), "expiring", {"text": "x"}, ttl=5),
        refused(store.put, (run,), "hidden", {"text": "x"}, index=False),
        refused(store.put, (run,), "long", {"text": "x" * 5_000}),
        refused(store.search, (run,), filter={"weight": {"$near": 5}}),
        refused(store.search, (run,), query="Maya", offset=50),
    ]


class State(TypedDict):
    answer: str


def in_a_graph() -> str:
    async def remember(state: State) -> State:
        store = get_store()
        await store.aput((run, "graph"), "drink", {"text": "Ana drinks green tea."})
        found = await store.asearch((run, "graph"), query="What does Ana drink?")
        return {"answer": found[0].value["text"]}

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    state: Any = asyncio.run(builder.compile(store=store).ainvoke({"answer": ""}))
    return str(state["answer"])


def batched() -> list[Any]:
    operations = [PutOp((run, "batch"), "a", {"n": 1}), GetOp((run, "batch"), "a"), SearchOp((run, "batch"))]
    _, item, found = asyncio.run(store.abatch(operations))
    return [item.value, len(found)]  # type: ignore[union-attr,arg-type]


def rewritten_by_a_person() -> Any:
    (memory,) = [row for row in client.memories(status="active") if row["content"].startswith(f"{run}.noor ")]
    client.update(memory["id"], etag="*", content="Noor has moved to Bergen.")
    return store.get((run, "noor"), "city").value  # type: ignore[union-attr]


print(
    json.dumps(
        {
            **items(),
            "refusals": refusals(),
            "graph": in_a_graph(),
            "batch": batched(),
            "rewritten": rewritten_by_a_person(),
        },
        default=list,
    )
)
