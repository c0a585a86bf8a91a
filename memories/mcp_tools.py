"""The memory toolset over MCP: declarations and calls; what they do is in services and search."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

from memories import queries, services, shapes, validation
from memories.access import Caller
from memories.contract.budget import within_budget
from memories.contract.errors import check_choice
from memories.contract.toolset import tool
from memories.history import history
from memories.models import Category, Confidence, Dimension, MemoryRecord, Source, Status, Verdict, Visibility
from memories.retrieval.search import LIMIT_MAX, STRATEGIES, Filters, recall
from memories.shapes import ChangeShape, MemoryShape, RecallShape, SimilarShape
from memories.writing import erasing, feedback

LIST_LIMIT, LIST_MAX = 20, 100

COMMANDS = {
    "remember": "keep a fact: content (10–4000 characters); optional dimension, category, confidence, source, "
    "entity_urns, related_columns, tags, visibility, metadata",
    "update": "edit your own memory: id and any of content, category, confidence, dimension, tags, entity_urns, "
    "related_columns, visibility, metadata (merged)",
    "supersede": "correct a memory and keep what was believed before: id, content; optional reason",
    "forget": "archive a memory: id",
    "restore": "make an archived or stale memory active again: id",
    "verify": "say that a memory is still true: id; optional note",
    "feedback": "say of a recalled memory that it was useful or wrong, or take that back: id, verdict; optional note. "
    "A wrong one leaves recall until its owner has looked at it",
    "history": "revisions and corrections of a memory: id",
    "share": "set who may read a memory: id, visibility",
    "erase": "remove a text for good: id, confirm=true",
    "list": "your and your colleagues' memories, newest first: optional filter_dimension, filter_category, "
    "filter_status, filter_entity_urn, limit, offset",
    "review_stale": "memories whose subject has changed: optional limit, offset",
}


FIELDS = frozenset(
    {
        "content", "dimension", "category", "confidence", "tags", "entity_urns", "related_columns", "visibility",
        "metadata",
    }
)  # fmt: skip
TAKES: dict[str, frozenset[str]] = {
    "remember": FIELDS | {"source"},
    "update": FIELDS | {"id", "reason", "note"},
    "supersede": FIELDS | {"id", "reason", "note"},
    "forget": frozenset({"id", "reason", "note"}),
    "restore": frozenset({"id", "reason", "note"}),
    "verify": frozenset({"id", "note", "reason"}),
    "feedback": frozenset({"id", "verdict", "note", "reason"}),
    "history": frozenset({"id"}),
    "share": frozenset({"id", "visibility", "reason", "note"}),
    "erase": frozenset({"id", "confirm"}),
    "list": frozenset({"filter_dimension", "filter_category", "filter_status", "filter_entity_urn", "limit", "offset"}),
    "review_stale": frozenset({"limit", "offset"}),
}


class ManageShape(TypedDict, total=False):
    id: str
    status: str
    message: str
    existing: bool
    similar_existing: list[SimilarShape]
    note: str
    memory: MemoryShape
    records: list[MemoryShape]
    history: list[ChangeShape]
    total: int
    limit: int
    offset: int
    omitted: int
    commands: dict[str, str]


def listed(options: list[str]) -> str:
    return "One of: " + ", ".join(options)


Text = Annotated[str, Field(description="The fact, 10 to 4000 characters.", json_schema_extra={"maxLength": 4000})]
Urns = Annotated[
    list[str] | None,
    Field(
        description="DataHub URNs it is about, at most 10.",
        json_schema_extra={"maxItems": validation.URNS_MAX},
    ),
]
Columns = Annotated[
    list[dict[str, Any]] | None,
    Field(
        description="Columns it is about: {urn, column, relevance}, at most 20.",
        json_schema_extra={"maxItems": validation.COLUMNS_MAX},
    ),
]
Tags = Annotated[
    list[str] | None, Field(description="At most 20.", json_schema_extra={"maxItems": validation.TAGS_MAX})
]


@tool(toolset="memory", title="Manage memories", destructive=True, command="command", takes=TAKES)
def memory_manage(
    caller: Caller,
    command: Annotated[str, Field(description=listed(list(COMMANDS)) + ". Without one: what each takes.")] = "",
    id: Annotated[str, Field(description="The memory's id; for all commands but remember and the lists.")] = "",
    content: Text = "",
    dimension: Annotated[str, Field(description=listed(Dimension.values) + " (default knowledge).")] = "",
    category: Annotated[str, Field(description=listed(Category.values) + " (default business_context).")] = "",
    confidence: Annotated[str, Field(description=listed(Confidence.values) + " (default medium).")] = "",
    source: Annotated[str, Field(description=listed(Source.values) + " (default user).")] = "",
    entity_urns: Urns = None,
    related_columns: Columns = None,
    tags: Tags = None,
    visibility: Annotated[str, Field(description=listed(Visibility.values) + " (default persona).")] = "",
    metadata: Annotated[dict[str, Any] | None, Field(description="Free JSON object, at most 16 kB.")] = None,
    reason: Annotated[str, Field(description="Why, for the history.")] = "",
    note: Annotated[str, Field(description="What was looked at, for verify; what is wrong, for feedback.")] = "",
    verdict: Annotated[str, Field(description=listed([*Verdict.values, "withdraw"]) + ", for feedback.")] = "",
    confirm: Annotated[bool, Field(description="Must be true for erase.")] = False,
    filter_dimension: str = "",
    filter_category: str = "",
    filter_status: Annotated[str, Field(description=listed(Status.values) + " (default active).")] = "",
    filter_entity_urn: str = "",
    limit: Annotated[
        int, Field(description="1 to 100; more is read as 100.", json_schema_extra={"maximum": LIST_MAX})
    ] = LIST_LIMIT,
    offset: int = 0,
) -> ManageShape:
    """Keep, change, correct and look through long-term memories shared with your persona.

    Remember what a colleague would want to know next month: definitions, exceptions, migrations, preferences.
    Not what the data itself says, and nothing secret.
    """
    if not command:
        return {"commands": COMMANDS, "message": "name a command"}
    check_choice("command", command, COMMANDS)
    fields = {
        "content": content or None, "dimension": dimension or None, "category": category or None,
        "confidence": confidence or None, "tags": tags, "entity_urns": entity_urns,
        "related_columns": related_columns, "visibility": visibility or None, "metadata": metadata,
    }  # fmt: skip
    given = {name: value for name, value in fields.items() if value is not None}
    if command == "remember":
        return _remember(caller, given, source)
    if command in ("list", "review_stale"):
        filters = _filters(filter_dimension, filter_category, filter_status, filter_entity_urn)
        return _list(caller, command, filters, limit, offset)
    if command == "feedback":
        return _feedback(caller, validation.clean_id(id), verdict, note or reason)
    return _change(caller, command, validation.clean_id(id), given, reason or note, confirm)


@tool(toolset="memory", title="Recall memories", read_only=True, idempotent=True, aliases={"k": "limit"})
def memory_recall(
    caller: Caller,
    query: Annotated[
        str,
        Field(
            description="What to find, in words. Needed for semantic and lexical.",
            json_schema_extra={"maxLength": 4000},
        ),
    ] = "",
    strategy: Annotated[str, Field(description=listed(list(STRATEGIES)))] = "auto",
    entity_urns: Annotated[
        list[str] | None,
        Field(
            description="DataHub URNs to look up. Needed for entity and graph; at most 10.",
            json_schema_extra={"maxItems": 10},
        ),
    ] = None,
    dimension: Annotated[str, Field(description=listed(Dimension.values))] = "",
    tags: Annotated[list[str] | None, Field(description="All of them must be set.")] = None,
    include_stale: Annotated[bool, Field(description="Also memories whose subject has changed since.")] = False,
    as_of: Annotated[str, Field(description="ISO 8601: what was believed at that time.")] = "",
    limit: Annotated[
        int,
        Field(
            description="1 to 50; more is read as 50. Also accepted as k.",
            json_schema_extra={"maximum": LIMIT_MAX},
        ),
    ] = 10,
) -> RecallShape:
    """Find what is known: by meaning and words (semantic), exact words (lexical), or by catalog entity.

    `auto` takes all that was given and answers in one order. Ask before analysing: definitions, exceptions
    and corrections that colleagues and agents learned are here.
    """
    answer = recall(
        caller=caller,
        query=query,
        strategy=strategy or "auto",
        entity_urns=entity_urns or [],
        filters=Filters(dimension=dimension, tags=tags or []),
        include_stale=include_stale,
        as_of=shapes.moment("as_of", as_of),
        limit=limit,
    )
    return shapes.recall_shape(answer)


def _remember(caller: Caller, given: dict[str, Any], source: str) -> ManageShape:
    extras: dict[str, Any] = {"source": source} if source else {}
    answer = services.remember(caller=caller, **{"content": "", **given}, **extras)
    return _remembered(answer, "this is remembered already" if answer.existing else "remembered")


def _change(
    caller: Caller, command: str, record_id: UUID, given: dict[str, Any], reason: str, confirm: bool
) -> ManageShape:
    act: dict[str, Any] = {"caller": caller, "record_id": record_id}
    match command:
        case "update":
            record = services.revise(**act, reason=reason, **given)
            return _changed(record, record.waits or "updated")
        case "supersede":
            answer = services.supersede(**act, reason=reason, **{"content": "", **given})
            waits = answer.record.supersedes_id is None
            return _remembered(
                answer, f"proposed in place of {record_id.hex}" if waits else f"corrects {record_id.hex}"
            )
        case "forget":
            return _changed(services.forget(**act, reason=reason), "forgotten; restore brings it back")
        case "restore":
            return _changed(services.restore(**act, reason=reason), "restored")
        case "verify":
            return _changed(services.verify(**act, note=reason), "still true, as of now")
        case "share":
            record = services.share(**act, visibility=given.get("visibility", ""), reason=reason)
            return _changed(record, f"visible to {record.visibility}")
        case "erase":
            erasing.erase(**act, confirm=confirm)
            return {"id": record_id.hex, "status": "erased", "message": "erased for good"}
        case _:
            return _history(caller, record_id)


def _feedback(caller: Caller, record_id: UUID, verdict: str, note: str) -> ManageShape:
    if verdict == "withdraw":
        feedback.withdraw(caller=caller, record_id=record_id)
    else:
        feedback.mark(caller=caller, record_id=record_id, verdict=verdict, note=note)
    return _changed(queries.one(caller, record_id), "noted")


def _remembered(answer: services.Remembered, message: str) -> ManageShape:
    shape: ManageShape = {
        "id": answer.record.pk.hex,
        "status": answer.record.status,
        "message": message,
        "existing": answer.existing,
    }
    if answer.similar:
        shape["similar_existing"] = [shapes.similar_shape(similar) for similar in answer.similar]
    if answer.note:
        shape["note"] = answer.note
    return shape


def _changed(record: MemoryRecord, message: str) -> ManageShape:
    return {"id": record.pk.hex, "status": record.status, "message": message}


def _filters(dimension: str, category: str, status: str, entity_urn: str) -> Filters:
    status = check_choice("filter_status", status or Status.ACTIVE, Status.values)
    return Filters(dimension=dimension, category=category, entity=entity_urn, statuses=[status])


def _list(caller: Caller, command: str, filters: Filters, limit: int, offset: int) -> ManageShape:
    if command == "list":
        return _page(queries.newest(caller, filters), limit, offset)
    page = _page(queries.stale(caller), limit, offset)
    return {**page, "message": f"{page['total']} stale: verify, update, supersede or forget each"}


def _page(rows: Any, limit: int, offset: int) -> ManageShape:
    limit = validation.check_page(limit, offset, LIST_MAX)
    records, omitted = within_budget([shapes.memory_shape(row) for row in rows[offset : offset + limit]])
    page: ManageShape = {"records": records, "total": rows.count(), "limit": limit, "offset": offset}
    if omitted:
        page["omitted"] = omitted
        page["note"] = f"{omitted} did not fit the answer: go on with offset {offset + len(records)}"
    return page


def _history(caller: Caller, record_id: UUID) -> ManageShape:
    record = queries.one(caller, record_id)
    changes, omitted = within_budget([shapes.change_shape(change) for change in history(caller, record)])
    shape: ManageShape = {
        "id": record.pk.hex,
        "status": record.status,
        "history": changes,
        "total": len(changes) + omitted,
    }
    if omitted:
        shape["omitted"] = omitted
    return shape
