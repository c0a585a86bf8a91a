"""Pages of long lists by keyset: the next page begins after the last row shown, however many rows came meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from memories.contract.errors import Invalid
from memories.contract.fields import Moment
from memories.contract.operations import validate

SIZE = 20


@dataclass(frozen=True)
class Page:
    rows: Sequence[Any]
    after: str = ""  # where the next page begins; empty on the last


def page(
    rows: QuerySet[Any], after: str = "", *, by: str = "created_at", newest: bool = True, size: int = SIZE
) -> Page:
    """The rows after the cursor, ordered by a time that is never null, then by primary key. Raises Invalid for a
    cursor that this did not make."""
    if after:
        at, _, key = after.partition("~")
        try:
            pk = rows.model._meta.pk.to_python(key)
        except ValidationError as error:
            raise Invalid("is not a cursor of this list", field="after", allowed="what the last page said") from error
        instant = validate(Moment, at or "missing", "after")
        beyond = {f"{by}__lt" if newest else f"{by}__gt": instant}
        rows = rows.filter(Q(**beyond) | Q(**{by: instant, "pk__gt": pk}))
    page_rows = list(rows.order_by(f"-{by}" if newest else by, "pk")[: size + 1])
    if len(page_rows) <= size:
        return Page(page_rows)
    last = page_rows[size - 1]
    at = reduce(getattr, by.split("__"), last)
    return Page(page_rows[:size], f"{at.isoformat()}~{last.pk}")
