from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.tools import budget
from foundation.tools.budget import fit, fit_items, size
from foundation.tools.shortening import Shortener, shorten_values


@pytest.fixture(autouse=True, scope="module")
def small_budget() -> Iterator[None]:
    with override_settings(ANSWER_BUDGET_BYTES=10_000):
        yield


def test_items_are_returned_until_the_budget_is_used_up() -> None:
    items = ["x" * 1_000] * 20
    fitting, omitted = budget.fit_items(items)
    assert (len(fitting), omitted) == (8, 12)


@pytest.mark.parametrize("others", [0, 3])
def test_a_first_item_larger_than_the_budget_is_returned_alone_and_shortened(others: int) -> None:
    """Otherwise this page and all following pages would be empty."""
    (item,), omitted = budget.fit_items(["x" * 50_000, *["y"] * others])
    assert (item[:8_000], item[-20:], len(item) <= 9_000, omitted) == (
        "x" * 8_000,
        "x… (50000 characters)"[-20:],
        True,
        others,
    )


def test_a_response_of_one_long_text_is_shortened_with_a_note() -> None:
    response = budget.fit({"memory": {"content": "x" * 50_000}})
    assert len(json.dumps(response).encode()) <= 10_000
    assert response["memory"]["content"].endswith("… (50000 characters)")
    assert "shortened" in response["note"]


def test_a_response_within_the_budget_is_unchanged() -> None:
    response: dict[str, Any] = {"records": [1, 2, 3], "content": "x" * 9_000}
    assert budget.fit(response) is response


def test_lists_are_shortened_before_texts() -> None:
    response = budget.fit({"records": ["x" * 1_500] * 20, "total": 20})
    assert all(record == "x" * 1_500 for record in response["records"])
    assert len(response["records"]) + response["omitted"] == 20


def test_earlier_omissions_are_counted_too() -> None:
    response = budget.fit({"records": ["x" * 1_500] * 20, "omitted": 5})
    assert len(response["records"]) + response["omitted"] == 25


DEEP: dict[str, Any] = {
    "keys": {f"key {number}": "x" * 100 for number in range(2_000)},
    "long_keys": {"k" * 50_000: 1},
    "list": list(range(50_000)),
    "lists": [[[["x" * 1_500] for _ in range(100)]]],
    "text": "é" * 50_000,
    "control": "\x01" * 50_000,
    "escaped": ["\n" * 100] * 1_000,
}


@pytest.mark.parametrize("kind", DEEP)
def test_responses_and_single_items_fit_whatever_their_depth(kind: str) -> None:
    shortened = fit({"id": "a", "row": {"nested": DEEP[kind]}, "note": "first"})
    assert size(shortened) <= 10_000
    assert (shortened["id"], shortened["note"][:16]) == ("a", "first; shortened")
    items, omitted = fit_items([{"id": "a", "nested": DEEP[kind], "last": "z"}, {"id": "b"}])
    assert size(items) <= 10_000
    assert (len(items), omitted, items[0]["id"], items[0]["last"]) == (1, 1, "a", "z")


def test_the_largest_values_are_shortened_first() -> None:
    values = {"a": "x" * 100, "b": "y" * 5_000, "c": list(range(5_000))}
    shortened, left_out = shorten_values(values, 2_000, 2_000)
    assert (shortened["a"], size(shortened) <= 2_000, left_out > 4_000) == ("x" * 100, True, True)
    assert re.fullmatch(r"y+… \(5000 characters\)", shortened["b"])
    assert re.fullmatch(r"… \d+ more", shortened["c"][-1])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_a_value_that_fits_is_copied_as_it_is(value: Any) -> None:
    shortener = Shortener(1_000_000, 1_000_000)
    assert (shortener.copy(value), shortener.left_out) == (value, 0)
