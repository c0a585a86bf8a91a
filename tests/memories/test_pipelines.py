"""A statement that fails in the middle of a pipeline."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from django.db import DataError, connection, transaction
from psycopg.pq import PipelineStatus, TransactionStatus

from foundation.database import identity, prepared_statements

NOTHING: list[object] = []
FAILS, WORKS = ("SELECT 1/0", NOTHING), ("SELECT 1", NOTHING)


@pytest.fixture
def slow_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each result arrive before the next statement is sent, as on a busy machine."""
    execute = psycopg.RawCursor.execute

    def slow(cursor: Any, *arguments: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return execute(cursor, *arguments, **options)

    monkeypatch.setattr(psycopg.RawCursor, "execute", slow)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("slow_sending")
@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_connection_is_ready_for_the_next_statement(in_transaction: bool, caplog: pytest.LogCaptureFixture) -> None:
    with identity.service("command"), caplog.at_level(logging.WARNING, "psycopg"):
        block = transaction.atomic() if in_transaction else nullcontext()
        with pytest.raises(DataError), block:
            prepared_statements.rows_of_each(FAILS, WORKS, WORKS)
        raw = connection.connection.pgconn
        assert (raw.transaction_status, raw.pipeline_status) == (TransactionStatus.IDLE, PipelineStatus.OFF)
        assert prepared_statements.rows(*WORKS) == [(1,)]
    assert caplog.messages == []
