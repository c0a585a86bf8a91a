from __future__ import annotations

import io
import signal
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from knowledge.freshness.stale_detection import CheckReport
from knowledge.management.commands import watch_catalog
from tests.other_processes import OtherProcess

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other() -> Iterator[OtherProcess]:
    holder = OtherProcess()
    yield holder
    holder.is_killed()


def test_one_process_follows_the_events_and_another_takes_over(
    settings: Any, monkeypatch: pytest.MonkeyPatch, other: OtherProcess
) -> None:
    settings.DATAHUB_GMS_URL = "http://127.0.0.1:1"
    assert other.acquire(f"watcher {UUID(int=0).hex}")
    polls: list[bool] = []

    def poll() -> CheckReport:
        polls.append(True)
        raise SystemExit

    def standby(seconds: float) -> None:
        assert polls == []
        other.is_killed()

    monkeypatch.setattr(watch_catalog, "follow_once", poll)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(time, "sleep", standby)
    output = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("watch_catalog", stdout=output)
    assert "waiting to take over: another process follows the events" in output.getvalue()
    assert polls == [True]
