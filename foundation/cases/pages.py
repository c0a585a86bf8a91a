"""Pages of cases of one or more kinds, the newest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from foundation.cases.kinds import Case, CaseKind, case_id
from foundation.operations.fields import Moment
from foundation.operations.operation import validate
from foundation.operations.paging import invalid_cursor
from foundation.people.caller import Caller

SIZE = 20  # cases on a page


@dataclass(frozen=True)
class CasePage:
    cases: Sequence[Case]
    after: str = ""  # cursor of the next page; empty on the last page


def page(caller: Caller, kinds: Sequence[CaseKind], after: str = "", *, about: str = "", size: int = SIZE) -> CasePage:
    """Return the page of cases of these kinds after the cursor, or the first page. The newest come first.

    With `about`, only cases about this subject are returned, of the kinds that have subjects.

    Cases of the same time are ordered by the place of their kind in `kinds`, and then by primary key.
    """
    cursor = _Cursor.read(after, kinds) if after else None
    found = heapq.merge(
        *(_entries(caller, kind, about, place, cursor, size) for place, kind in enumerate(kinds)),
        key=lambda entry: (-entry[0].timestamp(), entry[1]),
    )
    entries = [entry for _, entry in zip(range(size + 1), found, strict=False)]
    shown = entries[:size]
    rows: dict[int, list[Any]] = {}
    for _, place, row in shown:
        rows.setdefault(place, []).append(row)
    cases = {(place, case.id): case for place, group in rows.items() for case in kinds[place].cases(caller, group)}
    in_order = [case for _, place, row in shown if (case := cases.get((place, case_id(row))))]
    if len(entries) <= size:
        return CasePage(in_order)
    at, place, row = shown[-1]
    return CasePage(in_order, f"{at.isoformat()}~{kinds[place].name}~{row.pk}")


@dataclass(frozen=True)
class _Cursor:
    at: datetime
    place: int  # of the kind
    pk: str

    @classmethod
    def read(cls, text: str, kinds: Sequence[CaseKind]) -> _Cursor:
        at, _, rest = text.partition("~")
        name, _, pk = rest.partition("~")
        names = [kind.name for kind in kinds]
        if name not in names:
            raise invalid_cursor()
        return cls(validate(Moment, at, "after"), names.index(name), pk)


def _entries(
    caller: Caller, kind: CaseKind, about: str, place: int, cursor: _Cursor | None, size: int
) -> Iterable[tuple[datetime, int, Any]]:
    rows = kind.waiting(caller)
    if about:
        rows = kind.about(rows, about)
    if cursor is not None:
        following = Q(**{f"{kind.waiting_since}__lt": cursor.at})
        if place > cursor.place:
            following |= Q(**{kind.waiting_since: cursor.at})
        elif place == cursor.place:
            following |= Q(**{kind.waiting_since: cursor.at, "pk__gt": _key(rows, cursor.pk)})
        rows = rows.filter(following)
    for row in rows.order_by(f"-{kind.waiting_since}", "pk")[: size + 1]:
        yield getattr(row, kind.waiting_since), place, row


def _key(rows: QuerySet[Any], text: str) -> Any:
    try:
        return rows.model._meta.pk.to_python(text)
    except ValidationError:
        raise invalid_cursor() from None
