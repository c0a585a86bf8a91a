"""Random samples, optionally stratified by fields or limited to a time window.

- Every group is represented if the sample size allows it. A missing value is a group, too.
- If a small group runs out of rows, other groups fill the sample.
- The same seed gives the same sample, as long as the records and the other arguments are the same.

Rows are ranked within their group in an order that depends on the seed. The sample takes the first row of every group,
then the second row of every group, and so on.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.operations import SampleSize, Seed
from analysis.querying.filters import cast, field_name, field_text, valid_time
from analysis.querying.intervals import as_sql, bucket_sql
from analysis.querying.query import QueryScope, documents, require_fields, run, uncastable
from foundation.operations.errors import Invalid, check_count
from foundation.operations.operation import validate

SIZE = 5
MAX_STRATA = 3

# Ranks the ids, and then reads the data of only the chosen rows.
RANKED = """
    WITH ranked AS (
        SELECT id, row_number() OVER (PARTITION BY {groups} ORDER BY {shuffle}, id) AS place, {shuffle} AS dice
        {scope}
    ), chosen AS (SELECT id, place, dice FROM ranked ORDER BY place, dice, id LIMIT %s)
    SELECT data FROM ingested_records JOIN chosen USING (id) ORDER BY place, dice, id
"""
SHUFFLE = "hashint8extended(id, %s)"


@dataclass(frozen=True)
class Proximity:
    """A time window: rows whose `field` is within `window` of `origin`, optionally spread over buckets."""

    field: str
    origin: str
    window: str
    bucket: str = ""

    @classmethod
    def of(cls, values: Any) -> Proximity | None:
        if not values:
            return None
        if not isinstance(values, Mapping) or (unknown := set(values) - {"field", "origin", "window", "bucket"}):
            problem = f"{sorted(unknown)[0]!r} is unknown" if isinstance(values, Mapping) else "is not an object"
            raise Invalid(problem, field="proximity", allowed="field, origin, window, bucket")
        for name in ("field", "origin", "window"):
            if not values.get(name):
                raise Invalid("is missing", field=f"proximity.{name}")
        return cls(
            field_name(values["field"], "proximity.field"),
            valid_time(str(values["origin"]), "proximity.origin"),
            as_sql(str(values["window"]), "proximity.window"),
            str(values.get("bucket") or ""),
        )


@dataclass(frozen=True)
class SampledRows:
    rows: list[dict[str, Any]]
    seed: int
    uncastable: dict[str, int] = field(default_factory=dict)


def sample(
    scope: QueryScope,
    *,
    size: int = SIZE,
    stratify_by: str | Sequence[str] = (),
    proximity: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> SampledRows:
    size = validate(SampleSize, size, "sample_size")
    seed = seed if seed is None else validate(Seed, seed, "seed")
    strata = [stratify_by] if isinstance(stratify_by, str) and stratify_by else list(stratify_by)
    check_count("stratify_by", strata, MAX_STRATA)
    keys = [field_text(field_name(name, "stratify_by")) for name in strata]
    groups = [sql for sql, _ in keys]
    group_params = [value for _, values in keys for value in values]
    require_fields(scope, strata, "stratify_by")
    base, params = scope.sql()
    nearby = Proximity.of(proximity)
    casts: list[tuple[str, str]] = []
    if nearby:
        require_fields(scope, [nearby.field], "proximity.field")
        time, time_params = cast(nearby.field, "timestamptz")
        base += f" AND ({time}) BETWEEN %s::timestamptz - %s::interval AND %s::timestamptz + %s::interval"
        params = [*params, *time_params, nearby.origin, nearby.window, nearby.origin, nearby.window]
        casts.append((nearby.field, "timestamptz"))
        if nearby.bucket:
            bucket, bucket_params = bucket_sql(nearby.field, nearby.bucket, "proximity.bucket", nearby.origin)
            groups.append(bucket)
            group_params += bucket_params
    seed = secrets.randbits(31) if seed is None else seed
    sql = RANKED.format(groups=", ".join(groups) or "1::int", shuffle=SHUFFLE, scope=base)
    rows = run(sql, [*group_params, seed, seed, *params, size])
    return SampledRows(documents(rows), seed, uncastable(scope, casts))
