"""Operations: validation, error messages and tool schemas derived from pydantic models."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, ClassVar, cast

import pytest
from pydantic import Field

from foundation.operations import schemas
from foundation.operations.errors import Invalid
from foundation.operations.fields import Columns, Content, Id, JsonObject, OneOf, ResultLimit, Tags, Urns, if_any
from foundation.operations.operation import Operation, validate
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool, ToolResponse
from memories.operations import MemoryChanges, MemoryFields
from memory_project.mcp.tool_list import enabled_tools

ID = "0" * 32
TOOLS = enabled_tools(["all"])


class Keep(Operation):
    """Keep a thing"""

    synonyms: ClassVar = {"text": "content"}

    record_id: Annotated[Id, Field(alias="id")]
    content: Content = Field(description="The fact.")
    colour: Annotated[str, OneOf(["red", "blue"])] = "red"
    tags: Tags = []
    entity_urns: Urns = []
    related_columns: Columns = []
    metadata: JsonObject = {}
    successor: Annotated[Id | None, if_any] = None
    limit: Annotated[int, ResultLimit(50)] = 10


class Drop(Operation):
    """Drop a thing"""

    record_id: Annotated[Id, Field(alias="id")]
    colour: Annotated[str, OneOf(["red", "green"])]


def keep(caller: Caller, operation: Keep) -> ToolResponse[dict[str, Any]]:
    return ToolResponse({"kept": operation.content}, text=f"kept {operation.content}")


def drop(caller: Caller, operation: Drop) -> dict[str, Any]:
    return {"dropped": operation.colour}


tool = Tool("things", "memory", "Things", "Keep or drop.", {"keep": keep, "drop": drop}, selector="command")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "id: is missing; allowed: an id of 32 hexadecimal digits"),
        ({"id": "x"}, "id: 'x' is not an id; allowed: 32 hexadecimal digits"),
        ({"colour": "green"}, "colour: 'green' is unknown; allowed: red, blue"),
        ({"contents": "x"}, "contents: is unknown; allowed: id, content, colour, tags, entity_urns"),
        ({"content": "short"}, "content: has 5 characters; allowed: 10 to 4000 characters"),
        ({"content": 5}, "content: is a number; allowed: text of 10 to 4000 characters"),
        ({"tags": ["a,b"]}, "tags[0]: 'a,b' contains a comma; allowed: texts without commas"),
        ({"tags": "red"}, "tags: is 'red'; allowed: a list of at most 20 texts"),
        ({"entity_urns": ["urn:li:tag:a", "urn:orders"]}, "entity_urns[1]: 'urn:orders' is not a DataHub URN"),
        (
            {"related_columns": [{"urn": "urn:li:tag:a"}]},
            "related_columns[0].column: is missing; allowed: text of 1 to",
        ),
        ({"metadata": {"a": float("nan")}}, "metadata: is not JSON"),
        ({"metadata": {"a": [{"b\x00": 1}]}}, "metadata: contains a NUL character"),
        ({"limit": 0}, "limit: is 0; allowed: 1 to 50"),
        ({"text": "Another fact entirely."}, "text: means the same as content; allowed: one of the two"),
    ],
)
def test_an_error_names_the_first_invalid_field_and_the_allowed_values(arguments: dict[str, Any], message: str) -> None:
    required = {"id": ID, "content": "Long enough, surely."} if arguments else {}
    with pytest.raises(Invalid) as caught:
        Keep.read({**required, **arguments})
    assert caught.value.message.startswith(message)


def test_each_field_of_a_memory_can_be_changed() -> None:
    assert set(MemoryFields.model_fields) <= set(MemoryChanges.model_fields)


class Plan(Operation):
    """Plan a thing"""

    day: date
    days: list[date] = []
    amount: Decimal | None = None
    count: int = 0
    metadata: JsonObject = {}


def test_strict_arguments_are_those_of_a_json_document() -> None:
    plan = Plan.read({"day": "2027-01-31", "days": ["2027-02-01"], "amount": "1.50", "count": 2}, strict=True)
    assert plan == Plan(day=date(2027, 1, 31), days=[date(2027, 2, 1)], amount=Decimal("1.50"), count=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"day": "soon"}, "day: is 'soon'; allowed: a date in ISO 8601, for example 2026-03-31"),
        ({"day": 1}, "day: is a number; allowed: a date in ISO 8601, for example 2026-03-31"),
        ({"day": "2027-01-31", "count": "2"}, "count: is '2'; allowed: a number"),
    ],
)
def test_strict_arguments_are_not_converted(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        Plan.read(arguments, strict=True)
    assert refused.value.message == message


def test_half_a_surrogate_pair_beside_a_date_is_refused() -> None:
    with pytest.raises(UnicodeError):  # which REST answers with 400
        Plan.read({"day": "2027-01-31", "metadata": {"note": "\ud800"}}, strict=True)


def test_values_are_normalized_when_read() -> None:
    operation = Keep.read(
        {"record_id": ID, "text": "  Long enough. ", "tags": ["a", "a", " "], "limit": 99, "successor": ""}
    )
    assert (operation.content, operation.tags, operation.limit, operation.successor) == (
        "Long enough.",
        ["a"],
        50,
        None,
    )
    assert operation.explicit_values("content", "colour") == {"content": "Long enough."}


def test_a_single_value_is_validated_like_a_field() -> None:
    assert validate(Tags, ["a", "a"], "tags") == ["a"]
    with pytest.raises(Invalid, match="since: is missing; allowed: text of 10 to 4000"):
        validate(Content, "", "since")


# -- tools ---------------------------------------------------------------------------------------------------


def test_commands_share_one_flat_schema(alice: Caller) -> None:
    properties = tool.input_schema["properties"]
    assert list(tool.input_schema) == ["type", "properties", "required"]
    assert tool.input_schema["required"] == ["id"]
    assert properties["command"]["enum"] == ["keep", "drop", None]
    assert properties["colour"]["enum"] == ["red", "blue", "green", None]
    assert properties["content"] == {
        "type": ["string", "null"], "minLength": 10, "maxLength": 4000, "description": "The fact.",
    }  # fmt: skip
    assert properties["command"]["description"] == "keep (id, content); drop (id, colour)."
    assert "description" not in properties["id"]  # described once, because both commands accept it
    assert tool(alice, "keep", id=ID, content="Long enough.").text == "kept Long enough."
    assert tool(alice, command="drop", id=ID, colour="green") == {"dropped": "green"}
    with pytest.raises(Invalid, match=r"content: is not accepted by command drop \(but by keep\); allowed: id, colour"):
        tool(alice, "drop", id=ID, content="Long enough.")
    with pytest.raises(Invalid, match="command: 'burn' is unknown; allowed: keep, drop"):
        tool(alice, "burn", id=ID)
    assert tool(alice)["commands"]["drop"] == "Drop a thing: id, colour"


def test_lists_are_accepted_as_json_text(alice: Caller) -> None:
    assert tool(alice, "keep", id=ID, content="Long enough.", tags='["a"]', metadata="{}").data == {
        "kept": "Long enough."
    }
    with pytest.raises(Invalid, match="tags: is 'a, b'"):
        tool(alice, "keep", id=ID, content="Long enough.", tags="a, b")


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts(value)


@pytest.mark.parametrize("offer", TOOLS, ids=lambda offer: offer.name)
def test_schemas_avoid_constructs_that_some_clients_reject(offer: Tool) -> None:
    """Some clients convert schemas and fail on free-form objects, lists of any type and references."""
    schema = offer.input_schema
    assert set(schema) <= {"type", "properties", "required"}
    for part in parts(schema):
        assert "x-allowed" not in part
        assert "additionalProperties" not in part
        assert "oneOf" not in part
        assert "$ref" not in part
        assert "array" not in part.get("type", []) or part["items"]
        assert not isinstance(part.get("type"), list) or not schemas.has_object({**part, "type": part["type"][0]})
        required = part.get("required", [])
        assert all(is_nullable(value) for name, value in part.get("properties", {}).items() if name not in required)
    keys = offer.output_schema
    required = keys["required"] or [part for part in keys.get("anyOf", []) if part["required"]]
    assert (keys["type"], bool(required)) == ("object", True)


def is_nullable(schema: Any) -> bool:
    return "null" in schema.get("type", []) or {"type": "null"} in schema.get("anyOf", [])


@pytest.mark.parametrize("offer", TOOLS, ids=lambda offer: offer.name)
def test_every_argument_is_described(offer: Tool) -> None:
    for name, schema in offer.input_schema["properties"].items():
        assert any(part.get("description") for part in [schema, *schema.get("anyOf", [])]), name


def test_null_and_empty_values_count_as_absent(alice: Caller) -> None:
    nothing: dict[str, Any] = {
        "colour": None,
        "tags": None,
        "metadata": None,
        "successor": "",
        "limit": None,
        "related_columns": [],
    }
    assert tool(alice, "keep", id=ID, content="Long enough.", **nothing).text == "kept Long enough."
    assert tool(alice, "drop", id=ID, colour="green", content=None, tags=[], metadata={}) == {"dropped": "green"}
    with pytest.raises(Invalid, match="colours: is not an argument of this tool"):
        tool(alice, "drop", id=ID, colour="green", colours=[])


def test_null_and_empty_values_of_declared_objects_count_as_absent() -> None:
    schema = {
        "properties": {"urn": {"type": "string"}, "note": {"type": "string"}, "data": {"type": "object"}},
        "required": ["urn"],
    }
    values = [{"urn": "", "note": None, "data": {"a": None}}, {"urn": "u", "note": ""}]
    assert schemas.without_absent(values, {"items": schema}) == [{"urn": "", "data": {"a": None}}, {"urn": "u"}]


def operations_with_limits() -> list[tuple[str, type[Operation], str, int]]:
    """Return the tool, operation, argument and maximum of each number of results."""
    return [
        (tool.name, operation, field.alias or name, item.maximum)
        for tool in TOOLS
        for operation in map(tool.operation, tool.choices)
        for name, field in operation.model_fields.items()
        for item in field.metadata
        if isinstance(item, ResultLimit)
    ]


def test_each_limit_above_its_maximum_is_stated() -> None:
    limits = operations_with_limits()
    assert len(limits) > 15
    for tool, operation, name, maximum in limits:
        stated = f"{name} counts as {maximum}, the maximum, so there may be more"
        for given in (maximum + 1, f"{maximum * 10}"):
            assert operation.lowered({name: given}, maximum) == stated, tool
            assert operation.lowered({name: given}, maximum - 1) == ""  # there are no more
        assert operation.lowered({name: maximum}, maximum) == operation.lowered({}, maximum) == ""


def test_a_lowered_limit_is_stated_in_data_and_text() -> None:
    someone = cast("Caller", None)  # the handlers don't look at who calls

    def data(caller: Caller, operation: Keep) -> dict[str, Any]:
        return {"items": [0] * operation.limit}

    def text(caller: Caller, operation: Keep) -> ToolResponse[dict[str, Any]]:
        return ToolResponse({"items": [0] * operation.limit, "note": "cut"}, text="ten rows")

    given = {"id": ID, "content": "A fact about stores.", "limit": 51}
    stated = "limit counts as 50, the maximum, so there may be more"
    assert Tool("keep", "memory", "", "", {"": data})(someone, **given) == {"items": [0] * 50, "note": stated}
    answer = Tool("keep", "memory", "", "", {"": text})(someone, **given)
    assert (answer.data["note"], answer.text) == (f"cut; {stated}", f"ten rows\n{stated}")
