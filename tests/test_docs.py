"""Compare the documentation with the code."""

from __future__ import annotations

import re
from pathlib import Path

from memory_project.mcp.reference import reference
from memory_project.mcp.server import enabled_tools

ROOT = Path(__file__).resolve().parent.parent


def table(document: str, heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table whose heading line starts with `heading`, keyed by their first cell."""
    lines = (ROOT / document).read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(heading))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        rows[first] = rest
    return rows


def test_every_setting_is_listed_with_its_default() -> None:
    source = (ROOT / "memory_project" / "settings.py").read_text()
    read = dict(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"(?:,\s*([^,)\n]+))?', source))
    defaults = table("docs/operating.md", "| variable |")
    assert set(defaults) == set(read)
    for name, default in read.items():
        plain = default.strip('"').replace("_", "") if default else ""
        if re.fullmatch(r"\d+(\.\d+)?", plain):
            assert float(defaults[name][0].replace("`", "")) == float(plain), name


def test_the_documented_tools_are_those_of_the_server() -> None:
    descriptions = table("docs/mcp.md", "| tool |")
    tools = {tool.name: tool.description.split("\n")[0] for tool in enabled_tools(["all"])}
    assert {name: cells[0] for name, cells in descriptions.items()} == tools


def test_every_command_of_ours_is_listed() -> None:
    commands = {
        file.stem
        for file in [*ROOT.glob("*/management/commands/*.py"), *ROOT.glob("*/*/management/commands/*.py")]
        if file.stem != "__init__" and ".venv" not in file.parts
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


def test_links_between_documents_have_existing_targets() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_tool_reference_matches_the_tools() -> None:
    """Regenerate the reference with `manage.py tools --reference`."""
    text = (ROOT / "docs" / "mcp.md").read_text()
    block = re.search(r"<!-- reference.*?-->\n(.*?)<!-- end of reference -->", text, re.DOTALL)
    assert block is not None
    assert block[1].strip() == reference(enabled_tools(["all"])).strip()
