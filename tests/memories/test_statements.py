"""Comparison of two statements: the same, near, or different in a fact."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memories.texts.comparison import TextVerdict, compare

pytestmark = pytest.mark.django_db
PAIRS_FILE = Path(__file__).resolve().parent.parent / "data" / "statement_pairs.tsv"
REWORDING, OTHER_WORD = "rewording", "rewording, other word"


def pairs() -> list[tuple[str, str, str]]:
    with PAIRS_FILE.open(encoding="utf-8") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(kind, first, second) for kind, first, second in rows if kind != "kind"]


def test_half_of_the_rewordings_replace_a_content_word() -> None:
    kinds = [kind for kind, _, _ in pairs()]
    assert len(kinds) >= 200
    assert kinds.count(OTHER_WORD) >= kinds.count(REWORDING)


def test_no_pair_with_a_changed_fact_is_the_same() -> None:
    changed = [(first, second) for kind, first, second in pairs() if not kind.startswith(REWORDING)]
    swapped = [(second, first) for first, second in changed]
    assert [pair for pair in changed + swapped if compare(*pair).verdict == TextVerdict.SAME] == []


@pytest.mark.parametrize("kind", ["changed number", "changed time", "negation", "antonym"])
def test_a_changed_number_time_negation_or_opposite_is_more_than_another_wording(kind: str) -> None:
    changed = [(first, second) for of_kind, first, second in pairs() if of_kind == kind]
    assert [pair for pair in changed if compare(*pair).verdict != TextVerdict.DIFFERENT] == []


def test_two_in_five_rewordings_are_the_same_and_nearly_all_are_near() -> None:
    verdicts = [compare(first, second).verdict for kind, first, second in pairs() if kind.startswith(REWORDING)]
    assert verdicts.count(TextVerdict.SAME) / len(verdicts) >= 0.4
    assert verdicts.count(TextVerdict.DIFFERENT) / len(verdicts) <= 0.05


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ("The till closes at 10 pm.", "The till closes at 9 pm.", "10 pm against 9 pm"),
        ("The dose is 5 mg.", "The dose is 7 mg.", "5 mg against 7 mg"),
        ("The rod is 5 km long.", "The rod is 5 miles long.", "5 km against 5 miles"),
        ("Orders from Hamburg are late.", "Orders from Munich are late.", "hamburg against munich"),
        ("Refunds count.", "Refunds do not count.", "“not” on one side only"),
        ("Prices with tax", "Prices without tax", "with against without"),
        ("Anna called Ben.", "Ben called Anna.", "the same words in another order"),
        ("Who was paid?", "Who paid?", "another tense or voice"),
        ("The shop is big.", "The shop is blue.", "big against blue"),
    ],
)
def test_what_differs_is_quoted(first: str, second: str, difference: str) -> None:
    assert str(compare(first, second)) == difference


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Los ingresos de Madrid no incluyen devoluciones.", "Los ingresos de Madrid incluyen devoluciones."),
        ("Le magasin de Lyon ouvre à 8 heures.", "Le magasin de Lyon ouvre à 9 heures."),
        ("売上には返品を含まない。", "売上には返品を含む。"),
        ("", "text"),
    ],
)
def test_in_other_languages_only_equal_words_are_the_same(first: str, second: str) -> None:
    assert compare(first, second).verdict != TextVerdict.SAME
    assert compare(first, f" {first.upper()} ").verdict == TextVerdict.SAME


def test_long_identifiers_are_compared_digit_by_digit() -> None:
    number = "1234567890" * 4
    assert compare(f"Is parcel {number}1 lost?", f"Is parcel {number}2 lost?").verdict != TextVerdict.SAME


@given(st.text(max_size=80), st.text(max_size=80))
@hypothesis_settings(max_examples=60)
def test_any_two_texts_can_be_compared_in_both_directions(first: str, second: str) -> None:
    assert compare(first, second).verdict == compare(second, first).verdict
    assert compare(first, first).verdict == TextVerdict.SAME
