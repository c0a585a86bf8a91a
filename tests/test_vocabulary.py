"""One word for one thing: what labels, messages and help say is in *Words on pages* of docs/architecture.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from babel.messages.pofile import read_po
from django.utils.translation import override

from memories.models import Attachment, Category, Confidence, Dimension, Source, Status, Visibility
from memory_project import field_names
from memory_project.portal import labels, memory_list
from memory_project.portal.form_fields import FIELD_LABELS
from tests.docs_tables import ROOT, table

WORDS = table("docs/architecture.md", "| on pages |")
PAGES = tuple(sorted((ROOT / "templates" / "help").glob("*.md")))
# A help text of a model belongs to its migrations, and is shown to admins beside the name of the column.
MODELS = re.compile(r"(^|/)models(/|\.py)")
# Labels of forms that are not fields of a memory.
OTHER_FIELDS = {"reason", "notes"}


def words(cell: str, separator: str = ",") -> set[str]:
    return {word.strip().strip("`") for word in cell.split(separator) if word.strip()}


LABELS = {label for name in WORDS for label in words(name)}
VALUES = {value for _, values, _ in WORDS.values() for value in words(values, "·")}
UNWANTED = {word for _, _, unwanted in WORDS.values() for word in words(unwanted)}


def row_of(field: str) -> tuple[set[str], set[str]]:
    """Return the labels and the values that the table has for a field of the tools."""
    ((name, values),) = [(name, values) for name, (tools, values, _) in WORDS.items() if field in words(tools)]
    return words(name), words(values, "·")


def unwanted_in(text: str) -> list[str]:
    return [word for word in sorted(UNWANTED) if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)]


def messages() -> Iterable[tuple[str, str]]:
    """Yield every message of the pages, without code and placeholders, with a place where it is written."""
    with (ROOT / "locale" / "de" / "LC_MESSAGES" / "django.po").open("rb") as file:
        for message in read_po(file):
            places = [place for place, _ in message.locations if not MODELS.search(place)]
            for text in (message.id,) if isinstance(message.id, str) else message.id:
                if text and places:
                    yield re.sub(r"`[^`]*`|%\(\w+\)s", "", text), places[0]


def test_the_table_names_words_that_are_avoided() -> None:
    assert {"visibility", "dimension", "unsettled"} <= UNWANTED
    assert not {term for term in LABELS | VALUES if unwanted_in(term)}


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ("status", Status),
        ("visibility", Visibility),
        ("dimension", Dimension),
        ("category", Category),
        ("confidence", Confidence),
        ("source", Source),
        ("attachment", Attachment),
    ],
)
def test_values_have_the_label_of_the_table(field: str, choices: type) -> None:
    with override("en"):
        shown = {str(label) for label in choices.labels}  # type: ignore[attr-defined]
        titled = {str(labels.title_of(value)) for value in choices.values}  # type: ignore[attr-defined]
    _, values = row_of(field)
    assert shown <= values
    assert titled == shown, "the admin and the pages call a value differently"


@pytest.mark.parametrize("field", sorted(FIELD_LABELS.keys() - OTHER_FIELDS))
def test_a_field_has_the_label_of_its_row(field: str) -> None:
    with override("en"):
        assert str(FIELD_LABELS[field]) in row_of(field)[0]


@pytest.mark.parametrize(
    ("facet", "field", "options"),
    [
        ("kind", "tiers", memory_list.KINDS),
        ("status", "status", memory_list.STATUSES),
        ("owner", "created_by", memory_list.OWNERS),
        ("attachment", "attachment", memory_list.ATTACHMENTS),
        ("dimension", "dimension", {}),
        ("category", "category", {}),
        ("persona", "persona", {}),
        ("tag", "tags", {}),
        ("entity", "entity_urns", {}),
        ("about", "settle", memory_list.ABOUT),
    ],
)
def test_a_filter_has_the_label_and_the_values_of_its_row(facet: str, field: str, options: dict[str, Any]) -> None:
    names, values = row_of(field)
    with override("en"):
        assert str(memory_list.FACETS[facet]) in names
        assert {str(label) for label in options.values()} <= values


def test_every_filter_is_compared() -> None:
    (compared,) = [mark.args[1] for mark in test_a_filter_has_the_label_and_the_values_of_its_row.pytestmark]
    assert {facet for facet, _, _ in compared} == set(memory_list.FACETS)


def test_the_admin_names_columns_as_the_pages_do() -> None:
    for name, term in field_names.TERMS.items():
        assert not unwanted_in(term), name
    assert not [name for name in field_names.FIELDS if unwanted_in(name) and name not in field_names.TERMS]


def test_no_message_says_another_word() -> None:
    found = [f"{place}: {text!r} says {words}" for text, place in messages() if (words := unwanted_in(text))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_help_says_another_word(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", page.read_text(), flags=re.DOTALL)
    assert not unwanted_in(text)
