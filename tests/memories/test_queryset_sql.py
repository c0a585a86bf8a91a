"""Querysets as conditions and tables in hand-written SQL."""

from __future__ import annotations

import pytest
from django.db import connection

from foundation.database.queryset_sql import CompiledQuery, condition, name_parameters
from foundation.people.caller import Caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("a = %s AND b = %s", [1, 2], "a = %(x0)s AND b = %(x1)s"),
        ("a LIKE 'b%%' AND c = %s", [1], "a LIKE 'b%%' AND c = %(x0)s"),
        ("a = '%%s' AND b = %s", [1], "a = '%%s' AND b = %(x0)s"),
        ("true", [], "true"),
    ],
)
def test_placeholders_are_named(sql: str, values: list[int], expected: str) -> None:
    assert name_parameters(sql, values, "x") == (expected, {f"x{n}": value for n, value in enumerate(values)})


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 placeholders for 1 values"):
        name_parameters("a = %s AND b = %s", [1], "x")


def test_a_condition_has_the_same_meaning_in_hand_written_sql(alice: Caller, olga: Caller) -> None:
    for text in ("Half of the orders, 50% of them.", "All of the orders, 100% of them."):
        services.remember(alice, Remember(content=text))
    rows = MemoryRecord.objects.visible_to(alice).filter(content__contains="50% of")
    for caller, expected in ((alice, 1), (olga, 0)):
        rows = MemoryRecord.objects.visible_to(caller).filter(content__contains="50% of")
        sql, params = condition(rows)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM memory_records WHERE {sql} AND ({sql})", params)  # noqa: S608
            assert cursor.fetchone() == (expected,)


def test_querysets_of_all_rows_and_of_none_become_conditions(alice: Caller, olga: Caller, ada: Caller) -> None:
    services.remember(alice, Remember(content="Half of the orders, 50% of them.", visibility="private"))
    everything = condition(MemoryRecord.objects.visible_to(ada))
    nothing = condition(MemoryRecord.objects.visible_to(olga).filter(pk__in=[]))
    for (sql, params), expected in ((everything, 1), (nothing, 0)):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM memory_records WHERE {sql}", params)  # noqa: S608
            assert cursor.fetchone() == (expected,)


def test_several_querysets_are_read_in_one_query(alice: Caller, django_assert_num_queries: object) -> None:
    services.remember(alice, Remember(content="Half of the orders, 50% of them."))
    statement = CompiledQuery()
    matches = statement.table(MemoryRecord.objects.visible_to(alice).filter(content__contains="50%").values("pk"))
    none = statement.table(MemoryRecord.objects.none().values("pk"))
    with django_assert_num_queries(1):  # type: ignore[operator]
        rows = statement.run(f"SELECT (SELECT count(*) FROM {matches}), (SELECT count(*) FROM {none}), %s", [7])  # noqa: S608
    assert rows == [(1, 0, 7)]
