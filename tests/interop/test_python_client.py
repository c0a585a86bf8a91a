"""The Python client's adapters in the frameworks that they are for, against a running installation."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.interop.conftest import Site
from tests.interop.registry import ForeignClient


def ran(installed: ForeignClient, site: Site, run: str) -> Any:
    return installed.run(installed.driver, {"url": site.address, "token": site.token, "run": run})


@pytest.mark.parametrize("installed", ["adapter-langgraph"], indirect=True)
def test_the_store_keeps_the_contract_of_langgraph(installed: ForeignClient, site: Site) -> None:
    run = f"run-{uuid4().hex[:8]}"
    assert ran(installed, site, run) == {
        "value": True,
        "replaced": {"text": "Maya lives in Porto.", "weight": 6},
        "missing": None,
        "prefix": ["city", "copy", "nuts"],
        "query": [["noor"]],
        "scored": True,
        "filter": ["city", "city"],
        "page": 1,
        "namespaces": [[run, "maya"], [run, "maya", "food"], [run, "noor"]],
        "depth": [[run, "noor"]],
        "suffix": [[run, "maya", "food"]],
        "deleted": None,
        "again": True,
        "refusals": ["NotImplementedError", "NotImplementedError", "Invalid", "ValueError", "ValueError"],
        "graph": "Ana drinks green tea.",
        "batch": [{"n": 1}, 1],
        "rewritten": {"text": "Noor has moved to Bergen."},
    }


@pytest.mark.parametrize("installed", ["adapter-llama-index"], indirect=True)
def test_the_block_shows_what_left_the_short_term_memory(installed: ForeignClient, site: Site) -> None:
    run = f"run-{uuid4().hex[:8]}"
    answer = ran(installed, site, run)
    said = " ".join([f"My team in {run} calls the bottling line Hydra."] * 2)
    assert answer["stored"] == [["ai", "I will call it Hydra."], ["human", said]]
    assert said in answer["shown"]
    assert f"The {run} warehouse counts crates" in answer["shown"]
    assert (answer["empty"], answer["parts"]) == ("", [2, True])


@pytest.mark.parametrize("installed", ["adapter-pydantic-ai"], indirect=True)
def test_the_toolset_serves_an_agent_and_explains_its_errors(installed: ForeignClient, site: Site) -> None:
    answer = ran(installed, site, f"run-{uuid4().hex[:8]}")
    assert answer["tools"] == ["capture_insight", "context_for", "recall", "remember"]
    refused, remembered, recalled, captured, context = [part["content"] for part in answer["answers"]]
    assert "allowed: 10 to 4000 characters" in refused
    assert "'existing': False" in remembered
    assert answer["text"] in recalled
    assert "'status': 'pending'" in captured
    assert "'memories': []" in context
