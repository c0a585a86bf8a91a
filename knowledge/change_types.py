"""The catalog changes that a curator can make, each in one entry: which entities it suits, what it writes where.

The way back needs no entry: every write keeps what stood at its path before, and is undone by putting that back;
an entity that was created is soft-deleted. A new change type is one function and one line in CHANGE_TYPES.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from knowledge.catalog.facts import DESCRIPTIONS, Facts
from knowledge.catalog.port import Write, entity_type, make_urn
from memories.errors import Conflict, Invalid
from memories.validation import clean_text, clean_urn

DETAIL_MAX = 10_000
PROPOSED_ONLY = {"current_value", "source_insight_ids"}  # what synthesize adds for the reader
TARGET_MAX = 500
COLUMN = "column:"
QUALITY_TAG = "urn:li:tag:QualityIssue"
OWNERSHIP_TYPES = ("TECHNICAL_OWNER", "BUSINESS_OWNER", "DATA_STEWARD", "DATAOWNER", "NONE")
NAMESPACE = uuid.UUID("6f0c8a3e-7d0f-4f6e-9b0e-0a4a5a0d1c11")  # so that the same name makes the same URN
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


@dataclass(frozen=True)
class Request:
    """One requested change, as the tools take it."""

    change_type: str
    target: str = ""
    detail: str = ""
    query_sql: str = ""
    query_description: str = ""


@dataclass(frozen=True)
class Context:
    """What a plan may look at: the entity, what the catalog says of it now, who asks, and in which changeset."""

    urn: str
    facts: Facts | None
    actor: str
    changeset: str
    find_term: Callable[[str], str]  # the URN of a glossary term with this name, or ""

    @property
    def stamp(self) -> dict[str, Any]:
        return {"time": int(timezone.now().timestamp() * 1000), "actor": make_urn("corpuser", self.actor)}


@dataclass(frozen=True)
class Step:
    """A write, and whether it makes an entity that was not there."""

    write: Write
    creates: bool = False


@dataclass(frozen=True)
class ChangeType:
    name: str
    kinds: tuple[str, ...]  # entity types that it suits; empty: it needs no entity
    plan: Callable[[Request, Context], list[Step]]
    says: str  # for people: what it does
    target: str = ""
    detail: str = ""


def _add(urn: str, aspect: str, path: tuple[str, ...], value: Any) -> Step:
    return Step(Write(urn, aspect, path, "add", value))


def _remove(urn: str, aspect: str, path: tuple[str, ...]) -> Step:
    return Step(Write(urn, aspect, path, "remove"))


def _column(request: Request, context: Context) -> str:
    """The exact path of the column that the target names, or nothing. A column that isn't there is refused:
    the catalog would take the write and show it nowhere."""
    if not request.target.startswith(COLUMN):
        return ""
    name = request.target.removeprefix(COLUMN).strip()
    found = context.facts.column(name) if context.facts else None
    if found is None:
        known = ", ".join(column.simple_path for column in (context.facts.columns if context.facts else [])[:30])
        raise Invalid(f"there is no column {name!r}", field="target", allowed=known or "none: it has no schema")
    return found.path


def _detail(request: Request, what: str) -> str:
    if not request.detail.strip():
        raise Invalid("is missing", field="detail", allowed=what)
    return request.detail.strip()


# -- the plans -----------------------------------------------------------------------------------------------


def update_description(request: Request, context: Context) -> list[Step]:
    text = _detail(request, "the new description")
    if column := _column(request, context):
        return [_add(context.urn, "editableSchemaMetadata", ("editableSchemaFieldInfo", column, "description"), text)]
    aspect, key = DESCRIPTIONS[entity_type(context.urn)][0]
    return [_add(context.urn, aspect, (key,), text)]


def _association(aspect: str, listed: str, key: str, kind: str, add: bool) -> Callable[[Request, Context], list[Step]]:
    """Tags and terms, of an entity or of a column."""

    def plan(request: Request, context: Context) -> list[Step]:
        urn = make_urn(kind, _detail(request, f"a {kind}'s name or URN"))
        path: tuple[str, ...] = (listed, urn)
        where = aspect
        if column := _column(request, context):
            where, path = "editableSchemaMetadata", ("editableSchemaFieldInfo", column, aspect, *path)
        return [_add(context.urn, where, path, {key: urn}) if add else _remove(context.urn, where, path)]

    return plan


def create_glossary_term(request: Request, context: Context) -> list[Step]:
    name = clean_text("target", request.target, 2, 150)
    definition = _detail(request, "the term's definition")
    if known := context.find_term(name):
        raise Conflict(f"the term {name!r} is there already: add_glossary_term {known}", field="target")
    urn = f"urn:li:glossaryTerm:{uuid.uuid5(NAMESPACE, name.casefold())}"
    info = {"name": name, "definition": definition, "termSource": "INTERNAL"}
    steps = [Step(Write(urn, "glossaryTermInfo", (), "add", info), creates=True)]
    if context.urn and entity_type(context.urn) in TAGGABLE:
        steps.append(_add(context.urn, "glossaryTerms", ("terms", urn), {"urn": urn}))
    return steps


def flag_quality_issue(request: Request, context: Context) -> list[Step]:
    issue = _detail(request, "what is wrong")
    return [_add(context.urn, "globalTags", ("tags", QUALITY_TAG), {"tag": QUALITY_TAG, "context": issue})]


def add_documentation(request: Request, context: Context) -> list[Step]:
    url = clean_text("target", request.target, 8, TARGET_MAX)
    if not re.fullmatch(r"https?://\S+", url):
        raise Invalid(f"{url[:60]!r} is no web address", field="target", allowed="http:// or https://")
    link = {"url": url, "description": request.detail.strip() or url, "createStamp": context.stamp}
    return [_add(context.urn, "institutionalMemory", ("elements", url), link)]


def deprecate(request: Request, context: Context) -> list[Step]:
    value = {
        "deprecated": True,
        "note": _detail(request, "why, and what to use instead"),
        "actor": context.stamp["actor"],
        "decommissionTime": None,
    }
    if request.target:
        value["replacement"] = clean_urn(request.target, "target")
    return [_add(context.urn, "deprecation", (), value)]


def set_domain(request: Request, context: Context) -> list[Step]:
    return [
        _add(context.urn, "domains", ("domains",), [make_urn("domain", _detail(request, "a domain's name or URN"))])
    ]


def _owner(request: Request) -> tuple[str, str]:
    who = _detail(request, "an e-mail address or a corpuser's or corpGroup's URN")
    if not who.startswith("urn:li:corp") and not EMAIL.fullmatch(who):
        raise Invalid(
            f"{who[:60]!r} is nobody",
            field="detail",
            allowed="an e-mail address, urn:li:corpuser:…, urn:li:corpGroup:…",
        )
    kind = request.target.strip() or "TECHNICAL_OWNER"
    if kind not in OWNERSHIP_TYPES:
        raise Invalid(f"{kind[:60]!r} is unknown", field="target", allowed=", ".join(OWNERSHIP_TYPES))
    return make_urn("corpuser", who), kind


def add_owner(request: Request, context: Context) -> list[Step]:
    owner, kind = _owner(request)
    return [_add(context.urn, "ownership", ("owners", owner, kind), {"owner": owner, "type": kind})]


def remove_owner(request: Request, context: Context) -> list[Step]:
    owner, kind = _owner(request)
    return [_remove(context.urn, "ownership", ("owners", owner, kind))]


def add_context_document(request: Request, context: Context) -> list[Step]:
    """Published, so that DataHub's own agents find it (search_documents)."""
    title = clean_text("target", request.target, 3, 200)
    urn = f"urn:li:document:insight-{uuid.uuid5(NAMESPACE, f'{context.changeset} {title}')}"
    info: dict[str, Any] = {
        "title": title,
        "source": {"sourceType": "NATIVE"},
        "status": {"state": "PUBLISHED"},
        "contents": {"text": _detail(request, "the document's text")},
        "created": context.stamp,
        "lastModified": context.stamp,
        "customProperties": {"origin": "commonplace", "category": request.query_description or "insight"},
    }
    if context.urn:
        info["relatedAssets"] = [{"asset": context.urn}]
    return [
        Step(Write(urn, "documentInfo", (), "add", info), creates=True),
        _add(urn, "documentSettings", (), {"showInGlobalContext": True}),
        _add(urn, "subTypes", (), {"typeNames": ["Insight"]}),
    ]


def _document(request: Request) -> str:
    name = clean_text("target", request.target, 1, TARGET_MAX)
    return make_urn("document", name)


def update_context_document(request: Request, context: Context) -> list[Step]:
    urn = _document(request)
    steps = [_add(urn, "documentInfo", ("contents",), {"text": _detail(request, "the document's new text")})]
    if request.query_sql.strip():  # the older systems' way to say a new title
        steps.append(_add(urn, "documentInfo", ("title",), clean_text("query_sql", request.query_sql, 3, 200)))
    return steps


def remove_context_document(request: Request, context: Context) -> list[Step]:
    return [_add(_document(request), "status", ("removed",), True)]


DESCRIBED = tuple(DESCRIPTIONS)
CHANGE_TYPES: dict[str, ChangeType] = {
    entry.name: entry
    for entry in (
        ChangeType(
            "update_description",
            DESCRIBED,
            update_description,
            "Set the description",
            "empty, or column:<path>",
            "text",
        ),
        ChangeType(
            "add_tag",
            TAGGABLE,
            _association("globalTags", "tags", "tag", "tag", True),
            "Add a tag",
            "empty, or column:<path>",
            "name or URN",
        ),
        ChangeType(
            "remove_tag",
            TAGGABLE,
            _association("globalTags", "tags", "tag", "tag", False),
            "Remove a tag",
            "empty, or column:<path>",
            "name or URN",
        ),
        ChangeType(
            "add_glossary_term",
            TAGGABLE,
            _association("glossaryTerms", "terms", "urn", "glossaryTerm", True),
            "Attach a glossary term",
            "empty, or column:<path>",
            "name or URN",
        ),
        ChangeType(
            "remove_glossary_term",
            TAGGABLE,
            _association("glossaryTerms", "terms", "urn", "glossaryTerm", False),
            "Detach a glossary term",
            "empty, or column:<path>",
            "name or URN",
        ),
        ChangeType(
            "create_glossary_term",
            (),
            create_glossary_term,
            "Create a glossary term and attach it",
            "name",
            "definition",
        ),
        ChangeType("flag_quality_issue", TAGGABLE, flag_quality_issue, "Flag a quality issue", "", "what is wrong"),
        ChangeType("add_documentation", DOCUMENTED, add_documentation, "Add a link", "URL", "label"),
        ChangeType("add_context_document", (), add_context_document, "Publish a context document", "title", "text"),
        ChangeType(
            "update_context_document", (), update_context_document, "Change a context document", "document id", "text"
        ),
        ChangeType(
            "remove_context_document", (), remove_context_document, "Remove a context document", "document id", ""
        ),
        ChangeType(
            "deprecate",
            (*TAGGABLE, "glossaryTerm"),
            deprecate,
            "Mark as deprecated",
            "replacement's URN, or empty",
            "why",
        ),
        ChangeType("set_domain", TAGGABLE, set_domain, "Set the domain", "", "name or URN"),
        ChangeType("add_owner", DOCUMENTED, add_owner, "Add an owner", "kind of ownership", "e-mail address or URN"),
        ChangeType(
            "remove_owner", DOCUMENTED, remove_owner, "Remove an owner", "kind of ownership", "e-mail address or URN"
        ),
    )
}


def clean_request(given: Mapping[str, Any], field: str = "changes") -> Request:
    """A change as a tool or a form gives it. Raises Invalid."""
    if not isinstance(given, Mapping):
        raise Invalid("is not an object", field=field, allowed="{change_type, target, detail}")
    kind = given.get("change_type") or given.get("action_type") or ""
    given = {name: value for name, value in given.items() if name not in PROPOSED_ONLY}
    given.setdefault("detail", given.pop("suggested_value", ""))
    allowed = {"change_type", "action_type", "target", "detail", "query_sql", "query_description"}
    if unknown := sorted(set(given) - allowed):
        raise Invalid("is unknown", field=f"{field}.{unknown[0]}", allowed=", ".join(sorted(allowed)))
    if kind not in CHANGE_TYPES:
        raise Invalid(f"{str(kind)[:60]!r} is unknown", field=f"{field}.change_type", allowed=", ".join(CHANGE_TYPES))
    limits = {"target": TARGET_MAX, "detail": DETAIL_MAX, "query_sql": DETAIL_MAX, "query_description": DETAIL_MAX}
    texts = {name: clean_text(f"{field}.{name}", given.get(name) or "", 0, most) for name, most in limits.items()}
    return Request(change_type=str(kind), **texts)


def suits(request: Request, urn: str) -> None:
    """Raises Invalid if the change can't be made to this kind of entity."""
    entry = CHANGE_TYPES[request.change_type]
    if not entry.kinds:
        return
    if not urn:
        raise Invalid("is missing", field="entity_urn", allowed=f"the entity that {entry.name} changes")
    kinds = ("dataset",) if request.target.startswith(COLUMN) and entry.target.startswith("empty") else entry.kinds
    if entity_type(urn) not in kinds:
        raise Invalid(f"{entry.name} does not suit a {entity_type(urn)}", field="change_type", allowed=", ".join(kinds))
