"""Regular expressions take linear time.

Python's `re` holds the interpreter's lock, so one text that a pattern needs seconds for stops the whole server. Every
pattern of the project runs on texts that are built from the pattern itself: what precedes a repetition, then what it
repeats many times, then an end that does not match. A text of four times the length may take about four times as long.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from re import _constants as ops  # the parser of `re` has no public interface
from re import _parser as parser
from typing import Any

import pytest
from django.apps import apps
from django.core.validators import RegexValidator

from memories.conversation import heuristics
from memories.texts import values, words

ROOT = Path(__file__).resolve().parent.parent
APPS = ("foundation", "memories", "analysis", "knowledge", "memory_project")
SOURCES = [file for app in APPS for file in sorted((ROOT / app).rglob("*.py")) if "migrations" not in file.parts]
FUNCTIONS = ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
ANCHORED = ("match", "fullmatch")  # these look at one place of the text, the others at every place
SHORT, LONG = 4_000, 16_000  # characters
# Exponential patterns must fail before they hang: two more characters may take four times as long.
STEPS = (*range(12, 40, 2), 48, 64, 128, 512, 2_000, SHORT, LONG)
QUADRATIC = re.compile("<[^>]*>")  # a typical slow pattern, by which the speed of this machine is measured


def _quadratic_s() -> float:
    started = time.process_time()
    QUADRATIC.search("<a" * (LONG // 2))
    return time.process_time() - started


# A pattern that needs less time for LONG characters is fast, whatever its growth.
FLOOR_S = 0.6 * min(_quadratic_s() for _ in range(3))
# After so many characters, a pattern that stays fast with cubic growth need not try more, nor does one whose time has
# grown from the step before (512) as that of a linear pattern: by 4, a quadratic one by 15.
ENOUGH, LINEAR = 2_000, 6
MAX_GROWTH = 9  # from SHORT to LONG, linear patterns grow by 4 and quadratic ones by 16
INSERTED = "ab"  # stands for an escaped name that the source inserts into a pattern
CHARACTERS = "aA1_ .-/:@'\"`\n(,=é|\\<*%"
ENDS = ("\x00", "a!")

# Patterns whose text is known at run time only, by the source of the expression. They are tested with these texts.
BUILT: Mapping[str, Sequence[str]] = {
    "freshness/baselines.py whole": [r"(?<!\w)ab(?!\w)"],
    "texts/reading.py pattern": [
        pattern for table in (words.CONTRACTIONS, words.PHRASES) for pairs in table.values() for pattern, _ in pairs
    ],
}


class Case:
    """A pattern and the methods by which the source uses it."""

    def __init__(self, pattern: re.Pattern[Any], place: str, methods: set[str]) -> None:
        if isinstance(pattern.pattern, bytes):  # of ASCII alone, so it takes the same time as text
            pattern = re.compile(pattern.pattern.decode("ascii"), pattern.flags)
        self.pattern, self.place = pattern, place
        self.is_anchored = bool(methods) and methods <= set(ANCHORED)
        self.run: Callable[[str], Any] = pattern.fullmatch if methods == {"fullmatch"} else pattern.match
        if not self.is_anchored:
            self.run = lambda text: sum(1 for _ in pattern.finditer(text))


# -- the patterns ------------------------------------------------------------------------------------------------


def module_of(file: Path) -> Any:
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return importlib.import_module(name)


def patterns_in(value: Any, depth: int = 3) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict | list | tuple | set | frozenset):
        for item in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(item, depth - 1)


@cache
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text()) for file in SOURCES}


@cache
def unparsed(file: Path) -> str:
    return ast.unparse(trees()[file])


@cache
def read(file: Path) -> str:
    return file.read_text()


def methods_of(name: str, file: Path) -> set[str]:
    """Return the methods that the source calls on a pattern of a module. Any other use counts as a search."""
    module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    found = set()
    for other in SOURCES:
        text = unparsed(other) if other == file or name in read(other) else ""
        imported = f"from {module} import" in text or f"import {file.stem}" in text
        prefix = r"(?<![\w.])" if other == file or imported else r"\Z"
        owner = "" if other == file else rf"(?:{file.stem}\.)?"
        uses = re.findall(rf"{prefix}{owner}{name}\b(?:\.(\w+))?(?!:| =)", text)
        found |= {use or "passed" for use in uses}
    return found - {"pattern", "flags"}


def module_patterns() -> Iterator[Case]:
    for file in SOURCES:
        if "commands" in file.parts or file.stem in ("asgi", "wsgi", "settings", "__main__"):
            continue
        for name, value in list(vars(module_of(file)).items()):
            for pattern in patterns_in(value):
                methods = methods_of(name, file) if isinstance(value, re.Pattern) else set()
                yield Case(pattern, f"{file.relative_to(ROOT)} {name}", methods)


def text_of(node: ast.expr, scope: dict[str, Any]) -> str | None:
    """Return the text of an expression, with INSERTED for parts that only a running function knows."""
    if isinstance(node, ast.JoinedStr):
        parts = [text_of(part.value if isinstance(part, ast.FormattedValue) else part, scope) for part in node.values]
        return "".join(INSERTED if part is None else part for part in parts)
    try:
        value = eval(compile(ast.Expression(node), "pattern", "eval"), scope)
    except Exception:
        return None
    return value if isinstance(value, str) else None


def inline_patterns() -> Iterator[Case]:
    for file, tree in trees().items():
        named = {id(node.value) for node in tree.body if isinstance(node, ast.Assign)}  # module_patterns() has these
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if id(node) in named:
                continue
            if ast.unparse(node.func.value) != "re" or node.func.attr not in FUNCTIONS:
                continue
            texts: Sequence[str | None] = [text_of(node.args[0], {**vars(module_of(file))})]
            source = ast.unparse(node.args[0])
            if texts == [None]:
                texts = next((BUILT[key] for key in BUILT if f"{file} {source}".endswith(key)), [None])
            arguments = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
            flags = [getattr(re, part.attr) for part in arguments
                     if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "re"]  # fmt: skip
            for text in texts:
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                assert text is not None, f"{place}: add texts for {source!r} to BUILT"
                yield Case(re.compile(text, *flags), place, {node.func.attr} - {"compile"})


def library_patterns() -> Iterator[Case]:
    """Yield patterns that functions build, and those of the validators of our models' fields."""
    for locale in values.LOCALES:
        for pattern, _ in values._time_patterns(locale):
            yield Case(pattern, f"times in {locale}", set())
    for name in ("URGENT", "OWN", "PREFERENCE", "RELATIONSHIP", "EVENT", "ENTITY"):
        yield Case(re.compile(rf"\b(?:{getattr(heuristics, name)})\b", re.IGNORECASE), f"heuristics {name}", set())
    for model in apps.get_models():
        if model.__module__.split(".")[0] in APPS:
            for field in model._meta.get_fields():
                for validator in getattr(field, "validators", ()):
                    if isinstance(validator, RegexValidator):
                        yield Case(validator.regex, f"validator of {field}", {"search"})  # type: ignore[arg-type]


def all_cases() -> list[Case]:
    found: dict[tuple[str, int, bool], Case] = {}
    for case in (*module_patterns(), *inline_patterns(), *library_patterns()):
        found.setdefault((case.pattern.pattern, case.pattern.flags, case.is_anchored), case)
    return list(found.values())


# -- the texts ---------------------------------------------------------------------------------------------------

CATEGORIES: Mapping[Any, Callable[[str], bool]] = {
    ops.CATEGORY_DIGIT: str.isdecimal,
    ops.CATEGORY_NOT_DIGIT: lambda c: not c.isdecimal(),
    ops.CATEGORY_SPACE: str.isspace,
    ops.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    ops.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    ops.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}


def members(items: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return characters of a class of characters: its own, and those of CHARACTERS that it contains."""
    own = [chr(value) for kind, value in items if kind == ops.LITERAL]
    own += [chr(end) for kind, value in items if kind == ops.RANGE for end in value]

    def has(character: str) -> bool:
        return any(
            (kind == ops.LITERAL and chr(value) == character)
            or (kind == ops.RANGE and value[0] <= ord(character) <= value[1])
            or (kind == ops.CATEGORY and CATEGORIES[value](character))
            for kind, value in items
        )

    is_negated = any(kind == ops.NEGATE for kind, _ in items)
    found = [character for character in CHARACTERS if has(character) != is_negated]
    return list(dict.fromkeys([*([] if is_negated else own), *found])) or ["x"]


def sample(tree: Any, choice: int) -> str:
    """Return a text that the tree matches, as far as it has no conditions. `choice` picks characters and branches."""
    text = ""
    for kind, value in tree:
        if kind == ops.LITERAL:
            text += chr(value)
        elif kind == ops.NOT_LITERAL:
            text += "a" if chr(value) != "a" else "b"
        elif kind == ops.ANY:
            text += "a .\n"[choice % 4]
        elif kind == ops.IN:
            characters = members(value)
            text += characters[choice % len(characters)]
        elif kind in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            text += sample(value[2], choice) * max(value[0], 1)
        elif kind == ops.BRANCH:
            text += sample(value[1][choice % len(value[1])], choice)
        elif kind == ops.SUBPATTERN:
            text += sample(value[3], choice)
        elif kind == ops.ATOMIC_GROUP:
            text += sample(value, choice)
    return text


def repetitions(tree: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each open repetition of a pattern with a text that leads to it."""
    for kind, value in tree:
        if kind in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            if value[1] == ops.MAXREPEAT or value[1] > 9:
                yield before, value[2]
            yield from repetitions(value[2], before)
        elif kind == ops.BRANCH:
            for branch in value[1]:
                yield from repetitions(branch, before)
        elif kind == ops.SUBPATTERN:
            yield from repetitions(value[3], before)
        elif kind in (ops.ATOMIC_GROUP,):
            yield from repetitions(value, before)
        elif kind in (ops.ASSERT, ops.ASSERT_NOT):
            yield from repetitions(value[1], before)
        before += sample([(kind, value)], 0)


def hostile_texts(pattern: re.Pattern[str]) -> list[tuple[str, str, str]]:
    """Return beginnings, texts to repeat, and ends."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    pumps: dict[tuple[str, str], None] = {}
    for before, body in repetitions(tree):
        bodies = [sample(body, choice) for choice in range(4)]
        pumps |= {(before, text): None for text in (*bodies, bodies[0] + bodies[1])}
        pumps |= {("", before + text): None for text in bodies[:2]}
    for whole in (sample(tree, choice) for choice in range(3)):
        pumps |= {("", whole): None, ("", whole[:-1]): None, ("", f"{whole} "): None}
    return [(before, pump, end) for before, pump in pumps if pump for end in ENDS]


def seconds(case: Case, text: str) -> float:
    started = time.process_time()
    case.run(text)
    return time.process_time() - started


def growth(case: Case, before: str, pump: str, end: str) -> float:
    """Return the growth of time from SHORT to LONG, or 0 if the pattern is fast."""
    taken = 0.0
    for size in STEPS:
        text = before + pump * (size // len(pump) + 1) + end
        taken_before, taken = taken, seconds(case, text)
        if taken > 10 * FLOOR_S and size < SHORT:
            return float("inf")
        if size >= ENOUGH and taken * (LONG / size) ** 3 < FLOOR_S:
            return 0.0
        if size == ENOUGH and taken < FLOOR_S and taken < LINEAR * taken_before:
            return 0.0
    if taken < FLOOR_S:
        return 0.0
    short, long = (before + pump * (size // len(pump) + 1) + end for size in (SHORT, LONG))
    return min(taken, seconds(case, long)) / max(max(seconds(case, short) for _ in range(2)), 1e-4)


def first_slow(case: Case) -> tuple[float, tuple[str, str, str]] | None:
    """Return the growth on the first text for which it is too large, with the text."""
    measured = ((growth(case, *text), text) for text in hostile_texts(case.pattern))
    return next((found for found in measured if found[0] > MAX_GROWTH), None)


def test_every_pattern_takes_linear_time() -> None:
    cases = all_cases()
    assert len(cases) > 100
    slow = []
    for case in cases:
        if found := first_slow(case):
            slow.append(f"{case.place}: {case.pattern.pattern[:80]!r} grows by {found[0]:.0f} on {found[1]}")
    assert slow == [], "\n".join(slow)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"\s+$", r"(?:\w+\.?)+;", r"<[^>]*>"])
def test_the_measurement_finds_slow_patterns(pattern: str) -> None:
    case = Case(re.compile(pattern), "example", set())
    assert any(first_slow(case) for _ in range(10))  # other processes may blur a measurement
