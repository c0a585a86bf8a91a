"""Reading of HTTP responses with limits on the decompressed size and on the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

ENCODINGS = {"", "identity", "gzip", "deflate"}  # content encodings that expand a chunk at most a thousandfold


class AnswerTooLarge(Exception):
    """The response is too large, or its content encoding is not one of ENCODINGS."""


def read(
    response: httpx.Response, most_bytes: int, deadline: float = float("inf"), *, decompress: bool = True
) -> bytes:
    """Return the body of a streamed response, decompressed unless `decompress` is false.

    Raise AnswerTooLarge for more than `most_bytes` bytes or an unsupported encoding. Raise httpx.ReadTimeout if a chunk
    arrives after `deadline`, a time of time.monotonic(). httpx's own timeout limits only the time between two chunks.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if decompress and encoding not in ENCODINGS:
        raise AnswerTooLarge(f"the content encoding {encoding[:40]!r} is not supported")
    parts = []
    size = 0
    for part in response.iter_bytes() if decompress else response.iter_raw():
        size += len(part)
        if size > most_bytes:
            raise AnswerTooLarge(f"the response has more than {most_bytes:,} bytes")
        if time.monotonic() > deadline:
            import httpx  # noqa: PLC0415 - takes 0.1 s, which processes without requests to other systems save

            raise httpx.ReadTimeout("the response took too long", request=response.request)
        parts.append(part)
    return b"".join(parts)
