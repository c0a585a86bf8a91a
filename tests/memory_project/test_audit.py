from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from memory_project.audit import named_records, redacted


@pytest.mark.parametrize(
    "key",
    ["content", "insight_text", "summary", "reason", "note", "review_notes", "detail", "text", "value", "response"],
)
def test_texts_of_users_are_replaced_by_their_length(key: str) -> None:
    """Applies to short texts as well, because the audit must not keep copies of erased texts."""
    assert redacted({key: "CHF"}) == {key: "[3 characters]"}
    assert redacted({"messages": [{key: "CHF"}]}) == {"messages": [{key: "[3 characters]"}]}


@pytest.mark.parametrize("key", ["password", "api_key", "X-Authorization", "refresh_token", "clientSecret"])
def test_secrets_are_masked(key: str) -> None:
    assert redacted({key: "hunter2"}) == {key: "[secret]"}


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://hooks.example.org/T0/secret?key=x#y", "https://hooks.example.org/…"),
        ("https://maya:hunter2@example.org?key=x", "https://example.org/…"),
        ("hunter2", "[secret]"),
    ],
)
def test_urls_keep_their_host_alone(url: str, kept: str) -> None:
    assert redacted({"url": url}) == {"url": kept}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * 201, "[201 characters]"),
        ("x" * 200, "x" * 200),
        (float("nan"), "nan"),
        ("\x00\ud800", "\ufffd?"),
        (list(range(60)), list(range(50))),
        (True, True),
    ],
)
def test_other_values_are_stored_up_to_a_limit(value: Any, expected: Any) -> None:
    assert redacted(value) == expected


@pytest.mark.parametrize("key", ["id", "ids", "insight_id", "insight_ids", "record_id"])
def test_an_event_names_the_memories_of_its_call(key: str) -> None:
    """Erasing a memory finds its events by them."""
    first, second = sorted([uuid4(), uuid4()])
    ids = [second.hex, str(first), "nonsense"] if key.endswith("s") else second.hex
    assert named_records({key: ids}, {"id": first.hex}) == [first, second]


@pytest.mark.parametrize(
    "arguments",
    [
        lambda pk: {"memory_id": pk},
        lambda pk: {"memory_ids": ["x", pk]},
        lambda pk: {"supersedes": pk},
        lambda pk: {"changes": [{"target": {"memory": pk}}]},
    ],
)
def test_an_event_names_memories_under_any_key_of_its_arguments(arguments: Any) -> None:
    pk = uuid4()
    assert named_records(arguments(pk.hex), {}) == [pk]


def test_the_memories_that_a_search_lists_are_not_named() -> None:
    """Otherwise erasing them would empty the events of everybody who found them."""
    assert named_records({"query": "revenue"}, {"memories": [{"id": uuid4().hex}]}) == []
