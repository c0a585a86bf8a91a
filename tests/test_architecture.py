"""The house rules that a machine can check: who imports whom, where writes happen, how big things are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from memories.models import MemoryRecord
from tests.writers import is_service

ROOT = Path(__file__).resolve().parent.parent
APPS = ["memory_project", "knowledge", "analysis", "memories"]  # each may import those to its right
DOORS = {"mcp_tools", "views", "api", "admin", "tasks", "commands"}


def modules() -> Iterator[Path]:
    for app in APPS:
        for file in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in file.parts:
                yield file


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def parts(file: Path) -> set[str]:
    return set(file.relative_to(ROOT).with_suffix("").parts)


MODULES = list(modules())


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_apps_import_rightwards_only(file: Path) -> None:
    app = file.relative_to(ROOT).parts[0]
    to_the_left = APPS[: APPS.index(app)]
    wrong = [name for name in imported(file) if name.split(".")[0] in to_the_left]
    assert wrong == []


ROOMS = {".".join(file.parent.relative_to(ROOT).parts) for app in APPS for file in (ROOT / app).glob("*/apps.py")}


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_a_nested_app_imports_no_sibling_and_no_ground_floor_imports_it(file: Path) -> None:
    """The composition root alone may: it puts the rooms together."""
    app, *inner = file.relative_to(ROOT).parts
    own_room = f"{app}.{inner[0]}"
    rooms = {room for room in ROOMS if room.startswith(f"{app}.") and room != own_room}
    allowed = rooms if app == "memory_project" and own_room not in ROOMS else set()
    wrong = [name for name in imported(file) if any(f"{name}.".startswith(f"{room}.") for room in rooms - allowed)]
    assert wrong == []


@pytest.mark.parametrize("file", [f for f in MODULES if DOORS & parts(f) and f.stem != "__init__"], ids=name_of)
def test_doors_import_no_other_door_of_their_app(file: Path) -> None:
    app, *rest = file.relative_to(ROOT).with_suffix("").parts
    doors = {f"{app}.{door}" for door in DOORS - set(rest)}
    assert [name for name in imported(file) if name in doors] == []


@pytest.mark.parametrize("file", [f for f in MODULES if not is_service(name_of(f))], ids=name_of)
def test_only_services_say_that_they_write(file: Path) -> None:
    """As far as the text tells; tests/writers.py sees the writes themselves while tests run."""
    writes = {"save", "create", "bulk_create", "get_or_create", "update_or_create", "update", "delete"}
    lines = [
        f"line {node.lineno}: .{node.func.attr}()"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in writes
        if "objects" in ast.unparse(node.func) or "rows" in ast.unparse(node.func)
    ]
    assert lines == [] or "models" in parts(file) or file.stem == "receivers", lines


@pytest.mark.django_db
@pytest.mark.parametrize("write", ["record.save()", "type(record).objects.filter(pk=record.pk).update(content='x')"])
def test_a_write_that_is_no_service_s_is_noticed(fact: MemoryRecord, write: str) -> None:
    view = ROOT / "memory_project" / "portal" / "views" / "memories.py"
    with pytest.raises(AssertionError, match="only services write"):
        exec(compile(write, str(view), "exec"), {"record": fact})
    service = ROOT / "memories" / "services.py"
    exec(compile(write, str(service), "exec"), {"record": fact})


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_slow_libraries_are_imported_where_used(file: Path) -> None:
    slow = {"sentence_transformers", "torch", "onnx", "onnxruntime", "tokenizers", "safetensors", "datahub"}
    top = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in top]
    assert [name for name in names if name and name.split(".")[0] in slow] == []


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_modules_and_functions_stay_small(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            assert (node.end_lineno or 0) - first.lineno + 1 <= 50, f"{node.name} is long"


def test_templates_keep_the_strict_content_security_policy() -> None:
    for file in (ROOT / "templates").rglob("*.html"):
        text = file.read_text()
        for forbidden in (" style=", "<style", " onclick=", " onload=", "javascript:", "|safe", "hx-on"):
            assert forbidden not in text, f"{file.name} has {forbidden}"
        for script in text.split("<script")[1:]:
            assert script.lstrip().startswith("src="), f"{file.name} has an inline script"
