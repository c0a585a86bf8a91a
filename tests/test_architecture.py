"""Rules about the code base that have found real defects.

Each test lists all violations at once.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from memories.models import MemoryRecord
from tests.write_guard import is_service

ROOT = Path(__file__).resolve().parent.parent
APPS = ["memory_project", "knowledge", "analysis", "memories", "foundation"]  # each may import the apps to its right
ENTRY_POINTS = {"mcp_tools", "views", "api", "admin", "tasks", "commands"}
DOORS = {"memory_project.portal", "memory_project.rest"}  # nested apps that may import their siblings, but no door
NESTED_APPS = {".".join(file.parent.relative_to(ROOT).parts) for app in APPS for file in (ROOT / app).glob("*/apps.py")}


ROOMS = ROOT / "tests/data/rooms.txt"
# Folders of an app that import each other. What is here waits for a better place.
MUTUAL = {
    ("memory_project.exports", "memory_project.imports"),
    ("memory_project.notifications", "memory_project.webhooks"),
}


# Readers of files have no models and decide nothing, so other nested apps use them, too.
SHARED = ("memory_project.imports.formats", "memory_project.imports.rows")


@cache
def trees() -> dict[Path, ast.Module]:
    return {
        file.relative_to(ROOT): ast.parse(file.read_text())
        for app in APPS
        for file in sorted((ROOT / app).rglob("*.py"))
        if "migrations" not in file.parts
    }


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_apps_import_only_apps_to_their_right() -> None:
    violations = [
        f"{file} imports {name}"
        for file, tree in trees().items()
        for name in imports(tree)
        if name.split(".")[0] in APPS[: APPS.index(file.parts[0])]
    ]
    assert violations == []


def test_only_the_composition_root_imports_nested_apps() -> None:
    violations = []
    for file, tree in trees().items():
        app, inner = file.parts[0], f"{file.parts[0]}.{file.parts[1]}"
        if app == "memory_project" and inner not in NESTED_APPS:
            continue
        closed = DOORS if inner in DOORS else NESTED_APPS
        siblings = {nested for nested in closed if nested.startswith(f"{app}.") and nested != inner}
        violations += [
            f"{file} imports {name}"
            for name in imports(tree)
            if any(f"{name}.".startswith(f"{sibling}.") for sibling in siblings) and not name.startswith(SHARED)
        ]
    assert violations == []


def test_modules_have_no_import_cycles() -> None:
    """Imports inside functions and for type checkers also count."""
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): tree for file, tree in trees().items()}
    graph: dict[str, set[str]] = {}
    for module, tree in modules.items():
        names = {name for name in imports(tree) if name in modules and name != module}
        # `from package import module` depends on the module, not on its package
        graph[module] = {name for name in names if not any(other.startswith(f"{name}.") for other in names)}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules of the cycle


def room_of(module: str) -> str:
    """Return the folder of an app that a module is in, or the app itself for a module beside its folders."""
    app, *rest = module.split(".")
    return f"{app}.{rest[0]}" if rest and (ROOT / app / rest[0]).is_dir() else app


def arrows() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    found: dict[str, set[str]] = {}
    for file, tree in trees().items():
        room = room_of(".".join(file.with_suffix("").parts))
        names = {name for name in imports(tree) if name.split(".")[0] in APPS}
        # `from package import module` is about the module
        names -= {
            name.rpartition(".")[0] for name in names if (ROOT / name.replace(".", "/")).with_suffix(".py").exists()
        }
        others = {room_of(name) for name in names if (ROOT / name.replace(".", "/")).parent != ROOT}
        found.setdefault(room, set()).update(others - {room})
    return found


def test_rooms_import_the_rooms_that_are_listed() -> None:
    """A new arrow between rooms is a decision: `RECORD=1 pytest tests/test_architecture.py` lists it."""
    text = "".join(f"{room} -> {other}\n" for room, others in sorted(arrows().items()) for other in sorted(others))
    if os.environ.get("RECORD"):
        ROOMS.write_text(text)
        pytest.skip("recorded")
    assert text == ROOMS.read_text()


def test_no_further_rooms_import_each_other() -> None:
    """The rooms inside an app. The list may only become shorter."""
    found = arrows()
    mutual = {
        (room, other)
        for room, others in found.items()
        for other in others
        if room < other and room in found[other] and "." in room and "." in other
    }
    assert mutual == MUTUAL


def test_entry_points_import_no_other_entry_point_of_their_app() -> None:
    violations = []
    for file, tree in trees().items():
        app, *rest = file.with_suffix("").parts
        if ENTRY_POINTS & set(rest) and file.stem != "__init__":
            others = {f"{app}.{name}" for name in ENTRY_POINTS - set(rest)}
            violations += [f"{file} imports {name}" for name in imports(tree) if name in others]
    assert violations == []


def test_only_services_contain_writes() -> None:
    """Checks the source text. tests/write_guard.py checks the actual writes while tests run."""
    writes = {"save", "create", "bulk_create", "get_or_create", "update_or_create", "update", "delete"}
    violations = [
        f"{file}:{node.lineno} .{node.func.attr}()"
        for file, tree in trees().items()
        if "models" not in file.with_suffix("").parts and file.stem != "receivers"
        if not is_service(".".join(file.with_suffix("").parts))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in writes
        if "objects" in ast.unparse(node.func) or "rows" in ast.unparse(node.func)
    ]
    assert violations == []


@pytest.mark.django_db
@pytest.mark.parametrize("write", ["record.save()", "type(record).objects.filter(pk=record.pk).update(content='x')"])
def test_write_outside_a_service_fails_the_test(fact: MemoryRecord, write: str) -> None:
    view = ROOT / "memory_project" / "portal" / "views" / "memories.py"
    with pytest.raises(AssertionError, match="only services write"):
        exec(compile(write, str(view), "exec"), {"record": fact})
    service = ROOT / "memories" / "services.py"
    exec(compile(write, str(service), "exec"), {"record": fact})


def test_start_up_imports_no_slow_library() -> None:
    slow = ["sentence_transformers", "torch", "onnx", "onnxruntime", "tokenizers", "safetensors", "datahub", "numpy"]
    script = f"import django, sys; django.setup(); print(*sorted(set({slow}) & set(sys.modules)))"
    environment = {"PATH": "", "DJANGO_SETTINGS_MODULE": "tests.settings"}
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (process.stdout.split(), process.stderr) == ([], "")


def test_templates_keep_the_strict_content_security_policy() -> None:
    forbidden = (" style=", "<style", " onclick=", " onload=", "javascript:", "|safe", "hx-on")
    violations = []
    for file in (ROOT / "templates").rglob("*.html"):
        text = file.read_text()
        violations += [f"{file.name} has {part}" for part in forbidden if part in text]
        violations += [
            f"{file.name} has an inline script"
            for script in text.split("<script")[1:]
            if not script.lstrip().startswith("src=")
        ]
    assert violations == []


def test_stylesheets_follow_the_direction_of_the_text() -> None:
    """Physical sides would stay where they are in a language that is written from right to left."""
    side = re.compile(
        r"(?:margin|padding|border)-(?:left|right)\b|(?<![-\w])(?:left|right)\s*:|text-align:\s*(?:left|right)|float:\s*(?:left|right)"
    )
    four = re.compile(r"\b(?:margin|padding):\s*([^\s;}]+)\s+([^\s;}]+)\s+([^\s;}]+)\s+([^\s;}]+)\s*[;}]")
    violations = []
    for file in sorted((ROOT / "static").rglob("*.css")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = [match[0] for match in side.finditer(line)]
            found += [match[0] for match in four.finditer(line) if match[2] != match[4] and "(" not in match[0]]
            violations += [f"{file.name}:{number} {text}" for text in found]
    assert violations == []
