"""An example of every change type, and a snapshot of the catalog for comparison."""

from __future__ import annotations

from typing import Any

from foundation.people.caller import Caller
from knowledge.catalog.json_patch import canonical
from knowledge.changesets.apply import Applied
from knowledge.changesets.apply import apply as apply_changes
from knowledge.insights.capture import capture
from knowledge.models import Insight
from knowledge.operations import Apply, Capture
from knowledge.review.decisions import approve
from tests.knowledge.conftest import ORDERS, everything

TAG = "urn:li:tag:Training"
COUNT = iter(range(10_000))


def approved(owner: Caller, curator: Caller, **fields: Any) -> Insight:
    text = f"An insight about orders, number {next(COUNT)}."
    insight = capture(
        owner,
        Capture.read({"insight_text": text, "category": "data_quality", "entity_urns": [ORDERS], **fields}),
    ).insight
    return approve(curator, insight_id=insight.pk)


def change(kind: str, target: str = "", detail: str = "", **extra_fields: str) -> dict[str, str]:
    return {"change_type": kind, "target": target, "detail": detail, **extra_fields}


def apply(owner: Caller, curator: Caller, *changes: dict[str, str], urn: str = ORDERS) -> Applied:
    insight = approved(owner, curator)
    return apply_changes(
        curator, Apply.read({"insight_ids": [insight.pk.hex], "changes": list(changes), "entity_urn": urn})
    )


def snapshot() -> str:
    """Return the catalog's content as canonical JSON.

    Leaves out soft-deleted entities, resolved incidents and columns without any metadata, and sorts lists because their
    order has no meaning.
    """
    newest = everything()
    removed = {urn for (urn, aspect), value in newest.items() if aspect == "status" and value.get("removed")}
    incidents = {urn: value for (urn, aspect), value in newest.items() if aspect == "incidentInfo"}
    removed |= {urn for urn, value in incidents.items() if value["status"]["state"] == "RESOLVED"}
    rows = {f"{urn} {aspect}": value for (urn, aspect), value in newest.items() if urn not in removed and value}
    values = {name: normalized(value) for name, value in rows.items()}
    return canonical({name: value for name, value in values.items() if any(value.values())})


def normalized(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: normalized(inner) for key, inner in value.items()}
    if isinstance(value, list):
        items = [normalized(item) for item in value if not (isinstance(item, dict) and is_bare(item))]
        return sorted(items, key=canonical)
    return value


def is_bare(item: dict[str, Any]) -> bool:
    """Return whether a column entry contains only its key, emptied lists and audit stamps."""
    parts = [inner for key, inner in item.items() if key != "fieldPath"]
    return "fieldPath" in item and not any(
        any(value for key, value in inner.items() if key != "auditStamp") if isinstance(inner, dict) else inner
        for inner in parts
    )


CASES: dict[str, dict[str, str]] = {
    "update_description": change("update_description", detail="Orders after payment."),
    "update_description of a column": change("update_description", "column:amount", "With tax."),
    "update_description of a v2 column": change("update_description", "column:customer.id", "The buyer."),
    "add_tag": change("add_tag", detail="Training"),
    "add_tag to a column": change("add_tag", "column:status", TAG),
    "remove_tag": change("remove_tag", detail="Old"),
    "add_glossary_term to a column": change("add_glossary_term", "column:status", "urn:li:glossaryTerm:net"),
    "add_glossary_term": change("add_glossary_term", detail="urn:li:glossaryTerm:net"),
    "remove_glossary_term": change("remove_glossary_term", detail="old"),
    "create_glossary_term": change("create_glossary_term", "Gross revenue", "Before refunds."),
    "flag_quality_issue": change("flag_quality_issue", detail="Late on Mondays."),
    "add_documentation": change("add_documentation", "https://wiki.example/orders", "Handbook"),
    "add_context_document": change("add_context_document", "Two selling seasons", "We have two selling seasons."),
    "update_context_document": change(
        "update_context_document", "urn:li:document:old", "New text.", query_sql="New title"
    ),
    "remove_context_document": change("remove_context_document", "urn:li:document:old"),
    "deprecate": change("deprecate", detail="Use the mart."),
    "set_domain": change("set_domain", detail="sales"),
    "add_owner": change("add_owner", "DATA_STEWARD", "cora@example.org"),
    "remove_owner": change("remove_owner", "TECHNICAL_OWNER", "maya@example.org"),
    "set_structured_property": change("set_structured_property", "retention", "90 days"),
    "define_structured_property": change("define_structured_property", "cost.center", "Who pays."),
    "remove_structured_property": change("remove_structured_property", "owner.team"),
    "raise_incident": change("raise_incident", "Late again", "The load of Monday is late."),
    "resolve_incident": change("resolve_incident", "urn:li:incident:old", "The load was repeated."),
    "add_curated_query": change("add_curated_query", detail="Net orders", query_sql="SELECT 1"),
    "add_prompt": change("add_prompt", "monday-review", "Compare last week with the week before."),
}
