"""Retries of REST requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.ingest import ingest
from analysis.models import DeclaredSource
from analysis.operations import IngestRecords
from analysis.sources import rest
from analysis.sources.declaration import parse
from analysis.sources.interface import UpstreamFailed
from analysis.sql import declaration as sql_declaration
from analysis.sql import engines
from analysis.sql.values import Bounds
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from tests.fake_rest_api import Api


@pytest.mark.django_db
def test_a_retry_waits_until_the_date_of_retry_after(alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    api.fail_pages = {1: [429, 503]}
    api.retry_after = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert ingest(alice, IngestRecords(analysis_id="a", model="book")).records == 50
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


@pytest.mark.django_db
def test_a_source_from_the_admin_reaches_private_hosts_only_if_they_are_listed(
    alice: Caller, api: Api, settings: Any, tmp_path: Path
) -> None:
    declaration = DeclaredSource.objects.get().declaration
    settings.ANALYSIS_PRIVATE_HOSTS = []
    with pytest.raises(UpstreamFailed, match="no public address; allowed: public hosts, and ANALYSIS_PRIVATE_HOSTS"):
        ingest(alice, IngestRecords(analysis_id="a", model="book"))
    assert api.requests == []
    settings.ANALYSIS_PRIVATE_HOSTS = ["127.0.0.1"]
    assert ingest(alice, IngestRecords(analysis_id="b", model="book")).records == 50
    # who may write this file may reach any host from this machine
    settings.ANALYSIS_PRIVATE_HOSTS = []
    DeclaredSource.objects.all().delete()
    (tmp_path / "books.toml").write_text(declaration)
    settings.ANALYSIS_SOURCES = str(tmp_path)
    assert ingest(alice, IngestRecords(analysis_id="c", model="book")).records == 50


def test_a_declaration_can_not_say_that_it_comes_from_a_file() -> None:
    text = '_is_from_file = true\nbase_url = "http://127.0.0.1/"\n[models.book]\nendpoint = "books"\n'
    with pytest.raises(Invalid, match="_is_from_file"):
        parse("books", text)


@pytest.mark.django_db
def test_trino_reaches_private_hosts_only_if_they_are_listed(settings: Any, api: Api) -> None:
    base = DeclaredSource.objects.get().declaration.split('"')[1]
    text = f'kind = "sql"\nengine = "trino"\nurl = "{base.replace("://", "://reader@")}/c/s"\n'
    settings.ANALYSIS_PRIVATE_HOSTS = []
    engine = engines.Trino(sql_declaration.parse("lake", text))
    with pytest.raises(UpstreamFailed, match="lake can't be reached"):
        engine.run("SELECT 1", Bounds(rows=1, bytes=1_000))
    assert api.requests == []
