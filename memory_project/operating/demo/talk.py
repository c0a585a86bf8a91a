"""Demo conversations and knowledge graphs."""

from __future__ import annotations

import json
from pathlib import Path

from foundation.people.caller import Caller
from knowledge.graph import graphs
from knowledge.graph.entities import create_entities
from knowledge.graph.models import Graph
from knowledge.graph.operations import CreateEntities, CreateRelations
from knowledge.graph.relations import create_relations
from memories.conversation.decisions import store_decision
from memories.conversation.operations import StoreDecision, StoreMessages
from memories.conversation.turns import store_messages
from memories.models import MemoryRecord

CONVERSATION = "planning the monday report"
MESSAGES = [
    ("human", "I prefer revenue reports in euros, net of refunds, and never on Fridays."),
    ("ai", "Noted: euros, net of refunds, not on Fridays."),
    ("human", "Remember that fernhill.sales.orders counts a gift card twice until the tills are updated in May."),
    ("ai", "I will leave gift cards out until then."),
]
GRAPHS = Path(__file__).parent / "graphs.json"


def make_conversation(caller: Caller) -> None:
    if MemoryRecord.objects.filter(created_by=caller.email, conversation_id=CONVERSATION).exists():
        return
    messages = [{"role": role, "content": text} for role, text in MESSAGES]
    store_messages(
        caller,
        StoreMessages.read({"user_id": caller.email, "conversation_id": CONVERSATION, "messages": messages}),
    )
    for currency in ("CHF", "EUR"):
        store_decision(caller, StoreDecision(user_id=caller.email, key="report_currency", value=currency))


def make_graph(caller: Caller, login: str = "maya") -> None:
    """Create the caller's graph with the content that graphs.json has for `login`, unless there is one already."""
    if Graph.objects.filter(created_by=caller.email).exists():
        return
    content = json.loads(GRAPHS.read_text())[login]
    create_entities(caller, CreateEntities.read({"entities": content["entities"]}))
    ends = [{"from": source, "to": target, "relationType": kind} for source, target, kind in content["relations"]]
    create_relations(caller, CreateRelations.read({"relations": ends}))
    graph = Graph.objects.get(created_by=caller.email)
    graphs.share(caller, graph_id=graph.pk, visibility=content["visibility"])
