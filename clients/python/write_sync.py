"""Write commonplace_client/_sync from commonplace_client/_async: `python clients/python/write_sync.py`.

The two clients differ only in the words below, so that only one of them is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parent / "commonplace_client"
NOTICE = "# Written by write_sync.py from commonplace_client/_async. Change that, and run it again.\n"
WORDS = {
    r"`AsyncCommonplace`": "`Commonplace`",
    r"`Commonplace` has the same methods without `await`": "`AsyncCommonplace` has the same methods for `await`",
    r"for asynchronous programs\b": "for ordinary programs",
    r"\bAsyncCommonplace\b(?!`)": "Commonplace",
    r"\bAsyncClient\b": "Client",
    r"\bAsyncBaseTransport\b": "BaseTransport",
    r"\bAsyncIterator\b": "Iterator",
    r"\b_async\b": "_sync",
    r"\baclose\b": "close",
    r"\b__aenter__\b": "__enter__",
    r"\b__aexit__\b": "__exit__",
    r"\basyncio\b": "time",
    r"\basync (def|with|for)\b": r"\1",
    r"(?<!`)\bawait ": "",
}


def without_async(text: str) -> str:
    for pattern, replacement in WORDS.items():
        text = re.sub(pattern, replacement, text)
    return NOTICE + text


def written() -> dict[Path, str]:
    """Return what the files of _sync should contain."""
    return {
        PACKAGE / "_sync" / file.name: without_async(file.read_text())
        for file in sorted((PACKAGE / "_async").glob("[a-z]*.py"))
    }


if __name__ == "__main__":
    for file, text in written().items():
        file.write_text(text)
