"""Argument types for argparse, with error messages that name the allowed values."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def between(low: int, high: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ArgumentTypeError(f"{text!r} is not a whole number in the range; allowed: {low} to {high}")
        return int(text)

    return integer


port = between(1, 65_535)
