"""Keyset pagination. A page begins after the last row of the previous page, so new rows don't shift the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.operations.fields import Moment
from foundation.operations.operation import validate

SIZE = 20


@dataclass(frozen=True)
class Page:
    rows: Sequence[Any]
    after: str = ""  # cursor of the next page; empty on the last page


def invalid_cursor(field: str = "after") -> Invalid:
    return Invalid(gettext("is not valid"), field=field, allowed=gettext("the cursor returned with the previous page"))


def page(
    rows: QuerySet[Any], after: str = "", *, by: str = "created_at", newest: bool = True, size: int = SIZE
) -> Page:
    """Return the page of rows after the cursor `after`, or the first page if `after` is empty.

    The rows are ordered by the timestamp `by` (descending if `newest` is true) and then by primary key. The column `by`
    must not be nullable. Raise Invalid if the cursor is malformed.
    """
    if after:
        timestamp, _, key = after.partition("~")
        try:
            pk = rows.model._meta.pk.to_python(key)
        except ValidationError as error:
            raise invalid_cursor() from error
        instant = validate(Moment, timestamp or "missing", "after")
        following = {f"{by}__lt" if newest else f"{by}__gt": instant}
        rows = rows.filter(Q(**following) | Q(**{by: instant, "pk__gt": pk}))
    page_rows = list(rows.order_by(f"-{by}" if newest else by, "pk")[: size + 1])
    if len(page_rows) <= size:
        return Page(page_rows)
    last = page_rows[size - 1]
    instant = reduce(getattr, by.split("__"), last)
    return Page(page_rows[:size], f"{instant.isoformat()}~{last.pk}")
