"""Parallel calls of every tool: an agent sends four at once, and each gets the right response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from mcp import Client

from foundation.people.caller import Caller
from memory_project.mcp.server import build_server
from tests.analysis.conftest import api, warehouse
from tests.fake_rest_api import Api
from tests.fake_s3 import serving
from tests.knowledge.conftest import MART, ORDERS
from tests.memories.conversation.fake_tavily import Tavily, tavily

__all__ = ["api", "tavily", "warehouse"]

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE = 4
# A call in each line: the tool, its arguments and a part of the response, where {n} is the number of the parallel call;
# and which ids of the response later lines use, by their names.
LINES = Path(__file__).with_name("parallel_calls.jsonl").read_text().splitlines()


def filled(line: str, values: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        line = line.replace("{" + name + "}", str(value))
    return dict(json.loads(line))


def at_path(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


def problem_of(call: dict[str, Any], result: Any) -> str:
    """Return the call with its response, or "" if the response is right."""
    response = f"{result.content[0].text}\n{json.dumps(result.structured_content, ensure_ascii=False)}"
    if not result.is_error and call["expected"] in response:
        return ""
    return f"{call['tool']} {call['arguments']}: {response[:500]}"


async def problems_of_all(clients: Mapping[str, Client]) -> list[str]:
    ids: list[dict[str, Any]] = [{"n": n, "orders": ORDERS, "mart": MART} for n in range(AT_ONCE)]
    problems = []
    for line in LINES:
        calls = [filled(line, values) for values in ids]
        client = clients[calls[0].get("as", "cora")]
        results = await asyncio.gather(*(client.call_tool(call["tool"], call["arguments"]) for call in calls))
        problems += [problem_of(call, result) for call, result in zip(calls, results, strict=True)]
        for values, call, result in zip(ids, calls, results, strict=True):
            if not result.is_error:
                values |= {
                    name: at_path(result.structured_content, path) for name, path in call.get("save", {}).items()
                }
    return [problem for problem in problems if problem]


def test_four_parallel_calls_of_every_tool_are_answered(
    cora: Caller, bob: Caller, small_catalog: None, api: Api, warehouse: None, tavily: type[Tavily]
) -> None:
    tavily.response = (200, {"results": []})
    offered = build_server(toolsets=["all"], identify=lambda _: cora).offered
    assert {json.loads(line)["tool"] for line in LINES} == set(offered)

    async def main() -> list[str]:
        async with (
            Client(build_server(toolsets=["all"], identify=lambda _: cora)) as cora_client,
            Client(build_server(toolsets=["all"], identify=lambda _: bob)) as bob_client,
        ):
            return await problems_of_all({"cora": cora_client, "bob": bob_client})

    try:
        with serving({f"sales/{n}.csv": b"id\n70%d\n" % n for n in range(AT_ONCE)}):
            assert asyncio.run(main()) == []
    finally:
        connections.close_all()
