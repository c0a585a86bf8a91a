"""The Python client compared with the OpenAPI document: addresses, arguments and types of answers."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import uuid4

import httpx
import pytest
from commonplace_client import Commonplace, types
from drf_spectacular.generators import SchemaGenerator

URL = "http://testserver"
BY_TRANSPORT = {"cursor", "fields", "Idempotency-Key", "If-Match", "If-None-Match"}
COVERED_TAGS = {"memories", "insights", "changesets"}
LEFT_OUT = {  # reachable by `request`
    "chain": {"memory_chain"},  # `get` returns it
    "private notes": {"store_note", "prune_notes"},
    "pages of the portal": {
        "count_memories",
        "count_queue",
        "review_entity",
        "undo_change",
        "edit_and_approve_insights",
    },
    "administration": {"reassign_memory", "list_periods", "open_period", "end_period", "reopen_period"},
    "a change that can be undone": {"rescope_memory"},  # `update` has the scope, too
    "for DataHub's own tools": {"export_changeset"},
    "checks, beyond the argument `check`": {
        "list_checks",
        "get_check",
        "add_check",
        "update_check",
        "remove_check",
        "run_check",
    },
    "decisions of people about attached memories": {"choose_attachment", "waive_caveat", "reinstate_caveat"},
}
METHODS = [
    name
    for name, _ in inspect.getmembers(Commonplace, inspect.isfunction)
    if not name.startswith("_") and name not in ("close", "request")
]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(SchemaGenerator().get_schema(public=True))  # type: ignore[no-untyped-call]


def resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    part: Any = document
    for name in schema["$ref"].removeprefix("#/").split("/"):
        part = part[name]
    return resolved(part, document)


def example(kind: Any) -> Any:
    """Return a value of an argument's type."""
    if get_origin(kind) in (Union, UnionType):
        return example(next(option for option in get_args(kind) if option is not NoneType))
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) in (Sequence, list):
        return [example(get_args(kind)[0])]
    if get_origin(kind) is Mapping:
        return {"a": "b"}
    if is_typeddict(kind):
        return {name: example(part) for name, part in get_type_hints(kind).items()}
    return {str: uuid4().hex, int: 5, bool: True}.get(kind, "2026-01-01T00:00:00Z")


def sent_by(name: str) -> httpx.Request:
    """Call a method with a value for each argument. Returns its request."""
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"items": [], "next": None, "email": "alice@example.org"})

    client = Commonplace(URL, "token", transport=httpx.MockTransport(answer))
    method = getattr(client, name)
    hints = get_type_hints(method)
    result = method(**{part: example(hints[part]) for part in inspect.signature(method).parameters})
    if isinstance(result, Iterator):
        assert list(result) == []
    return requests[-1]


def operation_of(request: httpx.Request, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the operation of the document that the request addresses. Literal paths win over parameters."""
    found = [
        (path.count("{"), methods[request.method.lower()])
        for path, methods in document["paths"].items()
        if request.method.lower() in methods
        and re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)), request.url.path)
    ]
    assert found, f"{request.method} {request.url.path} is not in the document"
    return dict(min(found, key=lambda pair: pair[0])[1])


def arguments_of(operation: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of the operation's arguments: parameters outside the path, and keys of the body."""
    parameters = [part for part in operation.get("parameters", []) if part["in"] != "path"]
    arguments = {part["name"]: part["schema"] for part in parameters if part["name"] not in BY_TRANSPORT}
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        arguments |= resolved(content["application/json"]["schema"], document).get("properties", {})
    return arguments


@pytest.mark.parametrize("name", METHODS)
def test_a_method_passes_each_argument_of_its_operation(name: str, document: dict[str, Any]) -> None:
    request = sent_by(name)
    sent = set(request.url.params)
    if request.content:
        sent |= set(json.loads(request.content))
    arguments = arguments_of(operation_of(request, document), document)
    assert sent == set(arguments)
    hints = get_type_hints(getattr(Commonplace, name))
    for argument, schema in arguments.items():
        if argument in hints:
            assert differences(hints[argument], schema, document, argument) == []


@pytest.mark.parametrize("name", METHODS)
def test_a_method_returns_what_its_operation_answers(name: str, document: dict[str, Any]) -> None:
    operation = operation_of(sent_by(name), document)
    returned = get_type_hints(getattr(Commonplace, name))["return"]
    success = next(part for status, part in operation["responses"].items() if status.startswith("2"))
    schema = resolved(success["content"]["application/json"]["schema"], document)
    if get_origin(returned) is Iterator:
        (returned,) = get_args(returned)
        schema = schema["properties"]["items"]["items"]
    # A preview and a result have one address each in this client, and one schema for both in the document.
    options = [differences(returned, option, document, name) for option in schema.get("anyOf", [schema])]
    assert min(options, key=len) == []


def test_operations_without_a_method_are_known(document: dict[str, Any]) -> None:
    all_operations = {
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if COVERED_TAGS & set(operation["tags"])
    }
    covered = {operation_of(sent_by(name), document)["operationId"] for name in METHODS}
    assert all_operations - covered == set().union(*LEFT_OUT.values())


def differences(kind: Any, schema: Mapping[str, Any], document: Mapping[str, Any], place: str) -> list[str]:
    """Return where a Python type differs from a JSON schema."""
    schema = resolved(schema, document)
    options = [part for part in schema.get("anyOf", []) if part.get("type") != "null"]
    if options and len(options) < len(schema["anyOf"]):
        schema = resolved(options[0], document)
    if get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
        if all(get_origin(part) is Literal for part in parts):
            kind = Literal[tuple(value for part in parts for value in get_args(part))]
        else:
            kind = str if str in parts else parts[0]
    if kind is Any or not schema:
        return []
    if is_typeddict(kind):
        return _typed_dict_differences(kind, schema, document, place)
    if get_origin(kind) is Literal:
        return [] if set(get_args(kind)) == set(schema.get("enum", ())) - {None} else [f"{place}: {schema.get('enum')}"]
    if get_origin(kind) in (Sequence, list):
        if schema.get("type") == "string":  # a parameter that is repeated
            return [f"{place}: not a list"]
        return differences(get_args(kind)[0], schema.get("items", {}), document, f"{place}[]")
    names = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", Mapping: "object"}
    wanted = names[get_origin(kind) or kind]
    return [] if wanted in _listed(schema.get("type")) else [f"{place}: {wanted} is {schema.get('type')}"]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _typed_dict_differences(kind: Any, schema: Mapping[str, Any], document: Mapping[str, Any], place: str) -> list[str]:
    hints = get_type_hints(kind)
    ours = set(hints) - set(get_type_hints(types.Versioned))
    properties = schema.get("properties", {})
    found = [f"{place}.{name} is on one side only" for name in ours ^ set(properties)]
    required = _required(kind) & ours
    found += [f"{place}.{name}: required on one side" for name in required ^ set(schema.get("required", []))]
    for name in ours & set(properties):
        found += differences(hints[name], properties[name], document, f"{place}.{name}")
    return found


def _required(kind: Any) -> set[str]:
    # With postponed annotations, `__required_keys__` contains the keys that are marked as NotRequired.
    hints = get_type_hints(kind, include_extras=True)
    return {name for name in kind.__required_keys__ if get_origin(hints[name]) is not NotRequired}
