"""The parts that depend on sessions of PostgreSQL, through a PgBouncer that assigns connections per transaction.

It has fewer connections than these tests have clients, so clients take turns on them.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from foundation.database import breaker as breakers
from foundation.database import identity, locks, transaction_settings
from foundation.database.breaker import DatabaseAway, breaker
from foundation.database.locks import DIRECT
from foundation.database.models import Lease
from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.changesets.apply import resume
from knowledge.context.time_limit import set_timeout
from knowledge.models import Change, Changeset
from memories import services
from memories.models import MemoryRecord, Passage
from memories.operations import RecallMemories, Remember
from memories.retrieval import vector_index
from memories.retrieval.recall import recall
from memories.writing.bulk_import import remember_many
from memory_project.operating.backups import archive
from memory_project.operating.backups.programs import BackupFailed
from memory_project.operating.doctor import database, table_facts
from tests.knowledge.changeset_examples import CASES, apply
from tests.knowledge.test_changesets_disturbed import (  # noqa: F401 - collected here again, to run through the pooler
    test_if_two_curators_apply_at_once_one_gets_a_conflict,
)
from tests.other_processes import OtherProcess, until
from tests.pgbouncer import SERVER_CONNECTIONS, PgBouncer, pgbouncer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def pooler(transactional_db: None) -> Iterator[PgBouncer]:
    with pgbouncer() as running:
        yield running


@pytest.fixture
def pooled(pooler: PgBouncer) -> Iterator[None]:
    """Let the connections of this process come from a pool, as those of a web server."""
    connection.settings_dict["OPTIONS"]["pool"] = {"min_size": 0, "max_size": 3, "timeout": 5, "reconnect_timeout": 0}
    yield
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it
    del connection.settings_dict["OPTIONS"]["pool"]
    breaker.note(None)


def in_threads(*actions: Callable[[], Any]) -> list[Any]:
    """Run the actions at the same time, each with a connection of its own. Return their results or errors."""
    results: list[Any] = [None] * len(actions)

    def run(position: int) -> None:
        try:
            results[position] = actions[position]()
        except Exception as error:
            results[position] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[position]) for position in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def on_each_server_connection(query: str) -> list[Any]:
    """Return a value from each connection that the pooler has opened to the server."""
    parameters = {name: value for name, value in connection.get_connection_params().items() if name in DIRECT}
    clients = [psycopg.connect(**parameters, prepare_threshold=None) for _ in range(SERVER_CONNECTIONS)]
    try:  # each client keeps its server connection until its transaction ends
        return [client.execute(query).fetchone()[0] for client in clients]  # type: ignore[index]
    finally:
        for client in clients:
            client.close()


def settings_now() -> tuple[str, ...]:
    names = ("ivfflat.probes", "ivfflat.iterative_scan", "work_mem", "statement_timeout")
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"current_setting('{name}', true)" for name in names))
        return tuple(cursor.fetchone())


def test_each_transaction_has_the_settings_of_searches_and_none_outlast_it(alice: Caller, settings: Any) -> None:
    settings.DATABASE_SEARCH = {**settings.DATABASE_SEARCH, "ivfflat.probes": "77"}

    def ask() -> list[tuple[str, ...]]:
        with identity.acting_as(alice):
            transaction_settings.limit_statements(12)
            outside = [settings_now() for _ in range(5)]
            with transaction.atomic():
                return [*outside, settings_now()]

    expected = [("77", "relaxed_order", "16MB", "12s")] * 6
    assert in_threads(*[ask] * 4) == [expected] * 4
    for name, value in (("statement_timeout", "0"), ("work_mem", "4MB"), ("commonplace.email", "")):
        asked = on_each_server_connection(f"SELECT coalesce(current_setting('{name}', true), '')")
        assert asked == [value] * SERVER_CONNECTIONS


def test_a_search_compares_as_many_lists_as_without_a_pooler(
    alice: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "TRAINED_FROM", 100)
    settings.RECALL_EXACT_SCAN_ROWS = 0
    facts = [{"content": f"Store {n} counts its stock on day {n % 28} of each month."} for n in range(120)]
    remember_many(alice, facts=facts)
    exact = recall(alice, RecallMemories(query="stock of store 17")).hits
    assert vector_index.train() == "120 passages, 5 lists, built"
    try:
        found = recall(alice, RecallMemories(query="stock of store 17")).hits
    finally:
        vector_index.drop()
    assert [hit.record.pk for hit in found] == [hit.record.pk for hit in exact]
    assert set(on_each_server_connection("SELECT current_setting('maintenance_work_mem')")) == {"256MB"}


def test_a_timeout_ends_the_statement_of_its_own_context_only(alice: Caller) -> None:
    def sleep(limit_s: float) -> str:
        with identity.acting_as(alice), connection.cursor() as cursor:
            transaction_settings.limit_statements(limit_s)
            cursor.execute("SELECT pg_sleep(0.4)::text")
            return "slept"

    results = in_threads(lambda: sleep(0.1), lambda: sleep(0), lambda: sleep(0.1), lambda: sleep(20))
    assert [type(result) for result in results] == [OperationalError, str, OperationalError, str]


def test_a_transaction_keeps_a_shorter_timeout_when_its_identity_changes(alice: Caller, olga: Caller) -> None:
    transaction_settings.limit_statements(12)
    with transaction.atomic(), identity.acting_as(alice):
        assert settings_now()[3] == "12s"
        set_timeout(time.monotonic() + 0.9)
        with identity.acting_as(olga):
            assert settings_now()[3].endswith("ms")
    transaction_settings.limit_statements(0)


def test_people_who_take_turns_on_a_connection_read_their_own_memories(alice: Caller, olga: Caller) -> None:
    for caller in (alice, olga):
        services.remember(caller, Remember(content=f"A note of {caller.email}.", visibility="private"))

    def read(caller: Caller) -> set[str]:
        found: set[str] = set()
        for _ in range(15):
            with identity.acting_as(caller):
                found |= set(MemoryRecord.objects.values_list("content", flat=True))
                with transaction.atomic():
                    found |= set(MemoryRecord.objects.values_list("content", flat=True))
        return found

    results = in_threads(*[lambda: read(alice), lambda: read(olga)] * 2)
    assert results == [{"A note of alice@example.org."}, {"A note of olga@example.org."}] * 2


def test_no_statement_is_prepared(alice: Caller) -> None:
    services.remember(alice, Remember(content="Stock is counted on Mondays."))
    for _ in range(8):
        assert recall(alice, RecallMemories(query="When is stock counted?")).hits
    assert on_each_server_connection("SELECT count(*) FROM pg_prepared_statements") == [0] * SERVER_CONNECTIONS


def test_long_lists_are_read_in_chunks_inside_and_outside_of_a_transaction(alice: Caller) -> None:
    remember_many(alice, facts=[{"content": f"Store {n} opens at {n % 12}."} for n in range(30)])

    def read() -> int:
        with identity.acting_as(alice):
            outside = len(list(Passage.objects.iterator(chunk_size=2)))
            with transaction.atomic():
                return outside + len(list(Passage.objects.iterator(chunk_size=2)))

    assert in_threads(*[read] * 4) == [60] * 4


def test_one_process_carries_out_a_changeset(small_catalog: None, alice: Caller, cora: Caller) -> None:
    changeset = apply(alice, cora, CASES["add_tag"]).changeset
    Changeset.objects.update(state="partial")
    Change.objects.update(outcome="planned")
    other = OtherProcess()
    assert other.acquire(f"changeset {changeset.pk.hex}")
    assert not other.has_session
    with pytest.raises(Conflict, match="by another request"):
        resume(cora, changeset_id=changeset.pk)
    other.is_killed()
    with pytest.raises(Conflict, match="by another request"):  # nobody knows yet that it has ended
        resume(cora, changeset_id=changeset.pk)
    Lease.objects.update(expires_at="2020-01-01T00:00:00Z")
    assert resume(cora, changeset_id=changeset.pk).changeset.state == "applied"
    assert not locks.is_locked("changeset", changeset.pk)


def test_an_owner_who_connects_through_the_pooler_is_told_and_gets_no_backup(
    pooler: PgBouncer, settings: Any, tmp_path: Path
) -> None:
    settings.DATABASE_URL = "postgresql://elsewhere/commonplace"
    names = ("USER", "PASSWORD", "HOST", "PORT")
    settings.DATABASE_OWNER = {name: connection.settings_dict[name] for name in names}
    assert database.owner_connection().state == "warning"
    with pytest.raises(BackupFailed, match="address of PostgreSQL itself"):
        archive.write(tmp_path / "backup")
    settings.DATABASE_OWNER |= {"HOST": pooler.server["HOST"], "PORT": pooler.server["PORT"] or "5432"}
    assert database.owner_connection().state == "ok"


def test_search_settings_that_are_missing_are_reported(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    assert database.search_settings(table_facts.read()).state == "ok"
    without = partial(transaction_settings._whole_statement, search=())
    monkeypatch.setattr(transaction_settings, "_whole_statement", lambda wanted, role, search: without(wanted, role))
    finding = database.search_settings(table_facts.read())
    assert finding.state == "problem"
    assert re.search(rf"ivfflat.probes \((–|1) instead of {settings.RECALL_PROBES}\)", str(finding.found))


def ask() -> str:
    try:
        return str(MemoryRecord.objects.count())
    except OperationalError as error:
        return type(error.__cause__).__name__
    finally:
        connection.close()


def test_calls_are_refused_while_the_pooler_is_away_and_work_again_after_its_return(
    pooler: PgBouncer, pooled: None
) -> None:
    assert ask() == "0"
    pooler.stop()
    assert in_threads(*[ask] * 4) == ["DatabaseAway"] * 4
    assert breaker.is_open
    pooler.start()
    assert until(lambda: ask() == "0")  # the pool looks again by itself, after a pause that grows with each failure
    assert not breaker.is_open


def test_an_open_connection_that_does_not_respond_is_given_up(
    pooler: PgBouncer, pooled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MemoryRecord.objects.count() == 0
    connection.close()
    pooler.process.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as impatient:
        impatient.setattr(breakers, "CHECK_POOLER_S", 0.2)
        with pytest.raises(OperationalError) as caught:
            MemoryRecord.objects.count()
    pooler.process.send_signal(signal.SIGCONT)
    assert isinstance(caught.value.__cause__, DatabaseAway)
    assert "does not respond" in str(caught.value)
    connection.close()
    assert until(lambda: ask() == "0")


def test_a_server_with_another_time_zone_gets_ours_without_preparing_a_statement(
    pooler: PgBouncer, alice: Caller
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER ROLE CURRENT_USER SET timezone = 'Asia/Tokyo'")
    connection.close()
    pooler.stop()
    pooler.start()
    try:
        for _ in range(2 * SERVER_CONNECTIONS):  # two clients on each of the server's connections
            other = connection.copy()
            with identity.acting_as(alice), other.cursor() as cursor:
                cursor.execute("SHOW timezone")
                assert cursor.fetchone() == ("UTC",)
            other.close()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER ROLE CURRENT_USER RESET timezone")
