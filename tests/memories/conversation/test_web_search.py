"""Web search over HTTP, against a fake of Tavily's API."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Upstream
from foundation.people.caller import Caller
from memories.models import MemoryRecord
from tests.memories.conversation.conftest import call
from tests.memories.conversation.fake_tavily import Tavily, tavily

__all__ = ["tavily"]  # fixtures

pytestmark = pytest.mark.django_db


def test_results_are_returned_and_not_stored(tavily: type[Tavily], alice: Caller) -> None:
    result = {"title": "Example Result", "url": "https://example.com", "content": "Result snippet...", "score": 0.9}
    tavily.response = (200, {"results": [result, {"title": "x", "url": "javascript:alert(1)", "content": "y"}]})
    response = call(alice, "search_web", query="search terms")
    assert response["query"] == "search terms"
    assert response["results"][0] == {key: result[key] for key in ("title", "url", "content")}
    assert response["results"][1]["url"] == ""
    ((path, authorization, body),) = tavily.requests
    assert (path, authorization, body["query"]) == ("/search", "Bearer tvly-key", "search terms")
    assert not MemoryRecord.objects.exists()


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        ((401, {"detail": "bad key tvly-key"}), "responded with status 401"),
        ((500, "oops"), "responded with status 500"),
        ((200, "no JSON"), "can't be read"),
        ((200, []), "can't be read"),
        ((200, {"results": "x" * 3_000_000}), "AnswerTooLarge"),
    ],
)
def test_an_error_of_the_service_is_reported_without_its_text(
    tavily: type[Tavily], alice: Caller, response: tuple[int, Any], fault: str
) -> None:
    tavily.response = response
    with pytest.raises(Upstream) as caught:
        call(alice, "search_web", query="x")
    assert fault in caught.value.message
    assert "tvly-key" not in caught.value.message
