"""Queries on ingested records: matching rows, and counts and metrics by group."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from analysis import sessions, sources
from analysis.models import Session
from analysis.operations import RowLimit, TopN
from analysis.querying.filters import Where, cast, compile_where, field_name, field_text
from analysis.querying.intervals import bucket_sql
from foundation.database.replica import connection_for_reading
from foundation.operations.errors import Forbidden, Invalid, check_choice, check_count
from foundation.operations.operation import validate
from foundation.operations.paging import invalid_cursor
from foundation.people.caller import Caller

LIMIT = 20
MAX_GROUPS = 3
TOP_N = 20
MAX_METRICS = 5
MAX_LABEL = 300  # maximum number of characters of a group's value in a response
METRICS = ("count", "sum", "avg", "min", "max", "percentile")
MAX_OFFSET = 1_000_000
NAMES_SHOWN = 60  # maximum number of field names listed in an error message

# The unexpired rows of one model in one session that match `{where}`, which filters.py compiles.
SCOPE = "FROM ingested_records WHERE session_id = %s AND model = %s AND expires_at > %s AND ({where})"


@dataclass(frozen=True)
class QueryScope:
    session: Session
    model: str
    where: Where

    def sql(self) -> tuple[str, list[Any]]:
        params = [self.session.pk, self.model, timezone.now(), *self.where.params]
        return SCOPE.format(where=self.where.sql), params


def scope_for(caller: Caller, session: Session, model: str, where: Mapping[str, Any] | None) -> QueryScope:
    """Return the scope of a query of the caller, like `scope`.

    Raises Forbidden if the caller may not read the source of the model, for example because they have lost it since.
    """
    name = _chosen_model(session, model)
    if name in sources.withheld_models(caller):
        raise Forbidden(gettext("you may not read %(model)s") % {"model": name}, field="model")
    return _selection(session, name, where)


def scope(session: Session, model: str, where: Mapping[str, Any] | None) -> QueryScope:
    """Return the scope of a query, for a caller who is known to read the model. `scope_for` checks that, too.

    `model` may be "" if the session has only one model.

    Raises Invalid if `model` is missing or was not ingested, or if `where` is not valid or names an unknown field.
    """
    return _selection(session, _chosen_model(session, model), where)


def _chosen_model(session: Session, model: str) -> str:
    models = sessions.names_of_models(session)
    if not model and len(models) > 1:
        models = list(sessions.models_of(session))  # ignore models whose expired rows haven't been deleted yet
    if not model and len(models) > 1:
        raise Invalid("is missing: this analysis has several models", field="model", allowed=", ".join(models))
    if model and models and model not in models:
        raise Invalid(f"{model[:80]!r} was not ingested in this analysis", field="model", allowed=", ".join(models))
    return model or next(iter(models), "")


def _selection(session: Session, model: str, where: Mapping[str, Any] | None) -> QueryScope:
    selection = QueryScope(session, model, compile_where(where))
    require_fields(selection, selection.where.names, "where")
    return selection


# Selects the names of fields that no row has. EXISTS stops at the first row with the field, so only the search for an
# unknown name reads all rows.
UNKNOWN_FIELDS = """
    SELECT name FROM unnest(%s::text[]) AS name WHERE NOT EXISTS (
        SELECT 1 FROM ingested_records
        WHERE session_id = %s AND model = %s AND expires_at > %s
            AND (data ? name OR data #> string_to_array(name, '.') IS NOT NULL))
"""
KNOWN_FIELDS = """
    SELECT DISTINCT key FROM (SELECT data FROM ingested_records WHERE session_id = %s AND model = %s
        AND expires_at > %s ORDER BY id DESC LIMIT 500) AS rows, jsonb_object_keys(data) AS key ORDER BY key
"""


def require_fields(selection: QueryScope, names: Iterable[str], path: str) -> None:
    """Raise Invalid for a field that no record has: an empty result would suggest that no record matches.

    Fields that the source declares are accepted, even if no record has them. If the model has neither records nor
    declared fields, every field is accepted.
    """
    names = list(names)
    declared = sources.declared_fields(selection.model) if names else set()
    undeclared = [name for name in dict.fromkeys(names) if name not in declared]
    key = [selection.session.pk, selection.model, timezone.now()]
    if not undeclared or not (unknown := [name for (name,) in run(UNKNOWN_FIELDS, [undeclared, *key])]):
        return
    if fields := sorted({name for (name,) in run(KNOWN_FIELDS, key)} | declared):
        rest = f", and {len(fields) - NAMES_SHOWN} more" if len(fields) > NAMES_SHOWN else ""
        problem = f"no {selection.model} record in this analysis has a field {unknown[0][:80]!r}"
        raise Invalid(problem, field=path, allowed=", ".join(fields[:NAMES_SHOWN]) + rest)


def run(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection_for_reading().cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def documents(rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in rows]  # outside of models, Django returns jsonb as text


def uncastable(selection: QueryScope, casts: Sequence[tuple[str, str]] = ()) -> dict[str, int]:
    """Return, for each field, the number of values that can't be cast as the conditions or `casts` require.

    All rows of the model are counted, whether or not they match the conditions.
    """
    checks = Where(casts=[*selection.where.casts, *casts]).uncastable()
    if not checks:
        return {}
    base, params = QueryScope(selection.session, selection.model, Where()).sql()
    parts = ", ".join(f"count(*) FILTER (WHERE {condition})" for _, condition, _ in checks)
    condition_params = [value for _, _, values in checks for value in values]
    ((*counts,),) = run(f"SELECT {parts} {base}", [*condition_params, *params])
    result: dict[str, int] = {}
    for (name, _, _), count in zip(checks, counts, strict=True):
        if count:
            result[name] = result.get(name, 0) + count
    return result


# -- filter ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryRows:
    rows: list[dict[str, Any]]
    total: int
    cursor: str = ""
    uncastable: dict[str, int] = field(default_factory=dict)


PROJECTED = """
    (SELECT coalesce(jsonb_object_agg(name, value), '{}')
     FROM unnest(%s::text[]) AS name, coalesce(data->name, data#>string_to_array(name, '.')) AS value
     WHERE value IS NOT NULL)
"""


def filtered(
    selection: QueryScope, *, limit: int = LIMIT, sort: str = "", fields: Sequence[str] = (), cursor: str = ""
) -> QueryRows:
    """Return a page of rows, in the order of their ingestion or sorted by a field.

    `-field` sorts in descending order. Numbers sort as numbers and come before texts. Missing values come last.
    """
    limit = validate(RowLimit, limit, "limit")
    offset = _offset(cursor)
    require_fields(selection, fields, "fields")
    require_fields(selection, [sort.removeprefix("-")] if sort else [], "sort")
    base, params = selection.sql()
    order, order_params = _order(sort)
    ((total,),) = run(f"SELECT count(*) {base}", params)
    data, projection = projected(fields)
    rows = run(
        f"SELECT {data} {base} ORDER BY {order} LIMIT %s OFFSET %s",
        [*projection, *params, *order_params, limit, offset],
    )
    end = offset + len(rows)
    next_cursor = base64.urlsafe_b64encode(str(end).encode()).decode() if end < total else ""
    return QueryRows(documents(rows), total, next_cursor, uncastable(selection))


def projected(fields: Sequence[str]) -> tuple[str, list[Any]]:
    if not fields:
        return "data", []
    return PROJECTED, [[field_name(name, "fields") for name in fields]]


def _order(sort: str) -> tuple[str, list[Any]]:
    if not sort:
        return "id", []
    name = field_name(sort.removeprefix("-"), "sort")
    number, params = cast(name, "numeric")
    direction = "DESC" if sort.startswith("-") else "ASC"
    text, text_params = field_text(name)
    return f"({number}) {direction} NULLS LAST, {text} {direction} NULLS LAST, id", [*params, *text_params]


def _offset(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        offset = int(base64.urlsafe_b64decode(cursor.encode()).decode())
    except (ValueError, binascii.Error, UnicodeError):
        offset = -1
    if not 0 <= offset <= MAX_OFFSET:
        raise invalid_cursor("cursor")
    return offset


# -- aggregate ---------------------------------------------------------------------------------------------


GROUPED = """
    WITH picked AS (SELECT {keys}{inner} {scope}),
    grouped AS (SELECT {by}, count(*) AS n{outer} FROM picked GROUP BY {by})
    SELECT *, sum(n) OVER () AS total, count(*) OVER () AS groups FROM grouped ORDER BY n DESC, {by} LIMIT %s
"""


@dataclass(frozen=True)
class RowGroup:
    """A group of rows.

    None in `values` means that the value is missing or null, or is not a time although a bucket needs one. The text
    "null" stays a text.
    """

    values: list[str | None]
    count: int
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryAggregate:
    group_by: list[str]
    groups: list[RowGroup]
    total: int
    other_groups: int = 0
    other_count: int = 0
    uncastable: dict[str, int] = field(default_factory=dict)


def aggregate(
    selection: QueryScope,
    group_by: str | Mapping[str, Any] | Sequence[Any],
    *,
    metrics: Sequence[Mapping[str, Any]] = (),
    top_n: int = TOP_N,
) -> QueryAggregate:
    """Return counts and metrics of the `top_n` largest groups, and the numbers of other groups and of their rows.

    `group_by` is a field, {"field", "bucket"} for dates, or a list of these. A metric is {"op", "field"}; a
    percentile also takes "p", from 0 to 1.
    """
    top_n = validate(TopN, top_n, "top_n")
    check_count("metrics", metrics, MAX_METRICS)
    names, groups, group_params, casts = _groups(group_by)
    require_fields(selection, names, "group_by")
    metric_parts = [_metric(metric, f"metrics[{index}]") for index, metric in enumerate(metrics)]
    require_fields(selection, [metric["field"] for metric in metrics if metric.get("field")], "metrics")
    base, params = selection.sql()
    keys = ", ".join(f"{sql} AS g{index}" for index, sql in enumerate(groups))
    by = ", ".join(f"g{index}" for index in range(len(groups)))
    inner = ", ".join(f"{sql} AS m{index}" for index, (_, sql, _, _) in enumerate(metric_parts))
    inner = f", {inner}" if inner else ""
    outer = "".join(
        f", {aggregated.format(value=f'm{index}')}" for index, (_, _, _, aggregated) in enumerate(metric_parts)
    )
    inner_params = [value for _, _, values, _ in metric_parts for value in values]
    rows = run(
        GROUPED.format(keys=keys, inner=inner, scope=base, by=by, outer=outer),
        [*group_params, *inner_params, *params, top_n],
    )
    size = len(groups)
    labels = [label for label, _, _, _ in metric_parts]
    shown_groups = [
        RowGroup(
            [value and value[:MAX_LABEL] for value in row[:size]],
            row[size],
            {label: _plain(value) for label, value in zip(labels, row[size + 1 :], strict=False)},
        )
        for row in rows
    ]
    total, all_groups = (int(rows[0][-2]), int(rows[0][-1])) if rows else (0, 0)
    casts += [
        (values[0], "numeric") for label, _, values, _ in metric_parts if values and not label.startswith("count")
    ]
    shown_count = sum(group.count for group in shown_groups)
    return QueryAggregate(
        names, shown_groups, total, all_groups - len(shown_groups), total - shown_count, uncastable(selection, casts)
    )


def _groups(
    group_by: str | Mapping[str, Any] | Sequence[Any],
) -> tuple[list[str], list[str], list[Any], list[tuple[str, str]]]:
    keys = [group_by] if isinstance(group_by, str | Mapping) else list(group_by)
    if not keys or keys == [""]:
        raise Invalid("is missing", field="group_by", allowed="a field, or a list of at most 3 fields")
    check_count("group_by", keys, MAX_GROUPS)
    names = []
    sqls = []
    params = []
    casts = []
    for key in keys:
        if isinstance(key, Mapping):
            name = field_name(key.get("field"), "group_by.field")
            sql, values = bucket_sql(name, str(key.get("bucket", "")), "group_by.bucket")
            casts.append((name, "timestamptz"))
        else:
            name = field_name(key, "group_by")
            sql, values = field_text(name)
        names.append(name)
        sqls.append(sql)
        params += values
    return names, sqls, params, casts


def _metric(metric: Mapping[str, Any], path: str) -> tuple[str, str, list[Any], str]:
    """Return the metric's label, SQL for the value with its parameters, and SQL that aggregates the values."""
    if not isinstance(metric, Mapping):
        raise Invalid("is not an object", field=path, allowed='{"op": "avg", "field": "amount"}')
    op = check_choice(f"{path}.op", str(metric.get("op", "")), METRICS)
    if op == "count" and not metric.get("field"):
        return "count", "1", [], "count({value})"
    name = field_name(metric.get("field"), f"{path}.field")
    if op == "count":
        return f"count({name})", *field_text(name), "count({value})"
    sql, params = cast(name, "numeric")
    if op == "percentile":
        share = metric.get("p", 0.5)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise Invalid(f"{share!r} is not between 0 and 1", field=f"{path}.p", allowed="0 to 1")
        return (
            f"p{share * 100:g}({name})",
            sql,
            params,
            f"percentile_cont({float(share)!r}) WITHIN GROUP (ORDER BY {{value}})",
        )
    return f"{op}({name})", sql, params, f"{op}({{value}})"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value
    return int(value) if value == int(value) else float(value)  # an int is exact, a float has only 15 digits
