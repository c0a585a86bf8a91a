"""The product's MCP server with the tools, prompts and resources that the official conformance suite calls.

The suite sends no token, so each request gets the one in CONFORMANCE_TOKEN. Everything else is the product: admission,
authentication, the selection of tools, paging and errors.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from mcp.types import Prompt as OfferedPrompt
from mcp.types import Tool as OfferedTool
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from foundation.people.caller import Caller
from foundation.tools.declaration import Tool
from memory_project.accounts.recognition import owner_of
from memory_project.mcp.http_app import http_app, mcp_routes
from memory_project.mcp.server import CommonplaceServer
from memory_project.mcp.tool_list import ToolList, enabled_tools
from memory_project.web.admission import protected

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0").decode()
PAUSE_S = 0.05  # as the suite's descriptions of the tools say
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def embedded(uri: str, mime_type: str, value: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=value))


IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")
fixtures: MCPServer[Any] = MCPServer("conformance fixtures")


@fixtures.tool(structured_output=False)
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@fixtures.tool(structured_output=False)
def test_image_content() -> list[ContentBlock]:
    """Return an image."""
    return [IMAGE]


@fixtures.tool(structured_output=False)
def test_audio_content() -> list[ContentBlock]:
    """Return a sound."""
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@fixtures.tool(structured_output=False)
def test_embedded_resource() -> list[ContentBlock]:
    """Return an embedded resource."""
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@fixtures.tool(structured_output=False)
def test_multiple_content_types() -> list[ContentBlock]:
    """Return a text, an image and a resource."""
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), IMAGE, resource]


@fixtures.tool(structured_output=False)
async def test_tool_with_logging(context: Context[Any, Any]) -> str:
    """Send three log messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(message)
        await anyio.sleep(PAUSE_S)
    return "Tool with logging executed"


@fixtures.tool(structured_output=False)
async def test_tool_with_progress(context: Context[Any, Any]) -> str:
    """Report progress three times."""
    for completed in (0, 50, 100):
        await context.report_progress(completed, 100)
        await anyio.sleep(PAUSE_S)
    return "Tool with progress executed"


@fixtures.tool(structured_output=False)
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@fixtures.tool(structured_output=False)
async def test_sampling(prompt: str, context: Context[Any, Any]) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=text(prompt))
    result = await context.session.create_message(messages=[message], max_tokens=100)
    return f"LLM response: {result.content}"


async def elicited(context: Context[Any, Any], message: str, properties: dict[str, Any], required: list[str]) -> str:
    schema = {"type": "object", "properties": properties, "required": required}
    result = await context.session.elicit_form(message, schema)
    return f"action={result.action}, content={result.content}"


@fixtures.tool(structured_output=False)
async def test_elicitation(message: str, context: Context[Any, Any]) -> str:
    """Ask the user for a name and an address."""
    properties = {name: {"type": "string", "description": name} for name in ("username", "email")}
    return f"User response: {await elicited(context, message, properties, list(properties))}"


@fixtures.tool(structured_output=False)
async def test_elicitation_sep1034_defaults(context: Context[Any, Any]) -> str:
    """Ask the user with default values."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {await elicited(context, 'Defaults', properties, [])}"


@fixtures.tool(structured_output=False)
async def test_elicitation_sep1330_enums(context: Context[Any, Any]) -> str:
    """Ask the user to choose."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {await elicited(context, 'Choices', properties, [])}"


@fixtures.prompt()
def test_simple_prompt() -> str:
    """Return a text."""
    return "This is a simple prompt for testing."


@fixtures.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return a text with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@fixtures.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """Return an embedded resource."""
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage(text("Please process the embedded resource above."))]


@fixtures.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """Return an image."""
    return [UserMessage(IMAGE), UserMessage(text("Please analyze the image above."))]


@fixtures.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@fixtures.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@fixtures.resource("test://template/{id}/data", mime_type="application/json")
def from_template(id: str) -> str:
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


class ConformanceToolList(ToolList):
    def own(self, caller: Caller) -> dict[str, Tool]:
        names = [*(tool.name for tool in fixtures._tool_manager.list_tools()), SCHEMA]
        return super().own(caller) | dict.fromkeys(names, self.offered["memory_recall"])

    def _entry(self, definition: dict[str, Any], tool: Tool) -> dict[str, Any]:
        return super()._entry(definition, tool) if definition["name"] == tool.name else definition


class ConformanceServer(CommonplaceServer):
    """Offers the fixtures beside the product's own tools, prompts and resources."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tool_list = ConformanceToolList(self.offered, self.gateway)

    async def list_tools(self) -> list[OfferedTool]:
        schema = OfferedTool(
            name=SCHEMA, description="Tool with JSON Schema 2020-12 features", input_schema=JSON_SCHEMA
        )
        return [*await super().list_tools(), *await fixtures.list_tools(), schema]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        if fixtures._tool_manager.get_tool(name) is None:
            return await super().call_tool(name, arguments, context)
        result: Any = await fixtures.call_tool(name, arguments, context)
        return result if isinstance(result, CallToolResult) else CallToolResult(content=list(result))

    async def list_prompts(self) -> list[OfferedPrompt]:
        return [*await super().list_prompts(), *await fixtures.list_prompts()]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        if fixtures._prompt_manager.get_prompt(name):
            return await fixtures.get_prompt(name, arguments, context)
        return await super().get_prompt(name, arguments, context)

    async def read_resource(
        self, uri: Any, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        if str(uri).startswith("test://"):
            return await fixtures.read_resource(uri, context)
        return await super().read_resource(uri, context)


SCHEMA = "json_schema_2020_12_tool"


class WithToken:
    """ASGI middleware that adds the token in CONFORMANCE_TOKEN to each request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            header = (b"authorization", f"Bearer {os.environ['CONFORMANCE_TOKEN']}".encode())
            scope = {**scope, "headers": [*scope["headers"], header]}
        await self.app(scope, receive, send)


def build_application(toolsets: Sequence[str] = ("all",)) -> ASGIApp:
    server = ConformanceServer(enabled_tools(toolsets), None)
    routes = mcp_routes(http_app(server))
    return WithToken(
        protected(Starlette(routes=routes, lifespan=lambda _: server.session_manager.run()), owner_of=owner_of)
    )
