"""The cache of the advertised tool list, shared between processes."""

from __future__ import annotations

import subprocess
import sys
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from memory_project.mcp import tool_schema_cache
from memory_project.mcp.tool_list import enabled_tools


@pytest.fixture
def home(settings: Any, tmp_path: Path) -> Path:
    settings.COMMONPLACE_HOME = tmp_path
    return tmp_path / "offers"


def test_the_cached_list_equals_the_computed_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = enabled_tools(["all"])
    first = tool_schema_cache.advertised_tools(tools)
    monkeypatch.setattr(tool_schema_cache, "advertise", lambda tool: pytest.fail("made anew"))
    assert tool_schema_cache.advertised_tools(tools) == first


def test_each_toolset_has_its_own_file_until_the_code_changes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool_schema_cache.advertised_tools(enabled_tools(["all"]))
    tool_schema_cache.advertised_tools(enabled_tools(["memory"]))
    assert len(list(home.iterdir())) == 2
    monkeypatch.setattr(tool_schema_cache, "_fingerprint", lambda: "other")
    tool_schema_cache.advertised_tools(enabled_tools(["memory"]))
    assert [file.name.partition("-")[0] for file in home.iterdir()] == ["other"]


@pytest.mark.parametrize("package", ["foundation", "memories", "knowledge", "analysis", "memory_project"])
def test_a_change_of_any_package_makes_a_new_list(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def noted(pattern: str, *, root_dir: str, recursive: bool) -> list[str]:
        listed.append(root_dir)
        return glob(pattern, root_dir=root_dir, recursive=recursive)

    monkeypatch.setattr(tool_schema_cache, "glob", noted)
    tool_schema_cache._fingerprint()
    assert str(Path(__file__).resolve().parents[2] / package) in listed


def test_a_broken_or_unwritable_file_is_ignored(home: Path) -> None:
    tools = enabled_tools(["memory"])
    first = tool_schema_cache.advertised_tools(tools)
    (file,) = home.iterdir()
    file.write_text("[{")
    assert tool_schema_cache.advertised_tools(tools) == first
    file.unlink()
    home.rmdir()
    home.write_text("no folder")
    assert tool_schema_cache.advertised_tools(tools) == first


HEAVY = ("numpy", "onnxruntime", "tokenizers", "torch", "datahub", "duckdb", "rest_framework.views")


def test_listing_tools_imports_no_slow_library() -> None:
    # modules of toolsets that are not enabled
    unused_toolsets = ("knowledge.graph.mcp_tools", "memories.conversation.mcp_tools")
    lines = [
        "import django, sys; django.setup()",
        "from memory_project.mcp.tool_list import enabled_tools",
        "enabled_tools(['memory', 'knowledge', 'analysis', 'query'])",
        f"print([name for name in {(*HEAVY, *unused_toolsets)!r} if name in sys.modules])",
    ]
    process = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_numpy_is_imported_completely_before_libraries_import_parts_of_it() -> None:
    lines = [
        "import django, sys; django.setup()",
        "from foundation.embedding import model",
        "from memory_project.mcp.workers import Running",
        "is_there = lambda: 'numpy' in sys.modules",
        "order = [is_there()]",
        "{first}",
        "print(order)",
    ]
    model_loads = "model.make_embedder = lambda: order.append(is_there()); model.current(60)"
    for first in (model_loads, "order.append(Running().call(is_there))"):
        script = "\n".join(lines).format(first=first)
        process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert process.stdout.strip() == "[False, True]"
