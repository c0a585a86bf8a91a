"""The command line of the MCP Inspector, which makes one connection for each call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = Path(os.environ["NODE_FOLDER"]) / "node_modules" / ".bin" / "mcp-inspector"


def inspect(plan: dict[str, Any], config: str, *arguments: str) -> dict[str, Any]:
    command = ["node", str(PROGRAM), "--cli"]
    if plan["transport"] == "http":  # headers of a configuration file are not sent
        command += [plan["url"], "--transport", "http", "--header", f"Authorization: Bearer {plan['token']}"]
    else:
        command += ["--config", config, "--server", "commonplace"]
    process = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=plan.get("cwd"))
    if process.returncode:
        sys.exit(process.stderr or process.stdout)
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


def call(plan: dict[str, Any], config: str, step: dict[str, Any]) -> dict[str, Any]:
    arguments = [f"{name}={value}" for name, value in step["arguments"].items()]
    options = [part for argument in arguments for part in ("--tool-arg", argument)]
    result = inspect(plan, config, "--method", "tools/call", "--tool-name", step["tool"], *options)
    text = "\n".join(block.get("text", "") for block in result["content"])
    return {"text": text, "is_error": bool(result.get("isError"))}


def main(plan: dict[str, Any]) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        if plan["transport"] == "stdio":
            command, *arguments = plan["command"]
            server = {"type": "stdio", "command": command, "args": arguments, "env": plan["env"]}
            json.dump({"mcpServers": {"commonplace": server}}, config)
            config.flush()
        tools = inspect(plan, config.name, "--method", "tools/list")["tools"]
        results = [call(plan, config.name, step) for step in plan["calls"]]
    return {"tools": [tool["name"] for tool in tools], "results": results}


print(json.dumps(main(json.load(sys.stdin))))
