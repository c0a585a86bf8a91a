"""Responses that are sent while they are made, in constant memory, under WSGI and ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from foundation.database import identity
from foundation.people.caller import Caller

PARTS = 200  # parts that are sent together


def streamed(
    request: HttpRequest, caller: Caller, parts: Iterator[bytes], *, file_name: str, media_type: str
) -> StreamingHttpResponse:
    """Return a download of these parts, each made under the identity of the caller. No part may be empty."""

    def chunk() -> bytes:
        with identity.acting_as(caller):
            return b"".join(islice(parts, PARTS))

    # under ASGI, Django would otherwise collect the whole response in memory
    content: Any = _chunks(chunk) if isinstance(request, ASGIRequest) else iter(chunk, b"")
    response = StreamingHttpResponse(content, content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _chunks(chunk: Callable[[], bytes]) -> AsyncIterator[bytes]:
    while content := await sync_to_async(chunk)():
        yield content
