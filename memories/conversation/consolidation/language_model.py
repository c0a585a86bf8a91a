"""Client of the configured language model, which speaks the chat completions of OpenAI."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import httpx
from django.conf import settings

from foundation.outbound import bounded_http

ANSWER_BYTES = 200_000


def complete(messages: Sequence[dict[str, str]], **options: Any) -> str:
    """Return the text with which ENRICHMENT_MODEL continues the messages. `options` are fields of the request.

    Raises httpx.HTTPError or AnswerTooLarge if the request fails, and ValueError, TypeError, KeyError or IndexError if
    the response is not a completion.
    """
    address = f"{settings.ENRICHMENT_URL.rstrip('/')}/chat/completions"
    headers = {"Authorization": f"Bearer {settings.ENRICHMENT_API_KEY}"} if settings.ENRICHMENT_API_KEY else {}
    body = {"model": settings.ENRICHMENT_MODEL, "messages": list(messages), **options}
    deadline = time.monotonic() + settings.ENRICHMENT_TIMEOUT_S
    with httpx.stream("POST", address, json=body, headers=headers, timeout=settings.ENRICHMENT_TIMEOUT_S) as response:
        response.raise_for_status()
        return str(json.loads(bounded_http.read(response, ANSWER_BYTES, deadline))["choices"][0]["message"]["content"])
