"""Precision and recall of contradictions on labelled pairs, with the minimums that docs/benchmarks.md promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memories.texts.contradiction import contradiction

pytestmark = pytest.mark.django_db
TABLE = Path(__file__).parent.parent / "data" / "contradiction_pairs.jsonl"
PAIRS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("part", ["tuned", "held", "later"])
def test_reported_contradictions_are_real_and_most_real_ones_are_reported(part: str) -> None:
    pairs = [pair for pair in PAIRS if pair["part"] == part]
    assert len(pairs) > 40
    reported = [pair for pair in pairs if contradiction(pair["first"], pair["second"])]
    right = [pair for pair in reported if pair["conflict"]]
    wrong = [f"{pair['first']} | {pair['second']}" for pair in reported if not pair["conflict"]]
    assert len(right) / len(reported) >= 0.97, wrong
    assert len(right) / sum(pair["conflict"] for pair in pairs) >= 0.85


def test_the_order_of_the_two_texts_does_not_matter() -> None:
    one_sided = [
        (pair["first"], pair["second"])
        for pair in PAIRS
        if bool(contradiction(pair["first"], pair["second"])) != bool(contradiction(pair["second"], pair["first"]))
    ]
    assert one_sided == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Returns take 30 days.", "In Austria, returns take 14 days."),  # a part has a rule of its own
        ("VAT is 19%.", "In 2020, VAT was 16%."),
        ("An order has 2 parcels.", "An order has at most 3 parcels."),
        ("Team A has 5 people.", "Team B has 8 people."),
        ("The job runs for 1 month.", "The job runs for 30 days."),
        ("Before the move, rents are gross.", "After the move, rents are gross."),
        ("During the sale, returns are free.", "Outside the sale, returns are not free."),
    ],
)
def test_texts_about_different_cases_do_not_conflict(first: str, second: str) -> None:
    assert contradiction(first, second) == contradiction(second, first) == ""


def test_units_of_a_column_conflict_without_a_number() -> None:
    assert contradiction("Prices are in EUR.", "Prices are in USD.") == "eur against usd"
    assert contradiction("Weights are in grams.", "Weights are in pounds.") == "grams against pounds"
    assert contradiction("The price is in cents.", "The weight is in grams.") == ""


def test_ranges_conflict() -> None:
    assert contradiction("Lapsing means 90 to 180 days.", "Lapsing means 120 to 240 days.") != ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Add twelve days to last year's lead times.", "Add twelve days to the lead times of last year."),
        ("The plan is open before May.", "The plan is open in May."),
    ],
)
def test_the_same_time_in_other_words_does_not_conflict(first: str, second: str) -> None:
    assert contradiction(first, second) == ""


def test_opposite_sides_of_a_time_conflict() -> None:
    assert contradiction("Data is complete since 2022.", "Data is complete until 2022.") != ""
