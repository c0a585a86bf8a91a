"""Clients of other authors against a running installation, over stdio and HTTP."""

from __future__ import annotations

import pytest

from tests.interop.conftest import CLIENTS, Site
from tests.interop.registry import ForeignClient

CASES = [(name, transport) for name, client in CLIENTS.items() for transport in client.transports]
DIFFERENT_BY_CASE = "The harvest of {name} over {transport} is counted in crates."


@pytest.mark.parametrize(("installed", "transport"), CASES, indirect=["installed"])
def test_a_client_remembers_recalls_and_understands_an_error(
    installed: ForeignClient, transport: str, site: Site
) -> None:
    text = DIFFERENT_BY_CASE.format(name=installed.name, transport=transport)
    calls = [
        {"tool": "memory_manage", "arguments": {"command": "remember", "content": text}},
        {"tool": "memory_recall", "arguments": {"query": text, "limit": 5}},
        {"tool": "memory_manage", "arguments": {"command": "remember", "content": text, "colour": "blue"}},
    ]
    answer = installed.run(installed.driver, site.plan(transport, calls))
    assert {"memory_manage", "memory_recall", "capture_insight"} <= set(answer["tools"])
    remembered, recalled, refused = answer["results"]
    assert [remembered["is_error"], recalled["is_error"], refused["is_error"]] == [False, False, True], answer
    assert "remembered" in remembered["text"]
    assert text in recalled["text"]
    assert "colour: is not an argument of this tool" in refused["text"]
    assert "content" in refused["text"]  # the arguments that are allowed
