"""@tool marks a typed function as an MCP tool. This module knows no server; the server reads TOOLS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Tool:
    """The function takes the caller first; the rest of its signature is the tool's schema."""

    function: Callable[..., Any]
    name: str
    toolset: str
    title: str
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    aliases: dict[str, str]  # other names of arguments, for clients of older systems
    command: str  # the argument that chooses what is done, where there is one
    takes: Mapping[str, frozenset[str]]  # each command with the arguments that it takes


TOOLS: dict[str, Tool] = {}
Shape = TypeVar("Shape", bound=Mapping[str, Any])


class Reply(dict[str, Any]):
    """A structured answer with a text of its own, marks for the client's context, or the word that it failed."""

    text: str = ""
    context: Mapping[str, Any] | None = None
    is_error: bool = False


def reply(shape: Shape, *, text: str, context: Mapping[str, Any] | None = None, is_error: bool = False) -> Shape:
    """The shape as it is advertised, told in `text` instead of as JSON. `context` goes to `_meta.context`."""
    answer = Reply(shape)
    answer.text, answer.context, answer.is_error = text, context, is_error
    return cast(Shape, answer)


def tool(
    *,
    toolset: str,
    title: str,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    open_world: bool = False,
    aliases: dict[str, str] | None = None,
    command: str = "",
    takes: Mapping[str, frozenset[str]] | None = None,
) -> Callable[[Function], Function]:
    """Registers the function under its own name. The hints are those of MCP's ToolAnnotations."""

    def register(function: Function) -> Function:
        name = function.__name__
        TOOLS[name] = Tool(
            function=function,
            name=name,
            toolset=toolset,
            title=title,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent,
            open_world=open_world,
            aliases=aliases or {},
            command=command,
            takes=takes or {},
        )
        return function

    return register
