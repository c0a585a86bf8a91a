"""Locks between processes. Each process is a holder with a connection of its own here, as `locks` has one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.db import transaction

from foundation.database import locks
from foundation.database.locks import LeaseLost, exclusive, fenced, is_locked
from foundation.database.models import Lease
from foundation.operations.errors import Conflict
from memories.models import Purpose
from memories.retrieval import indexing
from tests.other_processes import PK, OtherProcess, until

pytestmark = pytest.mark.django_db(transaction=True)
BUSY = Conflict("busy")


class BehindPooler(OtherProcess):
    """A process whose connection has no session of its own."""

    @property
    def has_session(self) -> bool:
        return False

    @has_session.setter
    def has_session(self, value: bool) -> None: ...


@pytest.fixture
def other() -> Iterator[OtherProcess]:
    holder = OtherProcess()
    yield holder
    holder.is_killed()


def expire() -> None:
    Lease.objects.update(expires_at="2020-01-01T00:00:00Z")


def test_one_process_works_on_an_object(other: OtherProcess) -> None:
    with exclusive("work", PK, BUSY):
        assert is_locked("work", PK)
        assert other.is_held(f"work {PK.hex}")
        assert not other.takes()
        with pytest.raises(Conflict, match="busy"), exclusive("work", PK, BUSY):
            pass
        with exclusive("work", uuid4(), BUSY):
            pass
    assert not is_locked("work", PK)
    assert not Lease.objects.exists()
    assert other.takes()


def test_the_end_of_a_holder_with_a_session_is_noticed_at_once(other: OtherProcess) -> None:
    assert other.takes()
    assert is_locked("work", PK)
    other.is_killed()
    assert until(lambda: not is_locked("work", PK), locks.LEASE_S / 2)
    with exclusive("work", PK, BUSY):
        pass


def test_the_lease_of_a_killed_holder_behind_a_pooler_runs_out() -> None:
    other = BehindPooler()
    assert other.takes()
    other.is_killed()
    assert is_locked("work", PK)
    with pytest.raises(Conflict, match="busy"), exclusive("work", PK, BUSY):
        pass
    expire()
    with exclusive("work", PK, BUSY):
        pass


def test_a_holder_renews_its_lease_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.05)
    with exclusive("work", PK, BUSY):
        first = Lease.objects.get().expires_at
        deadline = time.monotonic() + 20
        while Lease.objects.get().expires_at == first:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_holder_that_was_cut_off_stops_before_its_next_write(other: OtherProcess) -> None:
    def work() -> None:
        with exclusive("work", PK, BUSY):
            with fenced():
                Purpose.objects.create(name="first", title="First")
            expire()
            assert other.takes()
            with fenced():
                Purpose.objects.create(name="second", title="Second")

    with pytest.raises(LeaseLost):
        work()
    assert [purpose.name for purpose in Purpose.objects.all()] == ["first"]
    assert other.is_held(f"work {PK.hex}")  # the earlier holder has not returned the lease of the new one


def test_a_suspended_holder_stops_even_if_nobody_has_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with exclusive("work", PK, BUSY):
        locks.check()
        monkeypatch.setattr(locks, "LEASE_S", -1)
        with pytest.raises(LeaseLost):
            locks.check()


def test_nobody_takes_over_during_a_write(other: OtherProcess) -> None:
    taken: list[bool] = []
    with exclusive("work", PK, BUSY):
        with fenced():
            other._connected().execute("UPDATE leases SET expires_at = now() - interval '1 second'")
            thread = threading.Thread(target=lambda: taken.append(other.takes()))
            thread.start()
            thread.join(0.5)
            assert taken == []
        thread.join(20)
        assert taken == [True]
        with pytest.raises(LeaseLost):
            locks.check()


def test_a_lease_that_was_taken_inside_of_a_transaction_is_returned() -> None:
    with transaction.atomic(), exclusive("work", PK, BUSY), fenced():
        pass
    assert not Lease.objects.exists()


def test_leases_of_killed_processes_are_deleted_in_the_end(other: OtherProcess) -> None:
    assert other.takes()
    indexing.delete_closed_jobs()
    assert Lease.objects.exists()
    expire()
    indexing.delete_closed_jobs()
    assert not Lease.objects.exists()
