"""The types of changes that curators can make in the catalog.

To add a change type, write a function that plans its writes, and add an entry to BUILT_IN. Rolling back needs no code
of the change type: a rollback restores the value from before each write and soft-deletes the entities that were
created, except those whose aspect UNDO_CREATION (in new_entities.py) lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from django.utils.translation import gettext, gettext_noop

from foundation.operations.errors import Invalid, NotFound
from foundation.operations.fields import EntityUrn, Text
from foundation.operations.operation import validate
from knowledge.catalog.entity_view import DESCRIPTIONS
from knowledge.catalog.interface import entity_type, make_urn
from knowledge.changesets import new_entities, property_values
from knowledge.changesets.change_request import (
    CHANGE_TYPES,
    MAX_TARGET,
    ChangeStep,
    ChangeType,
    Context,
    Request,
    add,
    detail_of,
    remove,
)

COLUMN = "column:"
QUALITY_TAG = "urn:li:tag:QualityIssue"
OWNERSHIP_TYPES = ("TECHNICAL_OWNER", "BUSINESS_OWNER", "DATA_STEWARD", "DATAOWNER", "NONE")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
DOCUMENTED = (
    "dataset",
    "container",
    "glossaryTerm",
    "glossaryNode",
    "chart",
    "dashboard",
    "dataJob",
    "dataFlow",
    "domain",
)
TAGGABLE = ("dataset", "container", "chart", "dashboard", "dataJob", "dataFlow")


def _column(request: Request, context: Context) -> str:
    """Return the exact path of the column in a target `column:<path>`, or "" for an empty target.

    Raises Invalid for any other target, which may be meant as a column, and for an unknown column, because the catalog
    would accept the write and never show it.
    """
    if not request.target:
        return ""
    if not request.target.startswith(COLUMN):
        raise Invalid(
            gettext("is %(target)r") % {"target": request.target[:60]},
            field="target",
            allowed=gettext("column:%(name)s for a column, or empty for the whole entity")
            % {"name": request.target[:60]},
        )
    name = request.target.removeprefix(COLUMN).strip()
    match = context.entity.column(name) if context.entity else None
    if match is None:
        names = ", ".join(column.simple_path for column in (context.entity.columns if context.entity else [])[:30])
        raise Invalid(
            gettext("there is no column %(name)r") % {"name": name},
            field="target",
            allowed=names or gettext("an empty target, because the data set has no columns"),
        )
    return match.path


# -- plan functions ------------------------------------------------------------------------------------------


def update_description(request: Request, context: Context) -> list[ChangeStep]:
    text = detail_of(request, gettext("the new description"))
    if column := _column(request, context):
        return [add(context.urn, "editableSchemaMetadata", ("editableSchemaFieldInfo", column, "description"), text)]
    aspect, key = DESCRIPTIONS[entity_type(context.urn)][0]
    return [add(context.urn, aspect, (key,), text)]


def _association(
    aspect: str, list_name: str, key: str, kind: str, adds: bool
) -> Callable[[Request, Context], list[ChangeStep]]:
    """Return the plan function that adds or removes a tag or term of an entity or column."""

    def plan(request: Request, context: Context) -> list[ChangeStep]:
        urn = make_urn(kind, detail_of(request, gettext("a %(kind)s's name or URN") % {"kind": kind}))
        if adds and kind == "glossaryTerm":
            _require_existing(urn, context)
        path: tuple[str, ...] = (list_name, urn)
        target_aspect = aspect
        if column := _column(request, context):
            target_aspect = "editableSchemaMetadata"
            path = ("editableSchemaFieldInfo", column, aspect, *path)
        return [add(context.urn, target_aspect, path, {key: urn}) if adds else remove(context.urn, target_aspect, path)]

    return plan


def flag_quality_issue(request: Request, context: Context) -> list[ChangeStep]:
    issue = detail_of(request, gettext("a description of the quality problem"))
    return [add(context.urn, "globalTags", ("tags", QUALITY_TAG), {"tag": QUALITY_TAG, "context": issue})]


def add_documentation(request: Request, context: Context) -> list[ChangeStep]:
    url = validate(Annotated[str, Text(8, MAX_TARGET)], request.target, "target")
    if not re.fullmatch(r"https?://\S+", url):
        raise Invalid(
            gettext("%(url)r is not a web address") % {"url": url[:60]},
            field="target",
            allowed=gettext("a URL with http:// or https://"),
        )
    link = {"url": url, "description": request.detail.strip() or url, "createStamp": context.stamp}
    return [add(context.urn, "institutionalMemory", ("elements", url), link)]


def deprecate(request: Request, context: Context) -> list[ChangeStep]:
    value = {
        "deprecated": True,
        "note": detail_of(request, gettext("the reason, and a replacement if there is one")),
        "actor": context.stamp["actor"],
        "decommissionTime": None,
    }
    if request.target:
        value["replacement"] = validate(EntityUrn, request.target, "target")
    return [add(context.urn, "deprecation", (), value)]


def set_domain(request: Request, context: Context) -> list[ChangeStep]:
    urn = make_urn("domain", detail_of(request, gettext("a domain's name or URN")))
    _require_existing(urn, context)
    return [add(context.urn, "domains", ("domains",), [urn])]


def _require_existing(urn: str, context: Context) -> None:
    """Raise NotFound for an entity that the catalog lacks. It would accept the write and show an empty reference."""
    if not context.exists(urn):
        raise NotFound(
            gettext("%(urn)s is not in the catalog") % {"urn": urn},
            field="detail",
            allowed=gettext("a name or URN that catalog_search finds"),
        )


def _structured_property(request: Request, context: Context) -> str:
    urn = make_urn("structuredProperty", validate(Annotated[str, Text(1, MAX_TARGET)], request.target, "target"))
    if not context.exists(urn):
        raise NotFound(
            gettext("there is no property %(urn)s: define it first (define_structured_property)") % {"urn": urn},
            field="target",
        )
    return urn


def set_structured_property(request: Request, context: Context) -> list[ChangeStep]:
    """Replace all values of a property. The property's definition says which values it takes."""
    text = detail_of(request, gettext("a value, or a JSON array of values"))
    urn = _structured_property(request, context)
    definition = context.read(urn, "propertyDefinition") or {}
    property_values.check_carrier(definition, context.urn)
    values = property_values.parse_values(definition, text)
    return [add(context.urn, "structuredProperties", ("properties", urn), {"propertyUrn": urn, "values": values})]


def remove_structured_property(request: Request, context: Context) -> list[ChangeStep]:
    return [remove(context.urn, "structuredProperties", ("properties", _structured_property(request, context)))]


def _owner(request: Request) -> tuple[str, str]:
    owner = detail_of(request, gettext("an e-mail address, or the URN of a corpuser or corpGroup"))
    if not owner.startswith("urn:li:corp") and not EMAIL.fullmatch(owner):
        raise Invalid(
            gettext("%(owner)r is neither an e-mail address nor the URN of a person or group") % {"owner": owner[:60]},
            field="detail",
            allowed=gettext("an e-mail address, urn:li:corpuser:…, urn:li:corpGroup:…"),
        )
    kind = request.target.strip() or "TECHNICAL_OWNER"
    if kind not in OWNERSHIP_TYPES:
        raise Invalid(
            gettext("%(kind)r is unknown") % {"kind": kind[:60]}, field="target", allowed=", ".join(OWNERSHIP_TYPES)
        )
    return make_urn("corpuser", owner), kind


def add_owner(request: Request, context: Context) -> list[ChangeStep]:
    owner, kind = _owner(request)
    return [add(context.urn, "ownership", ("owners", owner, kind), {"owner": owner, "type": kind})]


def remove_owner(request: Request, context: Context) -> list[ChangeStep]:
    owner, kind = _owner(request)
    return [remove(context.urn, "ownership", ("owners", owner, kind))]


DESCRIBED = tuple(DESCRIPTIONS)
BUILT_IN = (
    ChangeType(
        "update_description",
        DESCRIBED,
        update_description,
        gettext_noop("Set the description"),
        "empty, or column:<path>",
        "text",
    ),
    ChangeType(
        "add_tag",
        TAGGABLE,
        _association("globalTags", "tags", "tag", "tag", True),
        gettext_noop("Add a tag"),
        "empty, or column:<path>",
        "name or URN",
    ),
    ChangeType(
        "remove_tag",
        TAGGABLE,
        _association("globalTags", "tags", "tag", "tag", False),
        gettext_noop("Remove a tag"),
        "empty, or column:<path>",
        "name or URN",
    ),
    ChangeType(
        "add_glossary_term",
        TAGGABLE,
        _association("glossaryTerms", "terms", "urn", "glossaryTerm", True),
        gettext_noop("Attach a glossary term"),
        "empty, or column:<path>",
        "name or URN",
    ),
    ChangeType(
        "remove_glossary_term",
        TAGGABLE,
        _association("glossaryTerms", "terms", "urn", "glossaryTerm", False),
        gettext_noop("Detach a glossary term"),
        "empty, or column:<path>",
        "name or URN",
    ),
    ChangeType(
        "create_glossary_term",
        (),
        new_entities.create_glossary_term,
        gettext_noop("Create a glossary term and attach it"),
        "name",
        "definition",
    ),
    ChangeType(
        "flag_quality_issue", TAGGABLE, flag_quality_issue, gettext_noop("Flag a quality issue"), "", "what is wrong"
    ),
    ChangeType("add_documentation", DOCUMENTED, add_documentation, gettext_noop("Add a link"), "URL", "label"),
    ChangeType(
        "add_context_document",
        (),
        new_entities.add_context_document,
        gettext_noop("Publish a context document"),
        "title",
        "text",
    ),
    ChangeType(
        "update_context_document",
        (),
        new_entities.update_context_document,
        gettext_noop("Change a context document"),
        "document id",
        "text",
        is_rare=True,
    ),
    ChangeType(
        "remove_context_document",
        (),
        new_entities.remove_context_document,
        gettext_noop("Remove a context document"),
        "document id",
        "",
        is_rare=True,
    ),
    ChangeType(
        "deprecate",
        (*TAGGABLE, "glossaryTerm"),
        deprecate,
        gettext_noop("Mark as deprecated"),
        "replacement's URN, or empty",
        "why",
    ),
    ChangeType("set_domain", TAGGABLE, set_domain, gettext_noop("Set the domain"), "", "name or URN"),
    ChangeType(
        "add_owner", DOCUMENTED, add_owner, gettext_noop("Add an owner"), "kind of ownership", "e-mail address or URN"
    ),
    ChangeType(
        "remove_owner",
        DOCUMENTED,
        remove_owner,
        gettext_noop("Remove an owner"),
        "kind of ownership",
        "e-mail address or URN",
    ),
    ChangeType(
        "set_structured_property",
        DOCUMENTED,
        set_structured_property,
        gettext_noop("Set a property"),
        "name or URN",
        "value or JSON array",
        is_rare=True,
    ),
    ChangeType(
        "define_structured_property",
        (),
        new_entities.define_structured_property,
        gettext_noop("Define a property"),
        "name",
        "what it means; its type in query_description: string, number, date, urn or rich_text",
    ),
    ChangeType(
        "remove_structured_property",
        DOCUMENTED,
        remove_structured_property,
        gettext_noop("Remove a property"),
        "name or URN",
        is_rare=True,
    ),
    ChangeType(
        "raise_incident",
        TAGGABLE,
        new_entities.raise_incident,
        gettext_noop("Raise an incident"),
        "title",
        "what happens",
        is_rare=True,
    ),
    ChangeType(
        "resolve_incident",
        (),
        new_entities.resolve_incident,
        gettext_noop("Resolve an incident"),
        "incident",
        "how",
        is_rare=True,
    ),
    ChangeType(
        "add_curated_query",
        ("dataset",),
        new_entities.add_curated_query,
        gettext_noop("Add a query"),
        "",
        "its name; the statement in query_sql",
        is_rare=True,
    ),
    ChangeType(
        "add_prompt",
        (),
        new_entities.add_prompt,
        gettext_noop("Offer a prompt to agents"),
        "name",
        "text",
        is_rare=True,
    ),
)


def check_entity_type(request: Request, urn: str) -> None:
    change_type = CHANGE_TYPES[request.change_type]
    if request.target and not change_type.target:
        raise Invalid(
            gettext("is not taken by %(change_type)s") % {"change_type": change_type.name},
            field="target",
            allowed=gettext("empty"),
        )
    if not change_type.kinds:
        return
    if not urn:
        raise Invalid(
            gettext("is missing"),
            field="entity_urn",
            allowed=gettext("the URN of the entity that %(change_type)s changes") % {"change_type": change_type.name},
        )
    changes_column = request.target.startswith(COLUMN) and change_type.target.startswith("empty")
    types = ("dataset",) if changes_column else change_type.kinds
    if entity_type(urn) not in types:
        fitting = (
            gettext("%(change)s can't be applied to a column of a %(type)s")
            if changes_column
            else gettext("%(change)s can't be applied to a %(type)s")
        )
        message = fitting % {"change": change_type.name, "type": entity_type(urn)}
        raise Invalid(message, field="change_type", allowed=", ".join(types))
