"""Changes that make an entity of its own: glossary terms, documents, incidents, queries, prompts.

Their URNs follow from their names, so that applying the same again makes nothing twice.
"""

from __future__ import annotations

import re
import uuid
from typing import Annotated, Any

from knowledge.catalog.interface import Write, entity_type, make_urn
from knowledge.changesets.change_request import MAX_TARGET, Context, Request, Step, add, detail_of
from memories.contract.errors import Conflict, Invalid, NotFound
from memories.contract.fields import Text
from memories.contract.operations import validate

NAMESPACE = uuid.UUID("6f0c8a3e-7d0f-4f6e-9b0e-0a4a5a0d1c11")  # so that the same name makes the same URN
RESERVED_PROMPTS = frozenset({"analyse_data_set", "capture_guidance", "capture_this"})  # as the MCP server has them
ATTACHABLE = ("dataset", "container", "chart", "dashboard", "dataJob", "dataFlow")
VALUE_TYPES = ("string", "number", "date", "urn", "rich_text")
PROPERTY_OF = ("dataset", "container", "chart", "dashboard", "dataJob", "dataFlow", "glossaryTerm", "domain")
# How a created entity is taken back where that is not a soft delete: path and value of its own aspect.
TAKEN_BACK: dict[str, tuple[tuple[str, ...], str]] = {"incidentInfo": (("status", "state"), "RESOLVED")}


def create_glossary_term(request: Request, context: Context) -> list[Step]:
    name = validate(Annotated[str, Text(2, 150)], request.target, "target")
    definition = detail_of(request, "the term's definition")
    if term_urn := context.find_term(name):
        raise Conflict(f"the term {name!r} already exists: use add_glossary_term {term_urn}", field="target")
    urn = f"urn:li:glossaryTerm:{uuid.uuid5(NAMESPACE, name.casefold())}"
    info = {"name": name, "definition": definition, "termSource": "INTERNAL"}
    steps = [Step(Write(urn, "glossaryTermInfo", (), "add", info), creates=True)]
    if context.urn and entity_type(context.urn) in ATTACHABLE:
        steps.append(add(context.urn, "glossaryTerms", ("terms", urn), {"urn": urn}))
    return steps


def add_context_document(request: Request, context: Context) -> list[Step]:
    """Published, so that DataHub's own agents find it (search_documents)."""
    title = validate(Annotated[str, Text(3, 200)], request.target, "target")
    urn = f"urn:li:document:insight-{uuid.uuid5(NAMESPACE, f'{context.changeset} {title}')}"
    info: dict[str, Any] = {
        "title": title,
        "source": {"sourceType": "NATIVE"},
        "status": {"state": "PUBLISHED"},
        "contents": {"text": detail_of(request, "the document's text")},
        "created": context.stamp,
        "lastModified": context.stamp,
        "customProperties": {"origin": "commonplace", "category": request.query_description or "insight"},
    }
    if context.urn:
        info["relatedAssets"] = [{"asset": context.urn}]
    return [
        Step(Write(urn, "documentInfo", (), "add", info), creates=True),
        add(urn, "documentSettings", (), {"showInGlobalContext": True}),
        add(urn, "subTypes", (), {"typeNames": ["Insight"]}),
    ]


def _document(request: Request) -> str:
    name = validate(Annotated[str, Text(1, MAX_TARGET)], request.target, "target")
    return make_urn("document", name)


def update_context_document(request: Request, context: Context) -> list[Step]:
    urn = _document(request)
    steps = [add(urn, "documentInfo", ("contents",), {"text": detail_of(request, "the document's new text")})]
    if request.query_sql.strip():  # the older systems' way to say a new title
        steps.append(
            add(urn, "documentInfo", ("title",), validate(Annotated[str, Text(3, 200)], request.query_sql, "query_sql"))
        )
    return steps


def remove_context_document(request: Request, context: Context) -> list[Step]:
    return [add(_document(request), "status", ("removed",), True)]


def define_structured_property(request: Request, context: Context) -> list[Step]:
    """A property that entities may carry: its values are of one type, a string unless it says otherwise."""
    name = validate(Annotated[str, Text(2, 200)], request.target, "target")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name):
        raise Invalid(f"{name!r} is not a valid property name", field="target", allowed="letters, digits, . - and _")
    kind = request.query_description.strip() or "string"
    if kind not in VALUE_TYPES:
        raise Invalid(f"{kind[:40]!r} is unknown", field="query_description", allowed=", ".join(VALUE_TYPES))
    definition = {
        "qualifiedName": name,
        "displayName": name.rpartition(".")[2].replace("_", " ").capitalize(),
        "description": detail_of(request, "what the property means"),
        "valueType": f"urn:li:dataType:datahub.{kind}",
        "cardinality": "MULTIPLE",
        "entityTypes": [f"urn:li:entityType:datahub.{carrier}" for carrier in PROPERTY_OF],
    }
    urn = f"urn:li:structuredProperty:{name}"
    return [Step(Write(urn, "propertyDefinition", (), "add", definition), creates=True)]


def raise_incident(request: Request, context: Context) -> list[Step]:
    title = validate(Annotated[str, Text(3, 200)], request.target, "target")
    urn = f"urn:li:incident:{uuid.uuid5(NAMESPACE, f'{context.urn} {title} {context.changeset}')}"
    info = {
        "type": "OPERATIONAL",
        "title": title,
        "description": detail_of(request, "what is happening"),
        "entities": [context.urn],
        "status": {"state": "ACTIVE", "lastUpdated": context.stamp},
        "source": {"type": "MANUAL"},
        "created": context.stamp,
    }
    return [Step(Write(urn, "incidentInfo", (), "add", info), creates=True)]


def resolve_incident(request: Request, context: Context) -> list[Step]:
    urn = make_urn("incident", validate(Annotated[str, Text(1, MAX_TARGET)], request.target, "target"))
    if not context.exists(urn):
        raise NotFound(f"there is no incident {urn}", field="target")
    status = {"state": "RESOLVED", "message": detail_of(request, "how it was resolved"), "lastUpdated": context.stamp}
    return [add(urn, "incidentInfo", ("status",), status)]


def add_curated_query(request: Request, context: Context) -> list[Step]:
    name = validate(Annotated[str, Text(3, 200)], detail_of(request, "the query's name"), "detail")
    statement = validate(Annotated[str, Text(1, 10_000)], request.query_sql, "query_sql")
    urn = f"urn:li:query:{uuid.uuid5(NAMESPACE, f'{context.urn} {name}')}"
    properties: dict[str, Any] = {
        "statement": {"value": statement, "language": "SQL"},
        "source": "MANUAL",
        "name": name,
        "description": request.query_description or name,
        "created": context.stamp,
        "lastModified": context.stamp,
    }
    return [
        Step(Write(urn, "queryProperties", (), "add", properties), creates=True),
        add(urn, "querySubjects", (), {"subjects": [{"entity": context.urn}]}),
    ]


def add_prompt(request: Request, context: Context) -> list[Step]:
    """A prompt that our own MCP server offers to everybody; it is kept in our tables, whichever catalog is used."""
    name = validate(Annotated[str, Text(3, 60)], request.target, "target")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise Invalid(
            f"{name!r} is not a valid prompt name", field="target", allowed="lower-case letters, digits, - and _"
        )
    if name in RESERVED_PROMPTS:
        raise Conflict(f"{name!r} is a prompt of Commonplace's own", field="target", allowed="another name")
    info = {
        "name": name,
        "text": detail_of(request, "the prompt's text"),
        "title": request.query_description or name,
        "by": ", ".join(context.authors),
        "curator": context.actor,
    }
    return [Step(Write(f"urn:li:prompt:{name}", "promptInfo", (), "add", info), creates=True)]
