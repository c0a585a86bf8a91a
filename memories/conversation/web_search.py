"""Web search through Tavily's API. Results are returned to the caller and never stored as memories."""

from __future__ import annotations

import json
import time
from typing import Any

from django.conf import settings

from foundation.database import connections
from foundation.operations.errors import Upstream
from foundation.outbound import bounded_http
from foundation.people.caller import Caller
from memories.conversation.acting_user import acting_as
from memories.conversation.operations import SearchWeb

NO_KEY = "Web search service unavailable: Tavily API key not configured"
ANSWER_BYTES = 2_000_000
MAX_RESULTS = 10
MAX_CONTENT = 2_000  # maximum length, in characters, of the text of one result


def search_web(caller: Caller, operation: SearchWeb) -> list[dict[str, str]]:
    """Return title, URL and text of each result. Raises Upstream if there is no API key or if the service fails."""
    acting_as(caller, operation.user_id)
    if not settings.TAVILY_API_KEY:
        raise Upstream(NO_KEY)
    import httpx  # noqa: PLC0415 - the import takes a tenth of a second, and only requests need it

    connections.close_if_pooled()
    try:
        results = json.loads(_request(operation.query))["results"]
        return [_result(result) for result in results[:MAX_RESULTS]]
    except httpx.HTTPStatusError as error:
        raise Upstream(
            f"Web search service unavailable: it responded with status {error.response.status_code}"
        ) from None
    except (httpx.HTTPError, bounded_http.AnswerTooLarge) as error:
        raise Upstream(f"Web search service unavailable: {type(error).__name__}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Upstream("Web search service unavailable: its response can't be read") from None


def _request(query: str) -> bytes:
    import httpx  # noqa: PLC0415 - as above

    address = f"{settings.TAVILY_URL.rstrip('/')}/search"
    headers = {"Authorization": f"Bearer {settings.TAVILY_API_KEY}"}
    body = {"query": query, "max_results": MAX_RESULTS}
    deadline = time.monotonic() + settings.TAVILY_TIMEOUT_S
    with httpx.stream("POST", address, json=body, headers=headers, timeout=settings.TAVILY_TIMEOUT_S) as response:
        response.raise_for_status()
        return bounded_http.read(response, ANSWER_BYTES, deadline)


def _result(result: dict[str, Any]) -> dict[str, str]:
    url = str(result.get("url", ""))
    return {
        "title": str(result.get("title", ""))[:300],
        "url": url if url.startswith(("http://", "https://")) else "",
        "content": str(result.get("content", ""))[:MAX_CONTENT],
    }
