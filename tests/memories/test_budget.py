from __future__ import annotations

import json
from typing import Any

import pytest

from memories.contract import budget


@pytest.fixture(autouse=True)
def small_budget(settings: Any) -> None:
    settings.ANSWER_BUDGET_BYTES = 10_000


def test_items_are_returned_until_the_budget_is_used_up() -> None:
    items = ["x" * 1_000] * 20
    fitting, omitted = budget.fit_items(items)
    assert (len(fitting), omitted) == (8, 12)


@pytest.mark.parametrize("others", [0, 3])
def test_a_first_item_larger_than_the_budget_is_returned_alone(others: int) -> None:
    """Otherwise this page and all following pages would be empty."""
    items = ["x" * 50_000, *["y"] * others]
    assert budget.fit_items(items) == (items[:1], others)


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
