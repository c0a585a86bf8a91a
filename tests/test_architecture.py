"""Rules about the code base that have found real defects.

Each test lists all violations at once.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from memories.models import MemoryRecord
from memory_project.web.hashed_files import IMPORT
from tests.write_guard import is_service

ROOT = Path(__file__).resolve().parent.parent
APPS = ["memory_project", "knowledge", "analysis", "memories", "foundation"]  # each may import the apps to its right
ENTRY_POINTS = {"mcp_tools", "views", "api", "admin", "tasks", "commands"}
# Doors, and the rooms that may import them. The composition root beside the rooms may import all.
DOORS = {"memory_project.rest": set(), "memory_project.admin": set(), "memory_project.portal": {"memory_project.admin"}}
ROOMS = ROOT / "tests/data/rooms.txt"


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


# Names of classes that mean several things, and why they stay. Responses have the names of the OpenAPI document.
SEVERAL_MEANINGS = {
    "Action": "a table, whose name is in addresses of the admin, and what an agent suggests",
    "AuthorFilter": "a filter of a list, named after its column",
    "Cursor": "Django's name in a database backend",
    "DatabaseWrapper": "Django's name in a database backend",
    "Delivery": "a table, whose name is in addresses of the admin, and the base of all deliveries",
    "Endpoint": "a table, whose name is in addresses of the admin, and an address of the REST API",
    "EntityData": "an operation, whose name is in schemas",
    "EntityFilter": "a filter of a list, named after its column",
    "Export": "a table, whose name is in addresses of the admin, and an operation",
    "Filter": "an operation, whose name is in schemas, and a part of a declaration",
    "Person": "a protocol: what a module needs to know of a person",
    "Process": "a process of DuckDB, and one that `up` supervises",
    "Report": "a table, whose name is in addresses of the admin, and an operation",
    "Source": "choices of a column, whose name is in schemas, and a part of a declaration",
    "Upstream": "an error, a declaration and a protocol of other systems",
}


def test_a_class_name_means_one_thing() -> None:
    defined: dict[str, list[str]] = {}
    for file, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Command":
                defined.setdefault(node.name, []).append(str(file))
    several = {name for name, files in defined.items() if len(files) > 1 and not name.endswith("Response")}
    assert several == set(SEVERAL_MEANINGS)


def test_no_room_imports_a_door() -> None:
    found = arrows()
    violations = [
        f"{room} imports {door}"
        for door, allowed in DOORS.items()
        for room, others in found.items()
        if door in others and "." in room and room not in allowed and room != "memory_project.management"
    ]
    assert violations == []


def test_imports_of_scripts_are_written_so_that_their_names_are_hashed() -> None:
    imports = [line for file in (ROOT / "static/js").glob("*.js") for line in file.read_text().splitlines()]
    imports = [line for line in imports if line.startswith("import ")]
    assert len(imports) > 5
    assert [line for line in imports if not re.search(IMPORT, line)] == []


def test_no_module_assigns_a_name_twice() -> None:
    """The second value of a constant would silently replace the first."""
    twice = []
    for file, tree in trees().items():
        names: Counter[str] = Counter()
        for statement in tree.body:
            if isinstance(statement, ast.Assign):
                names.update(target.id for target in statement.targets if isinstance(target, ast.Name))
            elif isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
                names[statement.target.id] += 1
        twice += [f"{file}: {name}" for name, count in names.items() if count > 1]
    assert not twice


def test_the_caller_comes_before_what_is_asked_for() -> None:
    """A verb is `verb(caller, operation)` everywhere, so that nobody has to look up how one is called."""
    otherwise = []
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [argument.arg for argument in node.args.args]
                is_late = "caller" in names[names.index("operation") :] if "operation" in names else False
                if is_late or "caller" in [argument.arg for argument in node.args.kwonlyargs]:
                    otherwise.append(f"{file}: {node.name}")
    assert not otherwise


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


def test_no_two_folders_import_each_other() -> None:
    """Of the folders of one folder, on each level."""
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): tree for file, tree in trees().items()}
    arrows_between: dict[tuple[str, str], list[str]] = {}
    for module, tree in modules.items():
        for name in set(imports(tree)) & modules.keys():
            room, other = folders_apart(module, name)
            if room and other:
                arrows_between.setdefault((room, other), []).append(f"{module} imports {name}")
    mutual = [
        (pair, reasons + arrows_between[pair[::-1]])
        for pair, reasons in sorted(arrows_between.items())
        if pair[0] < pair[1] and pair[::-1] in arrows_between
    ]
    assert mutual == []


def folders_apart(module: str, other: str) -> tuple[str, str]:
    """Return the folders in which two modules part ways, or empty texts where one of them is a file."""
    first, second = module.split("."), other.split(".")
    common = next((at for at, (one, two) in enumerate(zip(first, second, strict=False)) if one != two), None)
    if common is None:  # one is within the other
        return "", ""
    found = tuple(".".join(parts[: common + 1]) for parts in (first, second))
    if not all((ROOT / folder.replace(".", "/")).is_dir() for folder in found):
        return "", ""
    return found[0], found[1]


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


def test_no_test_module_imports_another() -> None:
    """What tests share stands in modules of its own, such as tests/pages.py."""
    allowed = "tests.knowledge.test_changesets_disturbed"  # its tests run once more, through a pooler
    violations = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for name in imports(ast.parse(file.read_text()))
        if name.startswith("tests.") and ".test_" in name and not name.startswith(allowed)
    ]
    assert violations == []


def test_browser_tests_wait_for_what_they_assert() -> None:
    """An `assert` reads a page once, and fails on a busy machine. Playwright's `expect` waits."""
    readings = {"is_visible", "is_hidden", "is_checked", "count", "inner_text", "input_value", "get_attribute"}
    violations = [
        f"{file.name}:{node.lineno} .{node.func.attr}()"
        for file in sorted((ROOT / "tests" / "e2e").glob("*.py"))
        for statement in ast.walk(ast.parse(file.read_text()))
        if isinstance(statement, ast.Assert)
        for node in ast.walk(statement.test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in readings
    ]
    assert violations == []


def test_requests_of_tests_state_how_long_they_wait() -> None:
    """The default of 5 s is too short for the first call of a server on a busy machine."""
    senders = {"get", "post", "put", "patch", "delete", "options", "request", "stream", "Client", "AsyncClient"}
    violations = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in senders
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "httpx2"
        if not any(keyword.arg == "timeout" for keyword in node.keywords)
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
