"""Why a webhook is paused, in the reader's language."""

from __future__ import annotations

import pytest
from django.utils import translation

from memory_project.notifications.webhooks.models import Endpoint


@pytest.mark.parametrize(
    ("stored", "german"),
    [
        ("paused by its owner", "vom Eigentümer angehalten"),
        (
            "every request has failed for a day; the last one: responded with status 503",
            "seit einem Tag ist jede Anfrage gescheitert; die letzte: antwortete mit Status 503",
        ),
        (
            "every request has failed for a day; the last one: ConnectError: no route",
            "seit einem Tag ist jede Anfrage gescheitert; die letzte: ConnectError: no route",
        ),
        ("", ""),
    ],
)
def test_the_reason_of_a_pause_is_shown_in_the_reader_s_language(stored: str, german: str) -> None:
    with translation.override("de"):
        assert Endpoint(pause_reason=stored).reason_in_words == german
    with translation.override("en"):
        assert Endpoint(pause_reason=stored).reason_in_words == stored
