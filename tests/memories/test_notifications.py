"""Messages between processes: they arrive, and a subscriber knows when some may be missing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from foundation.database import pg_notify
from foundation.database.pg_notify import Subscriber, direct_parameters, listen, notify
from tests.other_processes import until

pytestmark = pytest.mark.django_db(transaction=True)
PID = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'commonplace listener' AND datname = current_database()"
)


def pids() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(PID)
        return [row[0] for row in cursor.fetchall()]


class Heard(list[str]):
    """The payloads that have arrived, and "gap" for each gap."""

    def gap(self) -> None:
        self.append("gap")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def subscription(heard: Heard) -> Iterator[Subscriber]:
    subscription = listen("news", heard.append, heard.gap)
    assert until(lambda: subscription.is_connected)
    yield subscription
    subscription.close()


def test_messages_arrive_when_their_transaction_commits(subscription: Subscriber, heard: Heard) -> None:
    with transaction.atomic():
        notify("news", "first")
        notify("other", "of another channel")
        time.sleep(0.1)
        assert heard == ["gap"]  # the one before the connection
    assert until(lambda: heard == ["gap", "first"])
    with transaction.atomic():
        notify("news", "rolled back")
        transaction.set_rollback(True)
    notify("news", "second")
    assert until(lambda: heard == ["gap", "first", "second"])


def test_one_connection_serves_all_channels_and_ends_with_the_last_subscription(
    subscription: Subscriber, heard: Heard
) -> None:
    more = Heard()
    other = listen("more", more.append)
    assert until(lambda: other.is_connected)
    assert subscription.is_connected
    assert until(lambda: len(pids()) == 1)  # that of an earlier test may not have ended yet
    notify("more", "hello")
    assert until(lambda: more == ["hello"])
    other.close()
    assert not other.is_connected
    notify("more", "nobody listens")
    notify("news", "still")
    assert until(lambda: heard == ["gap", "still"])
    subscription.close()
    assert until(lambda: pids() == [])
    assert more == ["hello"]


def test_a_lost_connection_is_told_and_replaced(
    subscription: Subscriber, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, pauses = direct_parameters(), []
    has_ended = pg_notify._has_ended

    def refused() -> dict[str, Any]:
        return {**parameters, "dbname": "no such database"}

    def noted(woken: Any, wait_s: float) -> bool:
        pauses.append(wait_s)
        return has_ended(woken, wait_s)

    monkeypatch.setattr(pg_notify, "_has_ended", noted)
    monkeypatch.setattr(pg_notify, "direct_parameters", refused)
    assert until(lambda: len(pids()) == 1)
    (listening,) = pids()
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [listening])
    assert until(lambda: not subscription.is_connected)
    assert until(lambda: len(pauses) >= 3)
    assert heard == ["gap", "gap"]
    assert pauses[2] > pauses[1]
    monkeypatch.setattr(pg_notify, "direct_parameters", lambda: parameters)
    assert until(lambda: subscription.is_connected)
    notify("news", "back")
    assert until(lambda: heard == ["gap", "gap", "gap", "back"])


def test_a_connection_whose_messages_get_lost_counts_as_none(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a pooler that assigns connections per transaction: LISTEN succeeds, and nothing arrives."""
    monkeypatch.setattr(pg_notify, "PROOF_WITHIN_S", 0.2)
    real, sent = psycopg.Connection.execute, []

    def elsewhere(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        if params and "pg_notify" in str(query):
            sent.append(params)
            params = ["elsewhere", params[1]]
        return real(self, query, params, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", elsewhere)
    subscription = listen("news", heard.append, heard.gap)
    try:
        assert until(lambda: len(sent) >= 2)
        assert not subscription.is_connected
        assert heard == []
    finally:
        subscription.close()


def test_a_subscriber_that_fails_leaves_the_others_alone(subscription: Subscriber, heard: Heard) -> None:
    def fail(payload: str) -> None:
        raise RuntimeError(payload)

    failing = listen("news", fail)
    assert until(lambda: failing.is_connected)
    notify("news", "one")
    notify("news", "two")
    assert until(lambda: heard == ["gap", "one", "two"])
    failing.close()
