"""Declarations of MCP tools, independent of any server.

A tool has one or more functions. Each takes the caller and an operation, and returns a response. If a tool has several
functions, an argument of the call selects one of them.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any, Generic, Protocol, TypeVar, Union, get_origin, get_type_hints
from uuid import UUID

from django.utils.module_loading import import_string
from pydantic import TypeAdapter

from foundation.operations import schemas
from foundation.operations.errors import Forbidden, Invalid, check_choice
from foundation.operations.near_misses import nearest
from foundation.operations.operation import Operation
from foundation.operations.toolsets import toolsets
from foundation.people.caller import Caller
from foundation.tools.confirmation import ConfirmationQuestion

Shape = TypeVar("Shape", bound=Mapping[str, Any])
Handler = Callable[["Caller", Any], Any]
Asks = Callable[["Caller", Any], ConfirmationQuestion | None]  # returns None if the operation needs no confirmation


@dataclass(frozen=True)
class ToolResponse(Generic[Shape]):
    """The structured response of a tool, with options for its delivery."""

    data: Shape
    text: str = ""  # text for the client; if empty, the client gets `data` as JSON text
    context: Mapping[str, Any] | None = None  # sent to the client as `_meta.context`
    is_error: bool = False
    unsigned: bool = False  # if true, the audit log records neither the caller nor the arguments nor the data
    whole: bool = False  # if true, the response is not shortened to the response size limit


def longest_list(answer: Any) -> int:
    """Return the number of entries of the longest list in an answer."""
    data = answer.data if isinstance(answer, ToolResponse) else answer
    values = data.values() if isinstance(data, Mapping) else ()
    return max((len(value) for value in values if isinstance(value, list)), default=0)


def with_note(answer: Any, note: str) -> Any:
    """Add a sentence to the answer's `note`, and to its text if it has one."""
    if not note:
        return answer
    if isinstance(answer, ToolResponse):
        text = f"{answer.text}\n{note}" if answer.text else ""
        return replace(answer, data=with_note(answer.data, note), text=text)
    if not isinstance(answer, Mapping):
        return answer
    return {**answer, "note": "; ".join(filter(None, [answer.get("note"), note]))}


@dataclass(frozen=True)
class Hints:
    """MCP's ToolAnnotations."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True)
class Tool:
    """A tool that performs one of its `choices`.

    If the tool has a `selector`, the value of that argument names the choice. Otherwise, passing an argument with the
    name of a choice selects that choice, and the choice "" is the default.
    """

    name: str
    toolset: str
    title: str
    description: str
    choices: Mapping[str, Handler]
    selector: str = ""
    hints: Hints = field(default_factory=Hints)
    needs_choice: bool = False  # if false, a call without the selector returns the choices; if true, it is an error
    repeats_choice: bool = False  # the response names the choice
    is_available: Callable[[Caller], bool] | None = None  # returns False if the tool has no data to work on
    check_permission: Callable[[Caller], None] | None = None  # raises Forbidden if the caller may not use the tool
    reading: Sequence[str] = ()  # the choices that change nothing, if the tool has other choices, too
    reads_for: Sequence[str] = ()  # toolsets that also offer this tool when a client asks for read-only access
    further_toolsets: Sequence[str] = ()  # other toolsets that offer this tool
    other_tools: Mapping[str, str] = field(default_factory=dict)  # choice that another tool has → that tool
    aliases: Sequence[str] = ()  # further names under which clients may call the tool; not listed
    quotes: bool = True  # whether responses may contain texts by others: people, agents, catalogs or upstream systems
    confirms: Mapping[str, Asks] = field(default_factory=dict)  # choice → what to ask the person before it is performed
    rare: Sequence[str] = ()  # arguments that a call takes, and that clients get by name only

    def __call__(self, caller: Caller, choice: str = "", /, **arguments: Any) -> Any:
        """Perform the call. Raise Invalid if an argument is wrong or not accepted."""
        selected = self._selected(caller, choice, arguments)
        if selected is None:
            return self._help(self.choices_for(caller))
        choice, operation = selected
        answer = self.choices[choice](caller, operation)
        answer = with_note(answer, operation.lowered(operation.rename(arguments), longest_list(answer)))
        return {self.selector: choice, **answer} if self.repeats_choice else answer

    def _help(self, choices: Sequence[str]) -> dict[str, Any]:
        properties = self.input_schema["properties"]
        rare = {name: schemas.description_of(properties[name]) for name in self.rare if name in properties}
        help_: dict[str, Any] = {f"{self.selector}s": self.usage(choices)}
        if rare:
            help_["arguments"] = rare
        return {**help_, "message": f"name a {self.selector}"}

    def question(self, caller: Caller, /, **arguments: Any) -> ConfirmationQuestion | None:
        """Return what to ask the person before this call, or None if the call needs no confirmation.

        Raises Invalid like the call itself.
        """
        selected = self._selected(caller, "", arguments)
        asks = self.confirms.get(selected[0]) if selected else None
        return asks(caller, selected[1]) if selected and asks else None

    def _selected(self, caller: Caller, choice: str, arguments: Mapping[str, Any]) -> tuple[str, Operation] | None:
        """Return the choice and its operation, or None if the call asks for the choices."""
        values = {name: value for name, value in arguments.items() if value is not None and value != ""}
        if self.selector:
            choices = self.choices_for(caller)
            choice = choice or str(values.pop(self.selector, ""))
            if not choice and not self.needs_choice and not values:
                return None
            if not choice:
                raise Invalid(self._missing(choices, values), field=self.selector, allowed=", ".join(choices))
            if choice in self.other_tools:
                problem = f"{choice!r} is no {self.selector} of this tool: use the tool {self.other_tools[choice]}"
                raise Invalid(problem, field=self.selector, allowed=", ".join(choices))
            if choice not in self.choices:
                check_choice(self.selector, choice, choices, never=self.confirms)
            if choice not in choices:
                raise Forbidden(f"this persona or connection may not {choice}", field=self.selector)
            if self.check_permission:
                self.check_permission(caller)
        else:
            choice = next((name for name in self.choices if name in values), "")
        operation = self.operation(choice)
        schema = operation.input_schema()
        values = self._without_empty(operation.rename(values), schema)
        self._reject_unaccepted(choice, operation, values)
        properties = schema.get("properties", {})
        parsed = {name: _parse_json(value, properties.get(name, {})) for name, value in values.items()}
        return choice, operation.read(schemas.without_absent(parsed, schema))

    def _missing(self, choices: Sequence[str], values: Mapping[str, Any]) -> str:
        """Return the problem of a call without a choice, with those that were probably meant.

        These are the choices that only read, or else the one whose required arguments are most of those given.
        """
        if not values:
            return "is missing"
        if other := next((name for name in SELECTORS if str(values.get(name, "")) in self.choices), ""):
            return f"is missing, so nothing was done: pass it as {self.selector}, not as {other}"
        fitting = [choice for choice in choices if choice not in self.confirms and self._takes(choice, values)]
        required = {choice: set(self.operation(choice).input_schema().get("required", [])) for choice in fitting}
        complete = [choice for choice in fitting if required[choice] <= set(values)]
        likely = [choice for choice in complete if choice in self.reading]
        if not likely and complete:
            most = max(len(required[choice]) for choice in complete)
            likely = [choice for choice in complete if len(required[choice]) == most]
            likely = likely if len(likely) == 1 else []
        guess = f": did you mean {' or '.join(likely[:3])}?" if likely else ""
        return f"is missing, so nothing was done{guess}"

    def _takes(self, choice: str, values: Mapping[str, Any]) -> bool:
        operation = self.operation(choice)
        return set(operation.rename(dict(values))) <= set(operation.input_schema().get("properties", {}))

    def choices_for(self, caller: Caller) -> list[str]:
        """Return the choices that the caller's persona and connection allow."""
        return [choice for choice in self.choices if caller.may_use(self.name, choice)]

    def only(self, choices: Sequence[str]) -> Tool:
        """Return the tool with these choices alone, for clients that may use no others."""
        only_reads = self.hints.read_only or set(choices) <= set(self.reading)
        return replace(
            self,
            choices={name: self.choices[name] for name in choices},
            hints=Hints(read_only=True, idempotent=True, open_world=self.hints.open_world)
            if only_reads
            else self.hints,
        )

    def writes(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call with these arguments may change anything."""
        return not self.hints.read_only and str(arguments.get(self.selector, "")) not in self.reading

    def is_listed_for(self, caller: Caller) -> bool:
        """Return whether the caller may use the tool and the tool has data to work on.

        Other tools are not listed, because each listed tool takes up the model's context.
        """
        try:
            if self.check_permission:
                self.check_permission(caller)
        except Forbidden:
            return False
        return self.is_available is None or self.is_available(caller)

    def operation(self, choice: str) -> type[Operation]:
        _, operation = signature_of(self.choices[choice])
        return operation

    def _without_empty(self, values: Mapping[str, Any], schema: schemas.Schema) -> dict[str, Any]:
        """Leave out empty lists and objects for arguments that the operation does not take, or takes only filled."""
        takes = schema.get("properties", {})
        required = schema.get("required", [])
        known = self.input_schema["properties"]
        return {
            name: value
            for name, value in values.items()
            if value not in ([], {})
            or name in required
            or name not in known
            or (name in takes and "minItems" not in takes[name])
        }

    def _reject_unaccepted(self, choice: str, operation: type[Operation], values: Mapping[str, Any]) -> None:
        """Raise Invalid for an argument that would be ignored, because the caller expects an effect from it."""
        takes = operation.input_schema().get("properties", {})
        unknown = sorted(set(values) - set(takes))
        if not unknown:
            return
        allowed = ", ".join(takes) or "no argument"
        everything = self.input_schema["properties"]
        guess = nearest(unknown[0], [name for name in (takes or everything) if name not in values])
        meant = f": did you mean {guess}?" if guess else ""
        if unknown[0] not in everything:
            raise Invalid(f"is not an argument of this tool{meant}", field=unknown[0], allowed=", ".join(everything))
        if choice:
            place = f"by {self.selector} {choice}" if self.selector else f"together with {choice}"
            takers = [each for each in self.choices if each != choice and self._takes(each, {unknown[0]: ""})]
            others = [each for each in takers if each not in self.confirms]
            if takers and not others:
                place += ", which does not need it"
            also = meant or (f" (but by {', '.join(others[:3])})" if self.selector and others else "")
            raise Invalid(f"is not accepted {place}{also}", field=unknown[0], allowed=allowed)
        raise Invalid("is not accepted here", field=unknown[0], allowed=allowed)

    @functools.cached_property
    def input_schema(self) -> schemas.Schema:
        """Return one flat schema with the arguments of all operations. Descriptions say which operations take them."""
        parts = {choice: self.operation(choice).input_schema() for choice in self.choices}
        if len(parts) == 1 and not self.selector:
            (only,) = parts.values()
            return schemas.for_models(only)
        groups = schemas.taken_together(parts) if self.selector else {}
        properties = schemas.flat(parts, groups)
        required = [name for name in properties if all(name in part.get("required", []) for part in parts.values())]
        if self.selector:
            properties = {self.selector: self._selector_schema(groups), **properties}
            required = [*([self.selector] if self.needs_choice else []), *required]
        schema = {"type": "object", "properties": properties}
        return schemas.for_models({**schema, "required": required} if required else schema)

    @functools.cached_property
    def listed_schema(self) -> schemas.Schema:
        """Return the input schema as clients get it: without the arguments that few calls need."""
        properties = {name: part for name, part in self.input_schema["properties"].items() if name not in self.rare}
        return {**self.input_schema, "properties": properties}

    @functools.cached_property
    def listed_description(self) -> str:
        rare = [name for name in self.rare if name in self.input_schema["properties"]]
        return f"{self.description} Also takes {', '.join(rare)}." if rare else self.description

    def _selector_schema(self, groups: Mapping[str, Sequence[str]]) -> schemas.Schema:
        """Describe each choice with the arguments that it needs, then the optional arguments of several choices."""
        parts = [_summary(choice, self.operation(choice)) for choice in self.choices]
        sentences = [f"{'; '.join(parts)}."]
        if self.needs_choice:  # otherwise a call without the selector returns the arguments of each choice
            sentences += [f"For {choices}: {', '.join(names)}." for choices, names in groups.items()]
        return {"type": "string", "enum": list(self.choices), "description": " ".join(sentences)}

    @functools.cached_property
    def output_schema(self) -> schemas.Schema:
        """Return a schema that covers every response of the tool.

        `required` holds the keys that all responses have. `anyOf` holds the required keys of each kind of response.
        """
        types = dict.fromkeys(kind for handler in self.choices.values() for kind in shapes_of(signature_of(handler)[0]))
        parts = [TypeAdapter(kind).json_schema(mode="serialization") for kind in types]
        properties = {name: value for part in parts for name, value in part.get("properties", {}).items()}
        definitions = {name: value for part in parts for name, value in part.get("$defs", {}).items()}
        required_keys = [part.get("required", []) for part in parts]
        required = [name for name in properties if all(name in keys for keys in required_keys)]
        schema: schemas.Schema = {"type": "object", "properties": properties, "required": required}
        if self.repeats_choice:
            schema["properties"] = {self.selector: {"type": "string"}, **schema["properties"]}
            required_keys = [[self.selector, *keys] for keys in required_keys]
        if self.selector and not self.needs_choice:
            schema["properties"] |= {f"{self.selector}s": {"type": "object"}, "message": {"type": "string"}}
            if self.rare:
                schema["properties"] |= {"arguments": {"type": "object"}}
            required_keys.append([f"{self.selector}s", "message"])
            schema["required"] = []
        kinds = list(dict.fromkeys(tuple(sorted(keys)) for keys in required_keys))
        if len(kinds) > 1:
            schema["anyOf"] = [{"required": list(kind)} for kind in kinds]
        return {**schema, "$defs": definitions} if definitions else schema

    def usage(self, choices: Sequence[str]) -> dict[str, str]:
        return {choice: usage_of(self.operation(choice)) for choice in choices}


SELECTORS = ("command", "action", "cmd", "mode", "operation", "act", "verb")  # what clients call the selector


def _summary(choice: str, operation: type[Operation]) -> str:
    """Return the choice with its required arguments, and its description unless this begins with the choice's name."""
    required = operation.input_schema().get("required", [])
    needs = f" ({', '.join(required)})" if required else ""
    text = operation.short_description()
    text = f"{text[:1].lower()}{text[1:]}"
    return f"{choice}{needs}" if text.startswith(f"{choice} ") else f"{choice}{needs}: {text}"


def usage_of(operation: type[Operation]) -> str:
    schema = operation.input_schema()
    required = schema.get("required", [])
    optional = [name for name in schema.get("properties", {}) if name not in required]
    takes = ", ".join(required) + (" and " if required and optional else "")
    takes += f"optional {', '.join(optional)}" if optional else ""
    return operation.short_description() + (f": {takes}" if takes else "")


@functools.cache
def signature_of(handler: Handler) -> tuple[Any, type[Operation]]:
    """Return a handler's return type and the class of its operation, from its annotations."""
    function = inspect.unwrap(handler)
    hints = get_type_hints(function, include_extras=True)
    second = list(inspect.signature(function).parameters)[1]
    return hints["return"], hints[second]


def shapes_of(annotation: Any) -> list[Any]:
    """Return the types of response data in an annotation: A and B for `ToolResponse[A] | B`."""
    if get_origin(annotation) in (UnionType, Union):
        return [shape for part in annotation.__args__ for shape in shapes_of(part)]
    if get_origin(annotation) is ToolResponse:
        return shapes_of(annotation.__args__[0])
    return [annotation]


def _parse_json(value: Any, schema: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or schema.get("type") == "string" or "enum" in schema:
        return value
    try:
        parsed = json.loads(value)  # some clients send lists and objects as JSON text
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, list | dict) else value


def tool(
    *,
    toolset: str,
    title: str,
    hints: Hints | None = None,
    quotes: bool = True,
    reads_for: Sequence[str] = (),
    further_toolsets: Sequence[str] = (),
    rare: Sequence[str] = (),
    asks: Asks | None = None,
) -> Callable[[Handler], Tool]:
    """Declare a function as a tool, with the function's name and docstring."""

    def declare(handler: Handler) -> Tool:
        name = handler.__name__
        text = inspect.cleandoc(handler.__doc__ or "")
        return Tool(
            name,
            toolset,
            title,
            text,
            {"": handler},
            hints=hints or Hints(),
            quotes=quotes,
            reads_for=reads_for,
            further_toolsets=further_toolsets,
            rare=rare,
            confirms={"": asks} if asks else {},
        )

    return declare


@dataclass(frozen=True)
class Call:
    """A tool call that succeeded or failed, as passed to hooks."""

    tool: str
    arguments: Mapping[str, Any]
    data: Mapping[str, Any]  # data of the response
    is_proxied: bool = False  # the tool belongs to another MCP server
    named: Sequence[str] | None = None  # entities at declared places; None: they have to be found in the texts
    platform: str = ""  # of the data sets that the call names; "" if it is not known
    dialect: str = ""  # of SQL in its arguments, by sqlglot's name; "" if it is not known


@dataclass(frozen=True)
class ContextBlock:
    """Context attached to a response as a separate text block. `record_ids` are the ids of the quoted memories."""

    data: Mapping[str, Any]
    record_ids: Sequence[UUID] = ()


class ContextLookup(Protocol):
    """Looks up context for the response to one call."""

    def begin(self, *, platform: str = "", dialect: str = "") -> None:
        """Look up what the arguments ask for, beside the call. The platform and dialect are those of its warehouse."""

    def finish(self, call: Call) -> ContextBlock | None:
        """Return the context for the call, which has its answer now."""


def load_toolset(name: str) -> Sequence[Tool]:
    return [tool for path in toolsets()[name] for tool in import_string(path)]
