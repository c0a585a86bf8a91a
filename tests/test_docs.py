"""Compare the documentation with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distribution import settings_page
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool
from memory_project.management.commands.tools import cost
from memory_project.mcp.reference import reference
from memory_project.mcp.tool_list import enabled_tools
from memory_project.mcp.tool_selection import denied
from tests.docs_tables import ROOT, table
from tests.e2e.readme_pictures import PICTURES


def test_the_page_of_settings_is_that_of_the_code() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page()
    declared = list(settings_page.variables())
    assert len(declared) > 100
    assert not [variable.name for variable in declared if not variable.meaning]
    assert len({variable.name for variable in declared}) == len(declared)


def test_the_documented_tools_are_those_of_the_server() -> None:
    descriptions = table("docs/mcp.md", "| tool |")
    tools = {tool.name: tool.description.split("\n")[0] for tool in enabled_tools(["all"])}
    assert {name: cells[0] for name, cells in descriptions.items()} == tools


def test_every_file_that_the_architecture_names_exists() -> None:
    """A name without a folder is in the folder of the file before it in the same row."""
    _, _, rows = (ROOT / "docs/architecture.md").read_text().partition("| to change | open |")
    missing = []
    for row in re.findall(r"^\| .*", rows, re.MULTILINE):
        folder = ROOT
        for name in re.findall(r"(?<!app's )`([\w/]+(?:\.\w+|/))`", row):
            if "/" not in name and folder == ROOT:  # such as operations.py, which each app has
                continue
            path = ROOT / name if "/" in name else folder / name
            folder = path.parent
            if not path.exists():
                missing.append(str(path.relative_to(ROOT)))
    assert missing == []


def test_every_command_of_ours_is_listed() -> None:
    commands = {
        file.stem
        for app in ("memories", "knowledge", "analysis", "memory_project")
        for file in (ROOT / app).glob("**/management/commands/*.py")
        if file.stem != "__init__"
    }
    names = {row.split()[1] for row in table("docs/operating.md", "| command | does")}
    assert names == commands


def test_every_test_that_the_threat_model_names_exists() -> None:
    names = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text()))
    defined = {
        name for file in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert names
    assert names <= defined


def test_the_readme_shows_the_pictures_that_are_taken() -> None:
    shown = set(re.findall(r"docs/img/([\w-]+)\.png", (ROOT / "README.md").read_text()))
    assert shown == set(PICTURES) == {file.stem for file in (ROOT / "docs" / "img").glob("*.png")}


def test_links_between_documents_have_existing_targets() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "templates/help").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_documented_sizes_of_the_offers_are_those_of_the_tools() -> None:
    """Within 2 %, so that a changed word needs no change of the table."""
    tools = enabled_tools(["all"])
    usual = [
        tool
        for tool in tools
        if tool.toolset in ("memory", "knowledge", "analysis", "query") and tool.name != "analysis_act"
    ]  # without a source that may be written to
    offers = {
        "the default toolsets, for an analyst": [tool for tool in usual if tool.name != "apply_knowledge"],
        "the default toolsets, for a curator": usual,
        "memory, read-only": reading_tools(tools, "memory"),
        "everything": tools,
    }
    documented = table("docs/mcp.md", "| offer |")
    assert {name: int(cells[0].replace(",", "")) for name, cells in documented.items()} == {
        name: pytest.approx(sum(map(cost, offer)), rel=0.02) for name, offer in offers.items()
    }


def reading_tools(tools: list[Tool], toolset: str) -> list[Tool]:
    caller = Caller(email="", persona="", personas=frozenset(), tools_deny=denied(tools, [toolset], is_read_only=True))
    listed = [tool for tool in tools if caller.may_use(tool.name)]
    return [tool.only(tool.choices_for(caller)) if tool.selector else tool for tool in listed]


def test_the_tool_reference_matches_the_tools() -> None:
    """Regenerate the reference with `manage.py tools --reference`."""
    text = (ROOT / "docs" / "mcp.md").read_text()
    block = re.search(r"<!-- reference.*?-->\n(.*?)<!-- end of reference -->", text, re.DOTALL)
    assert block is not None
    assert block[1].strip() == reference(enabled_tools(["all"])).strip()


def test_the_contents_of_the_decisions_name_each_of_them() -> None:
    text = (ROOT / "docs/decisions.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    listed = re.findall(r"^- \d{4}-\d\d-\d\d · \[(.+)\]\(#", text, re.MULTILINE)
    assert listed == headings


def test_the_examples_of_extending_are_in_the_files_that_they_name() -> None:
    text = (ROOT / "docs/extending.md").read_text()
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 6
    for name, code in blocks:
        file = [line.strip() for line in (ROOT / name).read_text().splitlines() if line.strip()]
        quoted = [line.strip() for line in code.splitlines() if line.strip()]
        starts = [place for place, line in enumerate(file) if line == quoted[0]]
        assert any(file[start : start + len(quoted)] == quoted for start in starts), name


@pytest.mark.parametrize(
    "page", sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "templates/help").glob("*.md")]), ids=lambda page: page.stem
)
def test_no_page_has_the_same_heading_twice(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ .*", prose, re.MULTILINE)
    assert sorted(headings) == sorted(set(headings))
