"""Demo conversations and knowledge graphs."""

from __future__ import annotations

from knowledge.graph.entities import create_entities
from knowledge.graph.models import Graph
from knowledge.graph.operations import CreateEntities, CreateRelations
from knowledge.graph.relations import create_relations
from memories.conversation.decisions import store_decision
from memories.conversation.operations import StoreDecision, StoreMessages
from memories.conversation.turns import store_messages
from memories.identity.caller import Caller
from memories.models import MemoryRecord

CONVERSATION = "planning the monday report"
MESSAGES = [
    ("human", "I prefer revenue reports in euros, net of refunds, and never on Fridays."),
    ("ai", "Noted: euros, net of refunds, not on Fridays."),
    ("human", "Remember that fernhill.sales.orders counts a gift card twice until the tills are updated in May."),
    ("ai", "I will leave gift cards out until then."),
]
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.orders,PROD)"
REFUNDS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.refunds,PROD)"
ENTITIES = [
    {"name": "Monday report", "entityType": "Report", "observations": ["Goes to the board at eight.", "In euros."]},
    {"name": "Orders", "entityType": "Table", "urn": ORDERS, "observations": ["One row an order, not an item."]},
    {"name": "Refunds", "entityType": "Table", "urn": REFUNDS, "observations": ["Booked a month later."]},
    {"name": "Tills", "entityType": "System", "observations": ["Updated in May; gift cards count twice until then."]},
    {"name": "Priya", "entityType": "Person", "observations": ["Curates sales analytics.", "Asks for the query."]},
]
RELATIONS = [
    ("Monday report", "Orders", "reads"),
    ("Monday report", "Refunds", "subtracts"),
    ("Tills", "Orders", "writes"),
    ("Priya", "Monday report", "reviews"),
]


def make_conversation(caller: Caller) -> None:
    if MemoryRecord.objects.filter(created_by=caller.email, conversation_id=CONVERSATION).exists():
        return
    messages = [{"role": role, "content": text} for role, text in MESSAGES]
    store_messages(
        StoreMessages.read({"user_id": caller.email, "conversation_id": CONVERSATION, "messages": messages}),
        caller=caller,
    )
    for currency in ("CHF", "EUR"):
        store_decision(StoreDecision(user_id=caller.email, key="report_currency", value=currency), caller=caller)


def make_graph(caller: Caller) -> None:
    if Graph.objects.filter(created_by=caller.email).exists():
        return
    create_entities(CreateEntities.read({"entities": ENTITIES}), caller=caller)
    ends = [{"from": source, "to": target, "relationType": kind} for source, target, kind in RELATIONS]
    create_relations(CreateRelations.read({"relations": ends}), caller=caller)
