"""An MCP server for tests of the gateway: `python -m tests.upstream FOLDER [http PORT]`.

It reads `description` in FOLDER at each list of its tools, so that a test can change what it offers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

FOLDER = Path(sys.argv[1])


class ChangingServer(MCPServer[Any]):
    async def list_tools(self) -> list[Any]:
        tools = await super().list_tools()
        file = FOLDER / "description"
        if file.exists():
            tools[0] = tools[0].model_copy(update={"description": file.read_text()})
        return tools


server = ChangingServer("warehouse", version="1.0")


@server.tool(annotations=ToolAnnotations(read_only_hint=True), title="Run a query")
def run_query(sql: str) -> dict[str, Any]:
    """Run a statement and return its rows."""
    count = FOLDER / "calls"
    count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
    return {"rows": [{"sql": sql, "pid": os.getpid()}]}


@server.tool()
async def work(steps: int, context: Context, pause_s: float = 0.15) -> str:
    """Work in steps and report progress."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
        await anyio.sleep(pause_s)
    return "done"


@server.tool()
async def wait(seconds: float) -> str:
    """Wait."""
    (FOLDER / "waiting").touch()
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        (FOLDER / "cancelled").touch()
        raise
    return "waited"


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
def flood(megabytes: int) -> str:
    """Return a long text."""
    return "x" * (megabytes * 1_000_000)


class Choice(BaseModel):
    table: str


@server.tool()
async def ask(context: Context) -> str:
    """Ask the person which table is meant."""
    answer = await context.elicit("Which table?", Choice)
    return f"{answer.action} {answer.data.table if answer.action == 'accept' else ''}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no such table")


@server.resource("demo://tables")
def tables() -> str:
    return "orders, customers"


@server.resource("demo://tables/{name}")
def table(name: str) -> str:
    return f"the table {name}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", port=int(sys.argv[3]))
    else:
        server.run("stdio")
