"""Answers of other systems, read with an end: to their size once decompressed, and to the time they take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

ENCODINGS = {"", "identity", "gzip", "deflate"}  # those that grow at most a thousandfold from one read to the next


class AnswerTooLarge(Exception):
    """More than this side takes; what came was dropped."""


def read(response: httpx.Response, most_bytes: int, deadline: float = float("inf")) -> bytes:
    """The decompressed body of a streamed response. Raises AnswerTooLarge, or httpx.ReadTimeout after `deadline` (of
    time.monotonic), however slowly the rest would drip in."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise AnswerTooLarge(f"the content encoding {encoding[:40]!r} is not read")
    parts, size = [], 0
    for part in response.iter_bytes():
        size += len(part)
        if size > most_bytes:
            raise AnswerTooLarge(f"the answer has more than {most_bytes:,} bytes")
        if time.monotonic() > deadline:
            import httpx  # noqa: PLC0415 - a tenth of a second that only who asks other systems needs

            raise httpx.ReadTimeout("the answer took too long", request=response.request)
        parts.append(part)
    return b"".join(parts)
