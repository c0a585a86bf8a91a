"""The page of benchmarks quotes what the benchmarks wrote."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_run", ROOT / "bench/run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_results_that_were_recorded(runner: ModuleType) -> None:
    text = runner.PAGE.read_text()
    assert runner.page(text) == text, "run `python bench/run.py --page-only`"


def test_every_benchmark_has_a_place_on_the_page(runner: ModuleType) -> None:
    shown = [found["name"] for found in runner.BLOCK.finditer(runner.PAGE.read_text())]
    assert sorted(shown) == sorted(runner.RUNS)


def test_a_result_names_what_it_was_measured_with(runner: ModuleType) -> None:
    files = sorted(runner.RESULTS.glob("*.json"))
    assert {file.stem for file in files} <= set(runner.RUNS)
    for file in files:
        result = json.loads(file.read_text())
        assert result["command"] == " ".join(["python", *runner.RUNS[file.stem]])
        assert result["commit"]
        assert result["date"]
        assert result["machine"]
        assert result["output"]


def test_a_result_replaces_the_block_of_its_name_alone(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    result = {"command": "python x", "commit": "abc", "date": "2026-01-02", "machine": "two cores", "load": [0.1, 1.2]}
    (runner.RESULTS / "fast.json").write_text(json.dumps({**result, "output": ["| a |", "|---|", "| 1 |"]}))
    before = "Before\n\n<!-- result: fast -->\nold\n<!-- end -->\n\nBetween <!-- end -->\n"
    shown = runner.page(before)
    assert "| a |\n|---|\n| 1 |\n<!-- end -->" in shown
    assert "`python x` at abc, 2026-01-02; two cores; load 0.1 to 1.2:" in shown
    assert shown.startswith("Before\n")
    assert shown.endswith("Between <!-- end -->\n")
    assert "old" not in shown
