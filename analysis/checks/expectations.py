"""Expectations of checks: which values they need, and the comparison of a result with them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from analysis.models import CheckState, Expectation
from analysis.sql.values import SqlResult
from foundation.operations.errors import Invalid, LimitReached
from foundation.operations.fields import UNSTORABLE, kind_of

MAX_VALUE = 1_000  # characters of an expected text
MAX_DETAIL = 300  # characters of a returned value that a result keeps
MAX_SAME_ROWS = 1_000  # rows of a result that is compared as a whole
TOLERANCE = 1e-9  # relative, for floating-point numbers, whose last digits depend on the order of summation
VALUES: Mapping[str, Sequence[str]] = {
    Expectation.EQUALS: ("value",),
    Expectation.AT_LEAST: ("value",),
    Expectation.BETWEEN: ("low", "high"),
}
# Results, without values of the source, because everybody who may read the memory reads them.
TEXTS: Mapping[str, str | Promise] = {
    "passed": gettext_lazy("passed"),
    "other_value": gettext_lazy("returned another value"),
    "smaller": gettext_lazy("returned a smaller value"),
    "outside": gettext_lazy("returned a value outside of the range"),
    "no_row": gettext_lazy("returned no row"),
    "no_value": gettext_lazy("returned an empty value"),
    "rows": gettext_lazy("returned rows"),
    "other_result": gettext_lazy("returned another result than when it was captured"),
    "several": gettext_lazy("returned several values where one is expected"),
    "not_comparable": gettext_lazy("returned a value of another kind than expected"),
    "large": gettext_lazy("returned too much to compare as a whole"),
    "not_permitted": gettext_lazy("its author may no longer read this source"),
    "limit": gettext_lazy("took too long or needed too much memory"),
    "daily_limit": gettext_lazy("the checks of this source have reached today’s limit"),
    "refused": gettext_lazy("the statement is not allowed"),
    "source_error": gettext_lazy("the source reported an error"),
}


@dataclass(frozen=True)
class Definition:
    """Statement of a check, and the result it expects."""

    source: str
    sql: str
    expects: str
    value: Any = None
    low: Any = None
    high: Any = None
    digest: str = ""
    captured: str = ""


@dataclass(frozen=True)
class CheckOutcome:
    """The result of a run. `code` is a key of TEXTS, and `detail` may contain values of the source."""

    state: CheckState
    code: str
    detail: str = ""


def check_values(values: Mapping[str, Any]) -> None:
    """Raise Invalid if the values of an expectation are missing, not comparable, or of another expectation."""
    expects = values["expects"]
    needed = VALUES.get(expects, ())
    for name in ("value", "low", "high"):
        given = values.get(name)
        if name not in needed and given is not None:
            names = ", ".join(needed) or gettext("no value")
            raise Invalid(gettext("is not used by %(expects)s") % {"expects": expects}, field=name, allowed=names)
        if name in needed:
            _check_value(name, given, must_have_order=expects != Expectation.EQUALS)
    if expects == Expectation.BETWEEN:
        is_ordered = _order(values["low"], values["high"])
        if is_ordered is None:
            raise Invalid(
                gettext("is of another kind than low"), field="high", allowed=gettext("two numbers or two times")
            )
        if is_ordered > 0:
            raise Invalid(gettext("is less than low"), field="high", allowed=gettext("at least the value of low"))


def _check_value(name: str, value: Any, *, must_have_order: bool) -> None:
    allowed = gettext("a number, or a time in ISO 8601") if must_have_order else gettext("a text, number or boolean")
    if value is None or value == "":
        raise Invalid(gettext("is missing"), field=name, allowed=allowed)
    is_scalar = isinstance(value, str | int | float) and not (isinstance(value, float) and not math.isfinite(value))
    if not is_scalar or (must_have_order and _number(value) is None and _moment(value) is None):
        raise Invalid(gettext("is %(value)s") % {"value": kind_of(value)}, field=name, allowed=allowed)
    if isinstance(value, str) and (len(value) > MAX_VALUE or UNSTORABLE.search(value)):
        raise Invalid(
            gettext("has %(count)s characters") % {"count": len(value)}, field=name, allowed=f"1 to {MAX_VALUE}"
        )


def rows_needed(expects: str) -> int:
    if expects == Expectation.SAME:
        return MAX_SAME_ROWS
    return 2 if expects in VALUES else 1


def compare(definition: Definition, result: SqlResult) -> CheckOutcome:
    match definition.expects:
        case Expectation.EMPTY:
            return CheckOutcome(CheckState.FAILED, "rows", shown(result)) if result.rows else _passed("")
        case Expectation.NOT_EMPTY:
            return _passed("") if result.rows else CheckOutcome(CheckState.FAILED, "no_row")
        case Expectation.SAME:
            return _compare_whole(definition, result)
    if len(result.rows) > 1 or (result.rows and len(result.rows[0]) != 1) or result.columns_left_out:
        return CheckOutcome(CheckState.CANNOT_RUN, "several", shown(result))
    if not result.rows:
        return CheckOutcome(CheckState.FAILED, "no_row")
    return _compare_value(definition, result.rows[0][0])


def _compare_value(definition: Definition, value: Any) -> CheckOutcome:
    detail = _short(value)
    if value is None:
        return CheckOutcome(CheckState.FAILED, "no_value")
    if definition.expects == Expectation.EQUALS:
        is_equal = _equal(value, definition.value)
        return _passed(detail) if is_equal else CheckOutcome(CheckState.FAILED, "other_value", detail)
    if definition.expects == Expectation.AT_LEAST:
        order = _order(value, definition.value)
        if order is None:
            return CheckOutcome(CheckState.CANNOT_RUN, "not_comparable", detail)
        return _passed(detail) if order >= 0 else CheckOutcome(CheckState.FAILED, "smaller", detail)
    from_low = _order(value, definition.low)
    from_high = _order(value, definition.high)
    if from_low is None or from_high is None:
        return CheckOutcome(CheckState.CANNOT_RUN, "not_comparable", detail)
    return _passed(detail) if from_low >= 0 >= from_high else CheckOutcome(CheckState.FAILED, "outside", detail)


def _compare_whole(definition: Definition, result: SqlResult) -> CheckOutcome:
    try:
        digest = digest_of(result)
    except LimitReached:
        return CheckOutcome(CheckState.CANNOT_RUN, "large")
    is_same = digest == definition.digest
    return _passed(shown(result)) if is_same else CheckOutcome(CheckState.FAILED, "other_result", shown(result))


def _passed(detail: str) -> CheckOutcome:
    return CheckOutcome(CheckState.PASSED, "passed", detail)


def digest_of(result: SqlResult) -> str:
    """Return a hash of the columns and rows, whatever the order of the rows. Raises LimitReached for a cut result."""
    if result.is_cut or result.shortened or result.columns_left_out:
        raise LimitReached(
            gettext("the result is too large to be compared as a whole: aggregate, or select fewer rows or columns")
        )
    rows = sorted(json.dumps(row, ensure_ascii=False, default=str) for row in result.rows)
    return hashlib.sha256(json.dumps([result.columns, rows], ensure_ascii=False).encode()).hexdigest()


def shown(result: SqlResult) -> str:
    """Return the first values of a result, for a person who may read the source."""
    if len(result.rows) == 1 and len(result.rows[0]) == 1:
        return _short(result.rows[0][0])
    count = f"{len(result.rows)}{'+' if result.is_cut else ''}"
    rows = gettext("%(count)s rows") % {"count": count}
    return f"{rows}: {_short(result.rows[:3])}" if result.rows else rows


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"


def _equal(value: Any, expected: Any) -> bool:
    if isinstance(value, bool) or isinstance(expected, bool):
        return str(value).casefold() == str(expected).casefold()
    order = _order(value, expected)
    return order == 0 if order is not None else str(value) == str(expected)


def _order(value: Any, other: Any) -> int | None:
    """Return a negative number if `value` is smaller, 0 if both are equal, or None if they can't be compared."""
    numbers = _number(value), _number(other)
    if numbers[0] is not None and numbers[1] is not None:
        is_float = isinstance(value, float) or isinstance(other, float)
        if is_float and math.isclose(numbers[0], numbers[1], rel_tol=TOLERANCE):
            return 0
        return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])
    moments = _moment(value), _moment(other)
    if moments[0] is not None and moments[1] is not None:
        return (moments[0] > moments[1]) - (moments[0] < moments[1])
    return None


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
