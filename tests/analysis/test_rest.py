"""Retries of REST requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.ingest import ingest
from analysis.operations import IngestRecords
from analysis.sources import rest
from memories.identity.caller import Caller
from tests.fake_rest_api import Api


@pytest.mark.django_db
def test_a_retry_waits_until_the_date_of_retry_after(alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    api.fail_pages = {1: [429, 503]}
    api.retry_after = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert ingest(IngestRecords(analysis_id="a", model="book"), caller=alice).records == 50
    assert [pause for pause in pauses if pause > 1] == [rest.MAX_RETRY_AFTER_S] * 2


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2026 07:28:20 GMT", 20.0),
        ("Wednesday, 21-Oct-26 07:28:20 GMT", 20.0),
        ("Wed Oct 21 07:28:20 2026", 20.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("", 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(retry_after: str, seconds: float) -> None:
    headers = {"Retry-After": retry_after, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    assert rest._retry_after(httpx.Response(429, headers=headers)) == seconds


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
def test_any_retry_after_yields_a_pause(text: str) -> None:
    assert rest._retry_after(httpx.Response(429, headers={"Retry-After": text, "Date": text})) >= 0
