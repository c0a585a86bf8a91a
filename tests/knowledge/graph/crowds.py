"""Graphs with many entities."""

from __future__ import annotations

from foundation.people.caller import Caller
from tests.knowledge.graph.calls import call


def create_crowd(caller: Caller, count: int = 28, entity_type: str = "Proyecto") -> list[str]:
    kinds = ("Invoices of the paper mill", "Seagulls over the harbour wall", "Violin lessons in the old school")
    texts = [f"{kinds[n % 3]}, note number {n}." for n in range(count)]
    call(caller, "create_entities", entities=[{"name": "Crowd", "entityType": entity_type, "observations": texts}])
    return texts
