"""A failed SQL statement and its correction are proposed as an insight, if the setting enables it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.database import retention
from foundation.operations.errors import DomainError, Forbidden, Invalid
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.insights import sql_corrections
from knowledge.models import FailedCall, Insight
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.usefixtures("small_catalog")
WRONG = Call("query_sql", {"sql": "SELECT sum(revenue) FROM sales.orders WHERE status = 'closed'"}, {})
RIGHT = Call("query_sql", {"sql": "SELECT sum(amount) FROM sales.orders WHERE status = 'closed'"}, {})
FAULT = Invalid("column revenue does not exist", field="sql")


@pytest.fixture
def laptop(alice: Caller, settings: Any) -> Caller:
    settings.CAPTURE_FROM_FAILURE = True
    return replace(alice, connection="token 1")


def test_a_correction_with_both_statements_is_proposed_to_curators(laptop: Caller, cora: Caller, bob: Caller) -> None:
    sql_corrections.on_call_failed(laptop, WRONG, FAULT)
    attached = sql_corrections.propose_correction(laptop, RIGHT)
    assert attached is not None
    insight = Insight.objects.get()
    assert attached.data["captured_insight"] == insight.pk.hex
    record = insight.record
    assert (insight.state, record.visibility, record.category, record.entity_urns) == (
        "pending", "private", "correction", [ORDERS],
    )  # fmt: skip
    for part in (WRONG.arguments["sql"], RIGHT.arguments["sql"], "column revenue does not exist"):
        assert part in record.content
    assert sql_corrections.propose_correction(laptop, RIGHT) is None  # proposed once
    assert not Insight.objects.visible_to(bob).exists()
    assert Insight.objects.visible_to(cora).exists()


@pytest.mark.parametrize(
    "error", [Forbidden("not yours"), DomainError("something went wrong")], ids=["forbidden", "internal"]
)
def test_errors_not_caused_by_the_statement_propose_nothing(laptop: Caller, error: DomainError) -> None:
    error.code = "forbidden" if isinstance(error, Forbidden) else "internal"
    sql_corrections.on_call_failed(laptop, WRONG, error)
    assert sql_corrections.propose_correction(laptop, RIGHT) is None


def test_only_a_similar_statement_on_the_same_connection_within_minutes_counts(laptop: Caller, settings: Any) -> None:
    sql_corrections.on_call_failed(laptop, WRONG, FAULT)
    assert sql_corrections.propose_correction(replace(laptop, connection="token 2"), RIGHT) is None
    assert sql_corrections.propose_correction(laptop, Call("query_sql", {"sql": "SHOW TABLES"}, {})) is None
    assert sql_corrections.propose_correction(laptop, WRONG) is None  # the identical statement, which now succeeds
    FailedCall.objects.update(at=timezone.now() - timedelta(minutes=16))
    assert sql_corrections.propose_correction(laptop, RIGHT) is None
    assert retention.delete_expired() == {"failed_calls": 1}
    settings.CAPTURE_FROM_FAILURE = False
    sql_corrections.on_call_failed(laptop, WRONG, FAULT)
    assert not FailedCall.objects.exists()
    assert not Insight.objects.exists()
