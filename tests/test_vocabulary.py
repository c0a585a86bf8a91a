"""One word for one thing: what labels, messages and help say is in *Words on pages* of docs/architecture.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from babel.messages.pofile import read_po
from django.utils.translation import override

from memories.models import Attachment, Category, Confidence, Dimension, Status, Visibility
from memory_project import field_names
from memory_project.portal import labels, memory_list
from memory_project.portal.form_fields import FIELD_LABELS
from tests.docs_tables import ROOT, table

WORDS = table("docs/architecture.md", "| on pages |")
PAGES = tuple(sorted((ROOT / "templates" / "help").glob("*.md")))
# A help text of a model belongs to its migrations, and is shown to admins beside the name of the column.
MODELS = re.compile(r"(^|/)models(/|\.py)")
SYNONYMS = "templates/_palette.html"  # further words by which the palette finds an action
# Labels of forms that are not fields of a memory.
OTHER_FIELDS = {"Reason", "Note"}


def cells(column: int) -> set[str]:
    """Return the words of a column of the table, whose cells list them with commas between them."""
    texts = [[name, *row][column] for name, row in WORDS.items()]
    return {word.strip() for text in texts for word in text.split(",") if word.strip()}


LABELS = cells(0) | cells(2)
UNWANTED = cells(3)


def unwanted_in(text: str) -> list[str]:
    return [word for word in sorted(UNWANTED) if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)]


def messages() -> Iterable[tuple[str, str]]:
    """Yield every message of the pages, without code and placeholders, with a place where it is written."""
    with (ROOT / "locale" / "de" / "LC_MESSAGES" / "django.po").open("rb") as file:
        for message in read_po(file):
            places = [place for place, _ in message.locations if not MODELS.search(place)]
            for text in (message.id,) if isinstance(message.id, str) else message.id:
                if text and places and places != [SYNONYMS]:
                    yield re.sub(r"`[^`]*`|%\(\w+\)s", "", text), places[0]


def test_the_table_names_words_that_are_avoided() -> None:
    assert {"visibility", "dimension", "unsettled"} <= UNWANTED
    assert not {term for term in LABELS if unwanted_in(term)}


@pytest.mark.parametrize(
    "choices", [Status, Visibility, Dimension, Category, Confidence, Attachment], ids=lambda choices: choices.__name__
)
def test_values_have_the_label_of_the_table(choices: type) -> None:
    with override("en"):
        shown = {str(label) for label in choices.labels}  # type: ignore[attr-defined]
        titled = {str(labels.title_of(value)) for value in choices.values}  # type: ignore[attr-defined]
    assert shown <= LABELS
    assert choices is Attachment or titled == shown, "the admin and the pages call a value differently"


def test_fields_and_filters_have_a_label_of_the_table() -> None:
    with override("en"):
        fields = {str(label) for label in FIELD_LABELS.values()} - OTHER_FIELDS
        facets = {str(title) for title in memory_list.FACETS.values()}
        groups = (memory_list.ABOUT, memory_list.KINDS, memory_list.STATUSES, memory_list.OWNERS, labels.READERS)
        options = {str(label) for group in groups for label in group.values()}
    assert fields | facets | options <= LABELS


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
