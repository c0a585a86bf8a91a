"""Find functions, classes and methods that nothing uses: `python -m distribution.dead_code`, part of `make lint`.

vulture compares names. What a framework calls counts as used: methods that a base class of another package has, words
of templates, and dotted paths in strings. What only tests use counts as unused, like a guard that nobody calls.

A name that is also a word of a template, or a string of one word, is therefore never found.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
from vulture import Vulture
from vulture.core import Item

ROOT = Path(__file__).resolve().parent.parent
APPS = ("foundation", "memories", "knowledge", "analysis", "memory_project")
SCANNED = (*APPS, "distribution")
USERS = ("bench", "manage.py")  # what these use is used
KINDS = ("function", "class", "method", "property", "import")
# Registered by these decorators, or called by the program that loads them.
DECORATORS = [
    "@*register*",
    "@receiver",
    "@*.filter",
    "@*.simple_tag",
    "@*.inclusion_tag",
    "@fault",
    "@*validator*",
    "@health_check",
]
# Found by name, by Django or by us: see memories/extensions.py for the extensions.
NAMES = ("Meta", "*Config", "*Extension", "Command", "__*__")
WORD = re.compile(r"\w+")
PATH = re.compile(r"[\w.:-]+")
# What is left, and why it stays.
EXCEPTIONS = {
    "has_curate_permission": "the admin calls it for actions with the permission `curate`",
    "to_url": "Django calls it on converters of paths",
    "db_for_read": "Django calls it on routers",
    "db_for_write": "Django calls it on routers",
    "allow_relation": "Django calls it on routers",
    "allow_migrate": "Django calls it on routers",
    "npt": "an annotation names it in a string",
    "seekable": "zipfile calls it on the file that it reads",
    "do_GET": "http.server calls it",
    "BearerScheme": "drf-spectacular finds it as a subclass",
    "process_exception": "Django calls it on middleware",
    "SHORT_DATE_FORMAT": "Django reads it from the module of formats",
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")
    django.setup()
    mentioned = set(words_of_templates()) | set(words_of_paths())
    found = [item for item in unused() if item.name not in mentioned and not is_override(item)]
    unexplained = [item for item in found if item.name not in EXCEPTIONS]
    for item in unexplained:
        print(f"{item.filename.relative_to(ROOT)}:{item.first_lineno}: nothing uses the {item.typ} {item.name}")
    outdated = EXCEPTIONS.keys() - {item.name for item in found}
    for name in sorted(outdated):
        print(f"distribution/dead_code.py: {name} is used again, so it is no exception")
    sys.exit(bool(unexplained or outdated))


def unused() -> list[Item]:
    scanner = Vulture(ignore_names=list(NAMES), ignore_decorators=DECORATORS)
    scanner.scavenge([ROOT / name for name in (*SCANNED, *USERS)], exclude=["*/migrations/*"])
    found = [item for item in scanner.get_unused_code() if item.typ in KINDS or is_constant(item)]
    return [item for item in found if item.filename.relative_to(ROOT).parts[0] in SCANNED]


def is_constant(item: Item) -> bool:
    """Return whether the item is a constant of a module. Frameworks read those of the settings."""
    if item.typ != "variable" or not item.name.isupper() or "settings" in item.filename.stem:
        return False
    return not item.filename.read_text().splitlines()[item.first_lineno - 1].startswith(" ")


def words_of_templates() -> Iterator[str]:
    for file in (ROOT / "templates").rglob("*"):
        if file.is_file():
            yield from WORD.findall(file.read_text())


def words_of_paths() -> Iterator[str]:
    """Yield the parts of all strings that may be a dotted path or a name, and all names that migrations use."""
    for app in SCANNED:
        for file in (ROOT / app).rglob("*.py"):
            if file == Path(__file__):
                continue
            if "migrations" in file.parts:
                yield from WORD.findall(file.read_text())
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and PATH.fullmatch(node.value):
                    yield from WORD.findall(node.value)


def is_override(item: Item) -> bool:
    """Return whether a base class from another package has a method of this name, and may call it."""
    path = item.filename.relative_to(ROOT).with_suffix("")
    if item.typ not in ("method", "property") or path.parts[0] not in APPS:
        return False
    module = importlib.import_module(".".join(path.parts).removesuffix(".__init__"))
    return any(_inherits(value, item.name) for value in _classes(module))


def _classes(module: Any) -> Iterator[type]:
    for value in vars(module).values():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            yield value
            yield from (inner for inner in vars(value).values() if inspect.isclass(inner))


def _inherits(kind: type, name: str) -> bool:
    bases = [base for base in kind.__mro__ if not base.__module__.startswith(APPS)]
    return name in vars(kind) and any(name in vars(base) for base in bases)


if __name__ == "__main__":
    main()
