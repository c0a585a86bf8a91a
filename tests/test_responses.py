"""Copying the fields of a response from a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NotRequired
from uuid import UUID

import pytest
from typing_extensions import TypedDict

from foundation.operations.responses import response_of


class NoteResponse(TypedDict):
    id: str
    text: str
    count: int
    read_at: str | None
    author: NotRequired[str]
    written_at: NotRequired[str]
    review_by: NotRequired[str]


@dataclass
class Note:
    id: UUID
    text: str = ""
    count: int = 0
    read_at: datetime | None = None
    author: str = ""
    written_at: datetime | None = None
    review_by: date | None = None


ID = UUID("0123456789abcdef0123456789abcdef")
MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_empty_values_of_required_fields_stay_and_those_of_other_fields_are_left_out() -> None:
    response = response_of(NoteResponse, Note(ID))
    assert response == {"id": ID.hex, "text": "", "count": 0, "read_at": None}


def test_fields_come_in_the_order_of_the_response_with_ids_and_times_as_text() -> None:
    note = Note(ID, author="alice@example.org", read_at=MOMENT, written_at=MOMENT, review_by=date(2026, 4, 1))
    response = response_of(NoteResponse, note, text="a text")
    assert list(response.items()) == [
        ("id", ID.hex),
        ("text", "a text"),
        ("count", 0),
        ("read_at", "2026-03-01T12:00:00+00:00"),
        ("author", "alice@example.org"),
        ("written_at", "2026-03-01T12:00:00+00:00"),
        ("review_by", "2026-04-01"),
    ]


def test_a_given_value_replaces_the_attribute_even_if_it_is_empty() -> None:
    response = response_of(NoteResponse, Note(ID, text="a text", author="alice@example.org"), text="", author="")
    assert response == {"id": ID.hex, "text": "", "count": 0, "read_at": None}


def test_a_value_for_a_field_that_the_response_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="NoteResponse has no field title"):
        response_of(NoteResponse, Note(ID), title="a title")


def test_a_required_field_that_the_row_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="text"):
        response_of(NoteResponse, object(), id=ID)
