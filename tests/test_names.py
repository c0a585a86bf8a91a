"""Names are nouns for things and verbs for functions. A bare participle or pronoun says neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import MODULES, ROOT, name_of

BARE = {
    "found",
    "given",
    "known",
    "made",
    "told",
    "kept",
    "asked",
    "got",
    "said",
    "shown",
    "taken",
    "done",
    "begun",
    "sent",
    "seen",
    "left",
    "chosen",
    "meant",
    "wanted",
    "needed",
    "held",
    "used",
    "called",
    "named",
    "listed",
    "stored",
    "placed",
    "gone",
    "lost",
    "written",
    "one",
    "ones",
    "other",
    "others",
    "own",
    "ours",
    "mine",
    "theirs",
    "each",
    "it",
    "that",
    "who",
    "what",
    "which",
    "here",
    "there",
    "place",
    "places",
    "where",
    "when",
    "same",
    "more",
    "most",
    "many",
    "few",
    "much",
}
# Names of the contract: arguments, answer keys and columns.
CONTRACT = {
    "analysis.operations": {"where"},
    "analysis.actions": {"where"},
    "analysis.asking.query": {"where"},
    "analysis.models.action": {"where"},
    "analysis.shapes": {"stored"},
    "knowledge.mcp_tools.catalog": {"more"},
    "knowledge.models.changeset": {"written"},
    "memories.conversation.shapes": {"found"},
}
TESTS = sorted(file for folder in ("tests", "bench") for file in (ROOT / folder).rglob("*.py"))


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a module binds, with the line: variables, arguments, functions, classes, aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


@pytest.mark.parametrize("file", [*MODULES, *TESTS], ids=name_of)
def test_names_can_be_read_aloud(file: Path) -> None:
    allowed = CONTRACT.get(name_of(file), set())
    names = bound_names(ast.parse(file.read_text()))
    assert [f"line {line}: {name}" for name, line in names if name.strip("_") in BARE - allowed] == []
