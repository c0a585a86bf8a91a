"""What the documents say is held against the code."""

from __future__ import annotations

import re
from pathlib import Path

from memory_project.mcp.reference import reference
from memory_project.mcp.server import enabled_tools

ROOT = Path(__file__).resolve().parent.parent


def table(document: str, heading: str) -> dict[str, list[str]]:
    """The rows of the table whose heading line begins so, by their first cell."""
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


def test_the_listed_tools_are_the_server_s() -> None:
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


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_reference_of_the_tools_is_what_they_take() -> None:
    """Written anew with `manage.py tools --reference`."""
    text = (ROOT / "docs" / "mcp.md").read_text()
    block = re.search(r"<!-- reference.*?-->\n(.*?)<!-- end of reference -->", text, re.DOTALL)
    assert block is not None
    assert block[1].strip() == reference(enabled_tools(["all"])).strip()
