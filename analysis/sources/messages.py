"""Messages of other systems' errors, complete but without credentials, hosts and paths."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_MESSAGE = 2_000  # maximum number of characters of a message
HIDDEN = "…"
PRIVATE = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]{0,63}://[^\s'"<>]+                   # a URL, with whatever credentials it has
    | (?<![\w.)\]*])(?:/[\w.@+~-]+){2,}/?                     # an absolute path; a/b/c is a division
    | (?<=["'])/[^"'\n]*(?=["'])                               # a path in quotes, which may have spaces
    | (?<=\bfile\s")[^"\n]*(?=") | (?<=\bdirectory\s")[^"\n]*(?=")  # as PostgreSQL and DuckDB report files
    | \b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?                    # an IPv4 address
    | (?<![\w-])(?<![\w-]\.)[\w-]++(?:\.[\w-]++)++:\d{2,5}\b  # host:port
    | (?<=\bserver\sat\s)"[^"]*" | (?<=\bhost\sname\s)"[^"]*" # as PostgreSQL reports its address
    """,
    re.IGNORECASE | re.VERBOSE,
)


def error_message(error: Exception, private: Iterable[str] = ()) -> str:
    """Return the whole text of an engine's error, with candidate names and the place in the statement.

    Addresses, paths and the given `private` values are replaced. Longer texts are cut to MAX_MESSAGE characters.
    """
    text = without_private(str(getattr(error, "message", "") or error).strip() or type(error).__name__, private)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + HIDDEN


def without_private(text: str, private: Iterable[str] = ()) -> str:
    """Return the text without addresses, paths and the given `private` values."""
    for value in filter(None, private):
        text = re.sub(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])", HIDDEN, text)
    return PRIVATE.sub(HIDDEN, text)
