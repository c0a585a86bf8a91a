"""Changes that create entities: glossary terms, documents, incidents, queries, properties and prompts.

URNs are computed, not random, so that sending the same write again does not create a second entity.
"""

from __future__ import annotations

import re
import uuid
from typing import Annotated, Any

from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.operations.fields import Text
from foundation.operations.operation import validate
from knowledge import extensions
from knowledge.catalog.interface import Write, entity_type, make_urn
from knowledge.changesets.change_request import MAX_TARGET, ChangeStep, Context, Request, add, detail_of

NAMESPACE = uuid.UUID("6f0c8a3e-7d0f-4f6e-9b0e-0a4a5a0d1c11")  # for computing URNs
ATTACHABLE = ("dataset", "container", "chart", "dashboard", "dataJob", "dataFlow")
VALUE_TYPES = ("string", "number", "date", "urn", "rich_text")
PROPERTY_OF = ("dataset", "container", "chart", "dashboard", "dataJob", "dataFlow", "glossaryTerm", "domain")
# By aspect, for entities that are not soft-deleted: the path and value that a rollback of their creation writes.
UNDO_CREATION: dict[str, tuple[tuple[str, ...], str]] = {"incidentInfo": (("status", "state"), "RESOLVED")}


def create_glossary_term(request: Request, context: Context) -> list[ChangeStep]:
    name = validate(Annotated[str, Text(2, 150)], request.target, "target")
    definition = detail_of(request, gettext("the term's definition"))
    if term_urn := context.find_term(name):
        raise Conflict(
            gettext("the term %(name)r already exists: use add_glossary_term with %(term_urn)s")
            % {"name": name, "term_urn": term_urn},
            field="target",
        )
    urn = f"urn:li:glossaryTerm:{uuid.uuid5(NAMESPACE, name.casefold())}"
    info = {"name": name, "definition": definition, "termSource": "INTERNAL"}
    steps = [ChangeStep(Write(urn, "glossaryTermInfo", (), "add", info), creates=True)]
    if context.urn and entity_type(context.urn) in ATTACHABLE:
        steps.append(add(context.urn, "glossaryTerms", ("terms", urn), {"urn": urn}))
    return steps


def add_context_document(request: Request, context: Context) -> list[ChangeStep]:
    title = validate(Annotated[str, Text(3, 200)], request.target, "target")
    urn = f"urn:li:document:insight-{uuid.uuid5(NAMESPACE, f'{context.changeset} {title}')}"
    info: dict[str, Any] = {
        "title": title,
        "source": {"sourceType": "NATIVE"},
        "status": {"state": "PUBLISHED"},  # DataHub's tool search_documents finds only published documents
        "contents": {"text": detail_of(request, gettext("the document's text"))},
        "created": context.stamp,
        "lastModified": context.stamp,
        "customProperties": {"origin": "commonplace", "category": request.query_description or "insight"},
    }
    if context.urn:
        info["relatedAssets"] = [{"asset": context.urn}]
    return [
        ChangeStep(Write(urn, "documentInfo", (), "add", info), creates=True),
        add(urn, "documentSettings", (), {"showInGlobalContext": True}),
        add(urn, "subTypes", (), {"typeNames": ["Insight"]}),
    ]


def _document(request: Request) -> str:
    name = validate(Annotated[str, Text(1, MAX_TARGET)], request.target, "target")
    return make_urn("document", name)


def update_context_document(request: Request, context: Context) -> list[ChangeStep]:
    urn = _document(request)
    steps = [add(urn, "documentInfo", ("contents",), {"text": detail_of(request, gettext("the document's new text"))})]
    if request.query_sql.strip():  # older clients pass a new title here
        steps.append(
            add(urn, "documentInfo", ("title",), validate(Annotated[str, Text(3, 200)], request.query_sql, "query_sql"))
        )
    return steps


def remove_context_document(request: Request, context: Context) -> list[ChangeStep]:
    return [add(_document(request), "status", ("removed",), True)]


def define_structured_property(request: Request, context: Context) -> list[ChangeStep]:
    """Define a structured property. `query_description` is the type of its values, or empty for string."""
    name = validate(Annotated[str, Text(2, 200)], request.target, "target")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name):
        raise Invalid(
            gettext("%(name)r is not a valid property name") % {"name": name},
            field="target",
            allowed=gettext("letters, digits, . - and _, with a letter first"),
        )
    kind = request.query_description.strip() or "string"
    if kind not in VALUE_TYPES:
        raise Invalid(
            gettext("%(kind)r is unknown") % {"kind": kind[:40]},
            field="query_description",
            allowed=", ".join(VALUE_TYPES),
        )
    definition = {
        "qualifiedName": name,
        "displayName": name.rpartition(".")[2].replace("_", " ").capitalize(),
        "description": detail_of(request, gettext("the meaning of the property")),
        "valueType": f"urn:li:dataType:datahub.{kind}",
        "cardinality": "MULTIPLE",
        "entityTypes": [f"urn:li:entityType:datahub.{carrier}" for carrier in PROPERTY_OF],
    }
    urn = f"urn:li:structuredProperty:{name}"
    return [ChangeStep(Write(urn, "propertyDefinition", (), "add", definition), creates=True)]


def raise_incident(request: Request, context: Context) -> list[ChangeStep]:
    title = validate(Annotated[str, Text(3, 200)], request.target, "target")
    urn = f"urn:li:incident:{uuid.uuid5(NAMESPACE, f'{context.urn} {title} {context.changeset}')}"
    info = {
        "type": "OPERATIONAL",
        "title": title,
        "description": detail_of(request, gettext("a description of the incident")),
        "entities": [context.urn],
        "status": {"state": "ACTIVE", "lastUpdated": context.stamp},
        "source": {"type": "MANUAL"},
        "created": context.stamp,
    }
    return [ChangeStep(Write(urn, "incidentInfo", (), "add", info), creates=True)]


def resolve_incident(request: Request, context: Context) -> list[ChangeStep]:
    urn = make_urn("incident", validate(Annotated[str, Text(1, MAX_TARGET)], request.target, "target"))
    if not context.exists(urn):
        raise NotFound(gettext("there is no incident %(urn)s") % {"urn": urn}, field="target")
    status = {
        "state": "RESOLVED",
        "message": detail_of(request, gettext("a description of how the incident was resolved")),
        "lastUpdated": context.stamp,
    }
    return [add(urn, "incidentInfo", ("status",), status)]


def add_curated_query(request: Request, context: Context) -> list[ChangeStep]:
    name = validate(Annotated[str, Text(3, 200)], detail_of(request, gettext("the query's name")), "detail")
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
        ChangeStep(Write(urn, "queryProperties", (), "add", properties), creates=True),
        add(urn, "querySubjects", (), {"subjects": [{"entity": context.urn}]}),
    ]


def add_prompt(request: Request, context: Context) -> list[ChangeStep]:
    """Publish a prompt to all users of the MCP server. It is stored in the embedded catalog, never in DataHub."""
    name = validate(Annotated[str, Text(3, 60)], request.target, "target")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise Invalid(
            gettext("%(name)r is not a valid prompt name") % {"name": name},
            field="target",
            allowed=gettext("lower-case letters, digits, - and _, with a letter or digit first"),
        )
    if name in extensions.built_in_prompts():
        raise Conflict(
            gettext("%(name)r is the name of a built-in prompt") % {"name": name},
            field="target",
            allowed=gettext("another name"),
        )
    info = {
        "name": name,
        "text": detail_of(request, gettext("the prompt's text")),
        "title": request.query_description or name,
        "by": ", ".join(context.authors),
        "curator": context.actor,
    }
    return [ChangeStep(Write(f"urn:li:prompt:{name}", "promptInfo", (), "add", info), creates=True)]
