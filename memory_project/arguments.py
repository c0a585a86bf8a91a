"""Types of command-line arguments that say what is allowed."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def between(low: int, high: int) -> Callable[[str], int]:
    """A whole number in this range, ends included."""

    def whole(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ArgumentTypeError(f"{text!r} is out of range; allowed: {low} to {high}")
        return int(text)

    return whole


port = between(1, 65_535)
