"""What a wipe and a hand-over do to each column that names a person.

A change of this list is a decision about people's data: `RECORD=1 pytest tests/memory_project/test_person_columns.py`
writes it anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foundation.people.columns import NOTHING, handed_over, person_columns

FILE = Path(__file__).resolve().parents[1] / "data" / "person_columns.txt"


def lines() -> list[str]:
    wiped = [
        f"wipe: {personal.on_wipe} {model._meta.db_table}.{personal.column}"
        for model, personal in person_columns()
        if personal.on_wipe != NOTHING
    ]
    moved = [
        f"hand-over: {owned.handed_over_as}: {model._meta.db_table}.{owned.column}, unique {owned.unique}"
        for model, owned in handed_over()
    ]
    return sorted(wiped + moved)


def test_a_wipe_and_a_hand_over_do_what_is_recorded() -> None:
    text = "".join(f"{line}\n" for line in lines())
    if os.environ.get("RECORD"):
        FILE.write_text(text)
        pytest.skip("recorded")
    assert text == FILE.read_text()


def test_a_hand_over_has_one_name_for_each_kind() -> None:
    names = [owned.handed_over_as for _, owned in handed_over()]
    assert len(names) == len(set(names))
