"""A text field that a template writes by itself takes as many characters as the operation behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foundation.operations.operation import Operation
from knowledge import operations as knowledge
from knowledge.contradictions.operations import GiveVerdict
from knowledge.debt.operations import AnswerInterview
from knowledge.suggestions.operations import Keep
from memories import operations as memories
from memory_project.rest.own import CreateToken, SaveView
from memory_project.rest.people import InvitePerson
from tests.docs_tables import ROOT

TEMPLATES = ROOT / "templates"
Field = tuple[type[Operation], str]
# template and name of the field → the operation that reads it
FIELDS: dict[tuple[str, str], Field] = {
    ("admin/act.html", "choice"): (memories.Supersede, "content"),
    ("admin/act.html", "reason"): (memories.Forget, "reason"),
    ("apps/review.html", "notes"): (knowledge.Reject, "review_notes"),
    ("cases/contradiction.html", "note"): (GiveVerdict, "note"),
    ("cases/question.html", "content"): (AnswerInterview, "content"),
    ("cases/suggestion.html", "content"): (Keep, "content"),
    ("changesets/one.html", "notes"): (knowledge.ApproveChangeset, "review_notes"),
    ("knowledge/entity/_caveats.html", "reason"): (knowledge.Waive, "reason"),
    ("knowledge/my_insights.html", "answer"): (knowledge.AnswerQuestion, "notes"),
    ("operate/people.html", "email"): (InvitePerson, "email"),
    ("operate/people.html", "name"): (InvitePerson, "name"),
    ("portal/_save_view.html", "name"): (SaveView, "name"),
    ("portal/batch_preview.html", "note"): (memories.Forget, "reason"),
    ("portal/connect.html", "name"): (CreateToken, "name"),
    ("portal/memory/_insight.html", "reason"): (knowledge.Appeal, "notes"),
    ("portal/memory/_word.html", "reason"): (memories.MarkFeedback, "note"),
    ("portal/saved_views.html", "name"): (SaveView, "name"),
    ("review/_conflict.html", "note"): (knowledge.Reject, "review_notes"),
    ("review/_needs_more.html", "note"): (knowledge.NeedMore, "review_notes"),
    ("review/_note.html", "note"): (knowledge.Approve, "review_notes"),
    ("review/_reject.html", "note"): (knowledge.Reject, "review_notes"),
    ("review/list.html", "note"): (knowledge.Approve, "review_notes"),
}
# Not read by an operation: a search, credentials of an upstream, which only its store limits, and a note that is cut.
OTHERS = {("_palette.html", "q"), ("portal/systems.html", "secret"), ("cases/upstream_tool.html", "note")}
ELEMENT = re.compile(r"<(?:input|textarea)\b[^>]*\bmaxlength=\"(\d+)\"[^>]*>", re.DOTALL)
NAME = re.compile(r"\b(?:name|data-input)=\"(\w+)\"")


def limits(template: Path) -> dict[tuple[str, str], int]:
    """Return the limits that the template states in figures, by template and name of the field."""
    text = re.sub(r"{%.*?%}", "", template.read_text())
    place = str(template.relative_to(TEMPLATES))
    return {(place, NAME.findall(match[0])[0]): int(match[1]) for match in ELEMENT.finditer(text)}


STATED = {field: limit for template in sorted(TEMPLATES.rglob("*.html")) for field, limit in limits(template).items()}


def test_every_limit_in_a_template_belongs_to_an_operation() -> None:
    assert set(STATED) - OTHERS == set(FIELDS)


@pytest.mark.parametrize(("field", "read"), FIELDS.items(), ids=lambda value: " ".join(map(str, value)))
def test_a_template_and_its_operation_have_the_same_limit(field: tuple[str, str], read: Field) -> None:
    operation, name = read
    assert STATED[field] == operation.input_schema(by_alias=False)["properties"][name]["maxLength"]
