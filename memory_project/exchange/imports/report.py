"""The report on a staged import: its rows by outcome, and the choice of those to take over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.downloads.csv_lines import csv_line
from foundation.operations.errors import Conflict, check_choice
from foundation.people.caller import Caller
from memories.models.record import ABOUT_DATA
from memories.writing import entity_assignment
from memory_project.exchange.imports import staging
from memory_project.exchange.imports.models import Import, ImportRow, ImportState, RowOutcome

PAGE = 50
CHUNK = 2_000
CHOOSABLE = (RowOutcome.NEW, RowOutcome.CONFLICTING)
COLUMNS = ("place", "outcome", "reason", "content", "memory")


@dataclass(frozen=True)
class OutcomeCount:
    outcome: str
    label: str
    rows: int
    chosen: int


def counts(staged: Import) -> list[OutcomeCount]:
    """Return the number of rows, and of chosen ones, by outcome. Outcomes without rows are left out."""
    rows = ImportRow.objects.filter(of=staged).order_by().values("outcome")
    found = {
        row["outcome"]: (row["n"], row["chosen"])
        for row in rows.annotate(n=Count("pk"), chosen=Count("pk", filter=Q(is_chosen=True)))
    }
    return [OutcomeCount(value, str(label), *found[value]) for value, label in RowOutcome.choices if value in found]


def without_entities(staged: Import) -> int:
    """Return how many of the chosen rows will be memories that are unsettled, because they name no catalog entity."""
    if not entity_assignment.asks():
        return 0
    rows = ImportRow.objects.filter(of=staged, is_chosen=True, outcome=RowOutcome.NEW, kind="memory")
    states_none = Q(data__entity_urns=[]) | Q(data__entity_urns__isnull=True)
    is_about_data = Q(data__dimension__in=list(ABOUT_DATA)) | Q(data__dimension__isnull=True)
    return rows.filter(states_none, is_about_data).count()


def rows_of(staged: Import, outcome: str = "", text: str = "") -> QuerySet[ImportRow]:
    rows = ImportRow.objects.filter(of=staged).order_by("number")
    if outcome:
        rows = rows.filter(outcome=check_choice("outcome", outcome, RowOutcome.values))
    if text:
        rows = rows.filter(Q(data__content__icontains=text) | Q(place__icontains=text))
    return rows


def page(rows: QuerySet[ImportRow], after: int = 0) -> tuple[list[ImportRow], int]:
    """Return a page of rows, and the number after which the next page begins; 0 if this is the last one."""
    found = list(rows.filter(number__gt=after)[: PAGE + 1])
    return found[:PAGE], found[PAGE - 1].number if len(found) > PAGE else 0


def choose_rows(
    caller: Caller,
    *,
    import_id: UUID | str,
    chosen: bool,
    outcome: str = "",
    text: str = "",
    numbers: Sequence[int] = (),
) -> int:
    """Choose rows for taking over, or leave them out: those with these numbers, or all that the filters show.

    Return how many. Duplicates and refused rows can't be chosen.
    """
    with transaction.atomic():
        staged = Import.objects.select_for_update().get(pk=staging.get(caller, import_id).pk)
        if staged.state != ImportState.PARSED:
            raise Conflict(gettext("its rows can't be chosen any more, or not yet"), field="import_id")
        rows = rows_of(staged, outcome, text).filter(outcome__in=CHOOSABLE)
        if numbers:
            rows = rows.filter(number__in=list(numbers))
        staged.worked_at = timezone.now()
        staged.save(update_fields=["worked_at"])
        return rows.update(is_chosen=chosen)


def as_csv(staged: Import) -> Iterator[str]:
    """Return the lines of the report, one for each row of the file."""
    yield csv_line(COLUMNS)
    rows = ImportRow.objects.filter(of=staged).order_by("number")
    after = 0
    while chunk := list(rows.filter(number__gt=after)[:CHUNK]):
        for row in chunk:
            yield csv_line((row.place, row.outcome, row.reason, row.text, row.reference))
        after = chunk[-1].number
