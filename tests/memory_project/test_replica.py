"""What a replica must have replayed before it is read. tests/operations/test_replica.py has real servers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, transaction

from foundation.database import identity, replica
from foundation.people.caller import Caller
from foundation.people.models import Persona
from knowledge.models import Insight
from memories import services
from memories.models import MemoryRecord
from memories.operations import Erase, Revise, Share
from memories.writing import erasure
from memory_project.models import ApiToken, User
from memory_project.operating import database_url
from memory_project.operating.replica import routing, watch
from memory_project.operating.replica.models import Barrier, Position

HOSTS = "db1:5432,db2:5433"


@pytest.mark.parametrize(
    ("url", "host", "port", "kind"),
    [
        (f"postgres://app:p%2Cw@{HOSTS}/memories", "db1,db2", "5432,5433", "read-write"),
        (f"postgres://app:p%2Cw@{HOSTS}/memories?target_session_attrs=primary", "db1,db2", "5432,5433", "primary"),
        ("postgres://app:p%2Cw@db1,db2/memories", "db1,db2", "", "read-write"),
        ("postgres://app:p%2Cw@/memories?host=/run/a,/run/b", "/run/a,/run/b", "", "read-write"),
        ("postgres://app:p%2Cw@[::1]:5432,[::2]:5433/memories", "::1,::2", "5432,5433", "read-write"),
        ("postgres://app:p%2Cw@db1:5432/memories", "db1", 5432, None),
    ],
)
def test_a_url_may_name_several_servers(url: str, host: str, port: str | int, kind: str | None) -> None:
    config = database_url.parse("DATABASE_URL", url)
    assert (config["HOST"], config["PORT"]) == (host, port)
    assert (config["USER"], config["PASSWORD"], config["NAME"]) == ("app", "p,w", "memories")
    assert config["OPTIONS"].get("target_session_attrs") == kind


@pytest.mark.parametrize(
    "url", ["mysql://app:secret@db1/memories", "app:secret@db1", "postgres://app:secret@db1:port/memories"]
)
def test_a_wrong_url_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"DATABASE_REPLICA_URL.*allowed: postgres://") as refusal:
        database_url.parse("DATABASE_REPLICA_URL", url)
    assert "secret" not in str(refusal.value)


def test_the_lag_is_the_age_of_what_is_not_replayed(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.DATABASE_REPLICA_MAX_LAG_S = 10.0
    seen = watch.Watch()
    for now, flushed, replayed, lag in (
        (1000.0, 500, 500, 0.0),
        (1060.0, 500, 500, 0.0),  # nothing was written for a minute
        (1061.0, 600, 500, 0.0),
        (1064.0, 700, 500, 3.0),
        (1065.0, 700, 600, 1.0),
        (1080.0, 700, 600, 16.0),
    ):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        seen.note(flushed, replayed)
        assert seen.lag_s == lag
    assert seen.summary() == "behind"
    seen.note(700, 700)
    assert (seen.summary(), seen.lag_s) == ("ok", 0.0)


def test_one_call_at_a_time_tries_a_replica_that_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    seen = watch.Watch()
    seen.lost()
    assert (seen.summary(), seen.may_try()) == ("away", False)
    now += watch.TRY_AGAIN_S
    assert [seen.may_try(), seen.may_try()] == [True, False]
    seen.note(1, 1)
    assert [seen.may_try(), seen.may_try()] == [True, True]


def test_whatever_takes_something_away_is_noted_in_its_transaction(alice: Caller, fact: MemoryRecord) -> None:
    assert not Barrier.objects.exists()  # nothing was taken away yet
    before = Barrier.objects.count
    with transaction.atomic():
        services.share(alice, Share(record_id=fact.pk, visibility="private"))
        assert before() == 1
        transaction.set_rollback(True)
    assert before() == 0
    services.revise(alice, Revise(record_id=fact.pk, content="Refunds are booked monthly."))
    assert before() == 1
    Barrier.objects.all().delete()
    MemoryRecord.objects.filter(pk=fact.pk).update(access_count=5)
    assert before() == 0
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert before() == 1


def test_the_position_of_a_person_grows_and_belongs_to_them(alice_user: User, bob_user: User) -> None:
    routing.note_write(alice_user.email)
    first = Position.objects.get(person=alice_user).position
    Barrier.objects.create(xact=1, at=alice_user.date_joined)  # anything that is written
    routing.note_write(alice_user.email)
    assert Position.objects.get(person=alice_user).position > first
    assert not Position.objects.filter(person=bob_user).exists()
    # of another server, whose log was longer
    Position.objects.update(position=2**60)
    routing.note_write(alice_user.email)
    assert first < Position.objects.get(person=alice_user).position < 2**60


def test_accounts_and_writes_stay_on_the_primary(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    router = replica.ReplicaRouter()
    monkeypatch.setattr(replica, "decide", lambda operation, email: True)
    # a test is a transaction, in which nothing goes to the replica
    assert router.db_for_read(MemoryRecord) == DEFAULT_DB_ALIAS
    monkeypatch.setattr(replica, "connections", {DEFAULT_DB_ALIAS: type("Idle", (), {"in_atomic_block": False})})
    assert router.db_for_read(MemoryRecord) == DEFAULT_DB_ALIAS  # nobody has said that the operation only reads
    with replica.reading():
        with identity.anonymous():
            assert router.db_for_read(MemoryRecord) == DEFAULT_DB_ALIAS
        with identity.acting_as(alice):
            assert {router.db_for_read(model) for model in (MemoryRecord, Insight)} == {replica.ALIAS}
            assert {router.db_for_read(model) for model in (User, ApiToken, Persona)} == {DEFAULT_DB_ALIAS}
            assert router.db_for_write(MemoryRecord) == DEFAULT_DB_ALIAS
            assert router.db_for_read(MemoryRecord) == DEFAULT_DB_ALIAS  # it must see what it has written
