"""Reading of notes: Markdown with front matter, and those of basic-memory."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from django.utils import timezone

from foundation.operations.errors import Invalid
from memories.operations import Remember
from memory_project.exchange.imports.formats.front_matter import why_not_read
from memory_project.exchange.imports.formats.memory_rows import split_text
from memory_project.exchange.imports.formats.sections import split_at_headings
from tests.memory_project.import_samples import (
    BASIC_MEMORY_NOTE,
    NOTE,
    contents,
    rows,
    zipped,
)


def test_markdown_front_matter() -> None:
    (row,) = rows("markdown", NOTE.encode(), "notes/Freight rules.md")
    assert row.key == row.place == "notes/Freight rules.md"
    assert row.data == {
        "content": "# Freight rules\n\nFreight is counted by pallet.",
        "tags": ["freight", "rules"],
        "metadata": {"front_matter": {"owner": "Ana"}},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no text"),
        ("---\ntags: [a]\n---\n", "has no text"),
        ("A text with \0 in it.", "NUL"),
    ],
)
def test_faulty_notes(text: str, problem: str) -> None:
    archive = zipped({"bad.md": text, "good.md": "A good note."})
    bad, good = rows("markdown", archive, "vault.zip")
    assert problem in bad.problem
    assert (bad.place, contents([good])) == ("bad.md", ["# good\n\nA good note."])


@pytest.mark.parametrize(
    ("front_matter", "problem"),
    [
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: 1\na: 2", "key 'a' twice"),
        ("- 1", "is not a list of keys"),
        ("a: [1", "YAML"),
        ("title: Fwd: Clever Household Hints\ndate: 2014-04-30", "YAML"),
        ("a: " + "[" * 500, "levels"),
        ("a: " + "x" * 70_000, "characters"),
    ],
)
@pytest.mark.parametrize("format", ["markdown", "basic-memory"])
def test_a_note_whose_front_matter_cannot_be_read_keeps_its_text(format: str, front_matter: str, problem: str) -> None:
    (row,) = rows(format, f"---\n{front_matter}\n---\nStores keep two weeks of soil.\n".encode(), "hints.md")
    assert row.problem == ""
    assert "Stores keep two weeks of soil." in row.data["content"]
    assert problem in str(row.data["metadata"])


def test_nested_tags_are_tags() -> None:
    (row,) = rows("markdown", b"---\ntags: [[misc], [pallets, [freight]], 2026]\n---\nBody of the note.\n", "a.md")
    assert row.data["tags"] == ["misc", "pallets", "freight", "2026"]


def test_keys_of_notes_are_read_without_case() -> None:
    note = b"---\nTags: [freight]\nCreated: 2026-03-01\nTitle: Lanes\nOwner: ana\n---\nLanes are renumbered.\n"
    for format in ("markdown", "basic-memory"):
        (row,) = rows(format, note, "a.md")
        assert (row.data["tags"], row.data["created_at"]) == (["freight"], "2026-03-01T00:00:00+00:00")
        assert row.data["content"].startswith("# Lanes")
        assert row.data["metadata"] == {"front_matter": {"title": "Lanes", "created": "2026-03-01", "Owner": "ana"}}
    (both,) = rows("markdown", b"---\ntags: [lanes]\nTags: [freight]\n---\nLanes are renumbered.\n", "a.md")
    assert both.data["tags"] == ["lanes"]
    assert both.data["metadata"]["front_matter"] == {"Tags": ["freight"]}
    (neither,) = rows("markdown", b"---\nTAGS: [lanes]\nTags: [freight]\n---\nLanes are renumbered.\n", "a.md")
    assert neither.data["tags"] == ["lanes"]
    assert neither.data["metadata"]["front_matter"] == {"Tags": ["freight"]}


def test_a_note_says_how_long_it_is_true() -> None:
    """A date means the whole day, as in the other ways in. A bound that says nothing stays metadata."""
    note = "---\nvalid_from: 2026-01-01\nvalid_until: {}\n---\nLanes are renumbered.\n"
    day = timezone.now().date() + timedelta(days=400)
    (row,) = rows("markdown", note.format(day).encode(), "a.md")
    remembered = Remember.read(dict(row.data))
    assert remembered.valid_until == datetime.combine(day, time.max, UTC)
    assert remembered.valid_from == datetime(2026, 1, 1, tzinfo=UTC)
    assert "metadata" not in row.data
    (other,) = rows("markdown", note.format("2999-12-31").encode(), "a.md")
    assert "valid_until" not in other.data
    assert other.data["metadata"] == {"front_matter": {"valid_until": "2999-12-31"}}


@pytest.mark.parametrize("text", ["the next audit", "31.12.2025"])
def test_a_bound_that_is_no_date_is_named_in_the_report(text: str) -> None:
    (row,) = rows("markdown", f"---\nvalid_until: {text}\n---\nLanes are renumbered.\n".encode(), "a.md")
    assert "valid_until" not in row.data
    assert why_not_read(row.data) == f"valid_until {text!r} is not a date"
    (conditional,) = rows("markdown", b"---\nvalid_while: period:autumn\n---\nLanes are renumbered.\n", "a.md")
    assert conditional.data["valid_while"] == "period:autumn"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_notes_in_another_encoding(encoding: str) -> None:
    with pytest.raises(Invalid, match="UTF-8"):
        rows("markdown", "schöne Notiz".encode(encoding))


def test_a_horizontal_line_is_no_front_matter() -> None:
    text = "---\nSome prose.\n---\nMore prose."
    assert contents(rows("markdown", text.encode(), "a.md")) == [f"# a\n\n{text}"]


def test_a_long_note_is_split_at_headings_outside_of_code() -> None:
    code = "```\n# no heading\n```\n\n"
    sections = "".join(f"## Part {number}\n\n{code}{'Some text. ' * 200}\n\n" for number in range(3))
    found = rows("markdown", f"# Title\n\nIntroduction.\n\n{sections}".encode(), "note.md")
    assert [row.key for row in found] == [
        "note.md#Title", "note.md#Title/Part 0", "note.md#Title/Part 1", "note.md#Title/Part 2",
    ]  # fmt: skip
    assert all(text.startswith("# Title") for text in contents(found))
    assert "# no heading" in contents(found)[1]
    assert found[1].place == "note.md, line 5"


def test_places_are_lines_of_the_file() -> None:
    text = "---\ntags: [a]\n---\n\nIntroduction.\n\n## Part\n\n" + "Some text. " * 400
    found = rows("markdown", text.encode(), "note.md")
    assert [row.place for row in found] == ["note.md, line 5", "note.md, line 9", "note.md, line 9"]


@pytest.mark.parametrize(
    "text",
    ["x" * 30_000, "word " * 9_000, "# A\n" * 4_000, ("# " + "long " * 900 + "\n\n") * 3 + "end", "a\n===\n" * 3_000],
)
def test_parts_fit_and_none_is_tiny(text: str) -> None:
    parts = split_at_headings(text, 4_000)
    assert all(len(part.content) <= 4_000 for part in parts)
    assert "".join("".join(split_text(text, 4_000)).split()) == "".join(text.split())
    assert min(map(len, split_text(text, 4_000))) >= 1_000


def test_headings_of_a_note_with_very_many_lines_are_not_looked_for() -> None:
    """Their number would decide how much memory is needed."""
    parts = split_at_headings("# A\n" * 30_000)
    assert len(parts) < 100
    assert {part.titles for part in parts} == {()}


def test_basic_memory() -> None:
    observation, relation, other, prose = rows("basic-memory", BASIC_MEMORY_NOTE.encode(), "coffee.md")
    assert observation.data["content"] == "Coffee: Pour over keeps the taste #brewing (compared in March)"
    assert observation.data["tags"] == ["drinks", "brewing"]
    assert observation.data["metadata"]["basic_memory"]["category"] == "method"
    assert observation.place == "coffee.md, line 13"
    assert (relation.data["content"], relation.data["dimension"]) == ("Coffee relates to Tea", "relationship")
    assert other.data["content"] == "Coffee is better than Instant coffee (for guests)"
    assert prose.data["content"] == (
        "# Coffee\n\nNotes on brewing.\n\n## Observations\n- [ ] buy filters\n- [00:12] not an observation"
    )
