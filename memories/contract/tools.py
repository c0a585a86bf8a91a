"""MCP tools as this house declares them: functions that take the caller and an operation, and answer a shape.

A tool does one operation, or several that a first argument tells apart. This module knows no server.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_origin, get_type_hints
from uuid import UUID

from django.apps import apps
from django.utils.module_loading import import_string
from pydantic import TypeAdapter

from memories.contract import schemas
from memories.contract.errors import Forbidden, Invalid, check_choice
from memories.contract.operations import Operation
from memories.identity.caller import Caller

Shape = TypeVar("Shape", bound=Mapping[str, Any])
Handler = Callable[["Caller", Any], Any]


@dataclass(frozen=True)
class ToolResponse(Generic[Shape]):
    """A structured answer with a text of its own, marks for the client's context, or the word that it failed. Of one
    that is `unsigned` the audit keeps that it was given, and not to whom; one that is `whole` has no budget."""

    data: Shape
    text: str = ""
    context: Mapping[str, Any] | None = None
    is_error: bool = False
    unsigned: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Hints:
    """MCP's ToolAnnotations."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True)
class Tool:
    """`choices` maps what the argument `chooser` says to what is done then; without chooser, an argument that is
    there chooses the entry of its name, and the entry "" is done otherwise."""

    name: str
    toolset: str
    title: str
    description: str
    choices: Mapping[str, Handler]
    selector: str = ""
    hints: Hints = field(default_factory=Hints)
    needs_choice: bool = False  # without one the call is an error, and no question about what there is to choose
    repeats_choice: bool = False  # the answer says which choice it is of
    is_available: Callable[[Caller], bool] | None = None  # whether it is worth offering to this caller
    check_permission: Callable[[Caller], None] | None = None  # raises Forbidden for who may not use it at all
    aliases: Sequence[str] = ()  # under which it is called too, and not offered

    def __call__(self, caller: Caller, choice: str = "", /, **arguments: Any) -> Any:
        """Carries the call out. Raises Invalid for an argument that is wrong or not taken."""
        values = {name: value for name, value in arguments.items() if value is not None and value != ""}
        if self.selector:
            choice = choice or str(values.pop(self.selector, ""))
            if not choice and not self.needs_choice:
                return {f"{self.selector}s": self.usage(), "message": f"name a {self.selector}"}
            if not choice:
                raise Invalid("is missing", field=self.selector, allowed=", ".join(self.choices))
            check_choice(self.selector, choice, self.choices)
            if self.check_permission:
                self.check_permission(caller)
        else:
            choice = next((name for name in self.choices if name in values), "")
        operation = self.operation(choice)
        values = operation.rename(values)
        self._refuse_what_is_not_taken(choice, operation, values)
        properties = operation.input_schema().get("properties", {})
        parsed = {name: _parsed(value, properties.get(name, {})) for name, value in values.items()}
        answer = self.choices[choice](caller, operation.read(parsed))
        return {self.selector: choice, **answer} if self.repeats_choice else answer

    def is_listed_for(self, caller: Caller) -> bool:
        """Whether it is worth the context that offering it costs: the caller may use it, and it has something to work
        on."""
        try:
            if self.check_permission:
                self.check_permission(caller)
        except Forbidden:
            return False
        return self.is_available is None or self.is_available(caller)

    def operation(self, choice: str) -> type[Operation]:
        _, operation = signature_of(self.choices[choice])
        return operation

    def _refuse_what_is_not_taken(self, choice: str, operation: type[Operation], values: Mapping[str, Any]) -> None:
        """An argument that would not be looked at is an error: it was meant to do something."""
        takes = operation.input_schema().get("properties", {})
        unknown = sorted(set(values) - set(takes))
        if not unknown:
            return
        allowed = ", ".join(takes) or "no argument"
        if unknown[0] not in self.input_schema["properties"]:
            everything = ", ".join(self.input_schema["properties"])
            raise Invalid("is not an argument of this tool", field=unknown[0], allowed=everything)
        if choice:
            fault = f"is not taken by {self.selector} {choice}" if self.selector else f"is not taken with {choice}"
            raise Invalid(fault, field=unknown[0], allowed=allowed)
        raise Invalid("is not taken here", field=unknown[0], allowed=allowed)

    @functools.cached_property
    def input_schema(self) -> schemas.Schema:
        """One flat object: the arguments of every operation, each saying whose it is."""
        parts = {choice: self.operation(choice).input_schema() for choice in self.choices}
        if len(parts) == 1:
            (only,) = parts.values()
            return dict(schemas.public(only))
        groups = schemas.taken_together(parts) if self.selector else {}
        properties = schemas.flat(parts, groups)
        required = [name for name in properties if all(name in part.get("required", []) for part in parts.values())]
        if self.selector:
            properties = {self.selector: self._chooser_schema(groups), **properties}
            required = [*([self.selector] if self.needs_choice else []), *required]
        schema = {"type": "object", "properties": properties}
        return dict(schemas.public({**schema, "required": required} if required else schema))

    def _chooser_schema(self, groups: Mapping[str, Sequence[str]]) -> schemas.Schema:
        sentences = [f"For {choices}: {', '.join(names)}." for choices, names in groups.items()]
        if not self.needs_choice:
            sentences.insert(0, "Without it: what each takes.")
        description = {"description": " ".join(sentences)} if sentences else {}
        return {"type": "string", "enum": list(self.choices), **description}

    @functools.cached_property
    def output_schema(self) -> schemas.Schema:
        """The keys of every answer; required are those that all have, and for each kind of answer its own."""
        shapes = dict.fromkeys(
            kind for handler in self.choices.values() for kind in shapes_of(signature_of(handler)[0])
        )
        parts = [TypeAdapter(kind).json_schema(mode="serialization") for kind in shapes]
        properties = {name: value for part in parts for name, value in part.get("properties", {}).items()}
        definitions = {name: value for part in parts for name, value in part.get("$defs", {}).items()}
        lists = [part.get("required", []) for part in parts]
        required = [name for name in properties if all(name in keys for keys in lists)]
        schema: schemas.Schema = {"type": "object", "properties": properties, "required": required}
        if self.repeats_choice:
            schema["properties"] = {self.selector: {"type": "string"}, **schema["properties"]}
            lists = [[self.selector, *keys] for keys in lists]
        if self.selector and not self.needs_choice:
            schema["properties"] |= {f"{self.selector}s": {"type": "object"}, "message": {"type": "string"}}
            lists.append([f"{self.selector}s", "message"])
            schema["required"] = []
        kinds = list(dict.fromkeys(tuple(sorted(keys)) for keys in lists))
        if len(kinds) > 1:
            schema["anyOf"] = [{"required": list(kind)} for kind in kinds]
        return {**schema, "$defs": definitions} if definitions else schema

    def usage(self) -> dict[str, str]:
        """Each choice: what it does, and what it takes."""
        return {choice: usage_of(self.operation(choice)) for choice in self.choices}


def usage_of(operation: type[Operation]) -> str:
    schema = operation.input_schema()
    required = schema.get("required", [])
    optional = [name for name in schema.get("properties", {}) if name not in required]
    takes = ", ".join(required) + (" and " if required and optional else "")
    takes += f"optional {', '.join(optional)}" if optional else ""
    return operation.short_description() + (f": {takes}" if takes else "")


@functools.cache
def signature_of(handler: Handler) -> tuple[Any, type[Operation]]:
    """The shape that a handler returns and the operation it takes, from its annotations."""
    function = inspect.unwrap(handler)
    hints = get_type_hints(function, include_extras=True)
    answer = hints["return"]
    second = list(inspect.signature(function).parameters)[1]
    return answer, hints[second]


def shapes_of(annotation: Any) -> list[Any]:
    """The shapes that an annotation stands for: of `Answer[A] | B`, A and B."""
    if get_origin(annotation) in (UnionType, Union):
        return [shape for part in annotation.__args__ for shape in shapes_of(part)]
    if get_origin(annotation) is ToolResponse:
        return shapes_of(annotation.__args__[0])
    return [annotation]


def _parsed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Some clients send lists and objects as JSON in a text."""
    if not isinstance(value, str) or schema.get("type") == "string" or "enum" in schema:
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, list | dict) else value


def tool(*, toolset: str, title: str, hints: Hints | None = None) -> Callable[[Handler], Tool]:
    """The function becomes a tool of its own name, with its docstring."""

    def declare(handler: Handler) -> Tool:
        name, text = handler.__name__, inspect.cleandoc(handler.__doc__ or "")
        return Tool(name, toolset, title, text, {"": handler}, hints=hints or Hints())

    return declare


@dataclass(frozen=True)
class Call:
    """A call of a tool that went well."""

    tool: str
    arguments: Mapping[str, Any]
    data: Mapping[str, Any]  # the answer's


@dataclass(frozen=True)
class ContextBlock:
    """What goes beside an answer in a text block of its own; `record_ids` are the memories that it quotes."""

    data: Mapping[str, Any]
    record_ids: Sequence[UUID] = ()


def toolsets() -> dict[str, str]:
    """Return the dotted path of each toolset's list of tools, by the toolset's name.

    An app declares them as `toolsets` of its AppConfig; they are imported only when a server offers them.
    """
    return {
        name: path
        for config in reversed(list(apps.get_app_configs()))
        for name, path in getattr(config, "toolsets", {}).items()
    }


def load_toolset(name: str) -> Sequence[Tool]:
    tools: Sequence[Tool] = import_string(toolsets()[name])
    return tools
