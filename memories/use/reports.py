"""Reports about memories that agents and programs have used: used, wrong or outdated.

A report changes neither the rank nor the status of a memory, for anyone. That sets it apart from a mark (feedback.py),
with which a reader takes a memory out of their own recall. Therefore every reader's report counts. Usage is counted and
names nobody, because it would tell what a colleague works on. Reports as wrong or outdated name their author to those
who decide about the memory, because they must be able to ask.

A report is about the text that the memory had. It is settled when the text changes or the memory is verified. If
DOUBTERS people have reported a memory and their reports are not settled, the memory needs verification
(memories/queries.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import NotFound, TooManyRequests
from foundation.people.caller import Caller, require_user, system_caller
from memories import extensions
from memories.models import DOUBTS, MemoryRecord, Report, ReportVerdict, Visibility
from memories.models.impression import KEPT_DAYS
from memories.operations import ReportMemories
from memories.use.citations.services import Registered, add_citations

MAX_A_DAY = 1_000  # reports that one person can make in a day (UTC)
MAX_SHOWN = 20  # maximum number of reports that a page shows


@dataclass(frozen=True)
class Reported:
    """The result of a call: how many reports it added by verdict, how many it repeated, and how many it removed."""

    added: Mapping[str, int]
    repeated: int
    withdrawn: int
    cited: Registered | None = None  # in the document `cited_in`


@dataclass(frozen=True)
class Reports:
    """The reports about a memory that a caller may see. Usage is that of the last KEPT_DAYS days."""

    sees_all: bool  # whether the caller decides about the memory, and sees the reports of others
    used: int = 0
    used_by: int = 0  # number of people who reported the use
    doubts: list[Report] = field(default_factory=list)  # reports as wrong or outdated, the newest first
    wrong: int = 0
    outdated: int = 0
    own: int = 0  # the caller's own reports of any verdict


def report(caller: Caller, operation: ReportMemories) -> Reported:
    """Store the caller's reports about memories, and remove those about the memories in `withdraw`.

    A person makes each report about a memory once a day. Repeating it replaces its note, if there is a new one. The
    document `cited_in` is registered as citing the used memories. Raises NotFound if one of the memories does not exist
    or the caller may not read it, and TooManyRequests above MAX_A_DAY.
    """
    require_user(caller)
    now = timezone.now()
    with transaction.atomic():
        records = _lock_readable(caller, operation)
        wanted: dict[tuple[UUID, str], str] = {
            (pk, verdict): operation.note if verdict in DOUBTS else ""
            for verdict in ReportVerdict
            for pk in getattr(operation, verdict)
        }
        rows = Report.objects.filter(by=caller.email, day=_day(now), record__in=[pk for pk, _ in wanted])
        existing = {(row.record_id, row.verdict): row for row in rows}
        new = [key for key in wanted if key not in existing]
        _check_limit(caller, now, len(new))
        Report.objects.bulk_create(
            Report(
                record_id=pk,
                by=caller.email,
                verdict=verdict,
                note=wanted[pk, verdict],
                day=_day(now),
                at=now,
                content_key=records[pk].content_key,
            )
            for pk, verdict in new
        )
        renewed = [row for key, row in existing.items() if _renew(row, records[row.record_id], wanted.get(key), now)]
        keys = [*new, *((row.record_id, row.verdict) for row in renewed)]
        for pk in dict.fromkeys(pk for pk, verdict in keys if verdict in DOUBTS):
            extensions.record_reported(records[pk], caller)
        withdrawn = _withdraw(caller, [records[pk] for pk in operation.withdraw])
        cited = add_citations(caller, operation.cited_in, operation.used) if operation.cited_in else None
    added = {verdict.value: sum(1 for _, name in keys if name == verdict) for verdict in ReportVerdict}
    return Reported({name: n for name, n in added.items() if n}, len(wanted) - len(keys), withdrawn, cited)


def withdraw_wrong(record_id: UUID, *, by: str, since: datetime) -> None:
    """Remove the reports as wrong that a person has made of a memory since then, whoever undoes what has made them."""
    with identity.service("reports"), transaction.atomic():
        record = MemoryRecord.objects.select_for_update(no_key=True).defer("search").get(pk=record_id)
        rows = Report.objects.filter(record=record, by=by, verdict=ReportVerdict.WRONG, at__gte=since)
        is_withdrawn = bool(rows.delete()[0])
        if is_withdrawn and not Report.objects.filter(record=record, by=by, verdict__in=DOUBTS).exists():
            extensions.report_withdrawn(record, replace(system_caller(), email=by))


def reports_about(caller: Caller, record: MemoryRecord) -> Reports:
    """Return the reports about a memory that the caller may read.

    Its owner, curators of its persona and admins see all of them. Other readers see their own.
    """
    is_curator = caller.can_review_for(record.persona) and record.visibility != Visibility.PRIVATE
    sees_all = caller.can_edit_for(record.created_by) or is_curator
    if not record.has_reports:
        return Reports(sees_all)
    rows = record.reports.all() if sees_all else record.reports.filter(by=caller.email)
    recent = Q(verdict=ReportVerdict.USED, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    counts = rows.order_by().aggregate(
        used=Count("pk", filter=recent),
        used_by=Count("by", filter=recent, distinct=True),
        wrong=Count("pk", filter=Q(verdict=ReportVerdict.WRONG)),
        outdated=Count("pk", filter=Q(verdict=ReportVerdict.OUTDATED)),
        own=Count("pk", filter=Q(by=caller.email)),
    )
    has_doubts = counts["wrong"] or counts["outdated"]
    doubts = list(rows.filter(verdict__in=DOUBTS)[:MAX_SHOWN]) if has_doubts else []
    return Reports(sees_all, doubts=doubts, **counts)


def _lock_readable(caller: Caller, operation: ReportMemories) -> dict[UUID, MemoryRecord]:
    """Return the memories of an operation, locked so that none is erased before its report is stored."""
    lists: dict[str, Sequence[UUID]] = operation.values("used", "wrong", "outdated", "withdraw")
    rows = MemoryRecord.objects.visible_to(caller).filter(pk__in={pk for ids in lists.values() for pk in ids})
    locked = rows.select_for_update(no_key=True).order_by("pk").defer("search")
    records = {record.pk: record for record in locked}
    for name, ids in lists.items():
        if missing := [pk.hex for pk in ids if pk not in records]:
            raise NotFound(gettext("no such memory: %(memory)s") % {"memory": missing[0]}, field=name)
    return records


def _check_limit(caller: Caller, now: datetime, count: int) -> None:
    if count and Report.objects.filter(by=caller.email, day=_day(now)).count() + count > MAX_A_DAY:
        midnight = datetime.combine(_day(now) + timedelta(days=1), time(), UTC)
        raise TooManyRequests(
            gettext("the limit is %(limit)s reports a day: try again tomorrow (UTC)") % {"limit": MAX_A_DAY},
            retry_after_s=max(int((midnight - now).total_seconds()), 1),
        )


def _renew(row: Report, record: MemoryRecord, note: str | None, now: datetime) -> bool:
    """Store what a repeated report says anew. Return whether it is about another text than before."""
    is_other_text = note is not None and row.content_key != record.content_key
    if is_other_text or (note and note != row.note):
        row.note = note or ""
        row.content_key = record.content_key
        row.at = now if is_other_text else row.at
        row.save(update_fields=["note", "content_key", "at"])
    return is_other_text


def _withdraw(caller: Caller, records: Sequence[MemoryRecord]) -> int:
    count = 0
    for record in records:
        rows = Report.objects.filter(record=record, by=caller.email)
        had_doubts = rows.filter(verdict__in=DOUBTS).exists()
        count += rows.delete()[0]
        if had_doubts:
            extensions.report_withdrawn(record, caller)
    return count


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()
