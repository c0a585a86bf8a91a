"""The interface of the product, as files: a change of it stands in the diff, and a move shows none.

`RECORD=1 pytest tests/test_interface.py` writes them anew. Describe the change in CHANGELOG.md.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.urls import URLPattern, get_resolver
from drf_spectacular.generators import SchemaGenerator

from memory_project.mcp.server import ANTHROPIC, build_server

FOLDER = Path(__file__).resolve().parent / "data" / "interface"


def openapi() -> str:
    return as_json(dict(SchemaGenerator().get_schema(public=True)))  # type: ignore[no-untyped-call]


def tools() -> str:
    return as_json({"all": offered(toolsets=["all"]), ANTHROPIC: offered(profile=ANTHROPIC)})


def offered(**choice: Any) -> list[Any]:
    server = build_server(output_schemas=True, **choice)
    return [tool.model_dump(mode="json", exclude_none=True) for tool in asyncio.run(server.list_tools())]


def urls() -> str:
    return "".join(f"{name} {path}\n" for name, path in sorted(named(get_resolver().url_patterns)))


def named(patterns: Any, before: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the pattern of each address."""
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield f"{space}{pattern.name}", path
        else:
            inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
            yield from named(pattern.url_patterns, path, inner)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str) + "\n"


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "write"), [("openapi.json", openapi), ("tools.json", tools), ("urls.txt", urls)])
def test_the_interface_is_as_recorded(name: str, write: Any) -> None:
    file, text = FOLDER / name, write()
    if os.environ.get("RECORD"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
        pytest.skip("recorded")
    assert text == file.read_text()
