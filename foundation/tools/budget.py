"""Truncation of responses to ANSWER_BUDGET_BYTES. Dropped items are counted in `omitted`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from django.conf import settings

from foundation.tools.shortening import Shortener, shorten_values

ENVELOPE = 1_000  # bytes reserved for the parts of a response other than its items
NOTE = 200  # bytes reserved for what `fit` adds to a response
BYTES_PER_TOKEN = 3  # of texts with ids, dates and addresses; plain English has about four
TEXT_CUT = 2_000  # characters that are kept of a longer text if shortening the lists was not enough

Item = TypeVar("Item")


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode())


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens of a model's context a text takes. The estimate is rather too high than too low."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def fit_items(items: Sequence[Item], budget: int | None = None) -> tuple[list[Item], int]:
    """Return the leading items whose JSON fits in `budget` bytes minus ENVELOPE, and the number of items left out.

    The first item is always returned, if need be with shorter values. `budget` defaults to ANSWER_BUDGET_BYTES.
    """
    room = (settings.ANSWER_BUDGET_BYTES if budget is None else budget) - ENVELOPE
    fitting: list[Item] = []
    for item in items:
        item_size = size(item) + 2  # the separating comma and space
        if item_size > room:
            if not fitting:
                fitting.append(_shortened(item, room))
            break
        room -= item_size
        fitting.append(item)
    return fitting, len(items) - len(fitting)


def _shortened(item: Item, room: int) -> Item:
    if isinstance(item, Mapping):
        return cast(Item, shorten_values(item, room, max_text=room)[0])
    return cast(Item, Shortener(room, max_text=room).copy(item))


def fit(answer: dict[str, Any]) -> dict[str, Any]:
    """Shorten a response to ANSWER_BUDGET_BYTES, and add the number of dropped items to its key `omitted`.

    Drops the second half of the list with the most bytes until the response fits. Once every list has at most one item,
    texts are cut to TEXT_CUT characters instead, and then values at any depth.
    """
    budget = settings.ANSWER_BUDGET_BYTES
    if size(answer) <= budget:
        return answer
    answer = json.loads(json.dumps(answer, ensure_ascii=False, default=str))  # a copy that may be changed
    omitted = 0
    while size(answer) > budget:
        lists = [(size(items), items) for items in _lists(answer) if len(items) > 1]
        if not lists:
            _cut_texts(answer)
            if size(answer) > budget:
                answer, left_out = shorten_values(answer, budget - NOTE, TEXT_CUT)
                omitted += left_out
            break
        _, longest = max(lists, key=lambda pair: pair[0])
        dropped = (len(longest) + 1) // 2
        del longest[-dropped:]
        omitted += dropped
    answer["omitted"] = int(answer.get("omitted") or 0) + omitted
    answer["note"] = "; ".join(
        filter(None, [str(answer.get("note") or ""), "shortened to fit the response size limit: ask for less"])
    )
    return answer


def _lists(value: Any) -> list[list[Any]]:
    lists = [value] if isinstance(value, list) else []
    for _, item in _items(value):
        lists += _lists(item)
    return lists


def _items(value: Any) -> list[tuple[Any, Any]]:
    """Return the keys and values of an object, the places and values of a list, and nothing for other values."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return list(enumerate(value))
    return []


def _cut_texts(value: Any) -> None:
    for key, item in _items(value):
        if isinstance(item, str) and len(item) > TEXT_CUT:
            value[key] = f"{item[:TEXT_CUT]}… ({len(item)} characters)"
        else:
            _cut_texts(item)


def fit_text(text: str) -> str:
    """Cut a text to ANSWER_BUDGET_BYTES, at a line break if there is one."""
    budget = settings.ANSWER_BUDGET_BYTES
    encoded = text.encode()
    if len(encoded) <= budget:
        return text
    head = encoded[: budget - 200].decode(errors="ignore")  # leaves room for the closing line
    head = head[: head.rfind("\n")] if "\n" in head else head
    return f"{head}\n… {len(text) - len(head)} more characters did not fit: ask for less."
