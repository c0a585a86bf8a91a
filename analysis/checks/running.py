"""Runs of checks, and what their results change.

A check runs under the identity of its author, who must still be among the readers of the source. It can't run if the
source is away, refuses the statement or reaches a limit: that is not a failure, and never makes the memory stale. A
check that fails twice, the second time at least SECOND_AFTER later, makes the memory stale. If it passes again, the
memory becomes active again, unless something else has made it stale, too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone, translation
from django_q.tasks import async_task

from analysis.checks import expectations
from analysis.checks.expectations import TEXTS, CheckOutcome, Definition
from analysis.models import CheckState, MemoryCheck
from analysis.operations import QuerySql
from analysis.sql import execute
from analysis.sql.values import SqlResult
from foundation.database.identity import service
from foundation.operations.errors import DomainError, Forbidden, Invalid, LimitReached
from foundation.operations.fields import MAX_REASON
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memories import services
from memories.extensions import StaleCause
from memories.models import IN_USE, Impression, MemoryRecord, Report, Status
from memories.writing.staleness import mark_fresh, was_marked_stale_by

SECOND_AFTER = timedelta(minutes=5)  # a second failure sooner than this may have the same passing cause
RETRY_AFTER = timedelta(minutes=10)
LEASE = timedelta(minutes=30)  # for which no other worker takes a check that is running
KEPT_RUNS, KEPT_DAYS = 5, 90
CHECKER = Caller(email="checks", persona="", personas=frozenset(), is_admin=True, channel="checks")
PASSES_AGAIN = "its check passes again"
CHECK_PASSED = "check_passed"  # the change in the history; it lets the catalog be compared again
# How long after a run the next one is due, with up to a tenth more, so that not all checks run at the same time.
USED, UNUSED, FORGOTTEN = timedelta(days=1), timedelta(days=7), timedelta(days=30)
RECENTLY, OLD = timedelta(days=7), timedelta(days=90)  # a memory is used if it was attached or reported on


@dataclass(frozen=True)
class CheckTrial:
    """The outcome of a run, its result, and the name of the source that was read."""

    outcome: CheckOutcome
    result: SqlResult
    source: str


def definition_of(check: MemoryCheck) -> Definition:
    names = Definition.__dataclass_fields__
    return Definition(**{name: getattr(check, name) for name in names})


def run_definition(caller: Caller, definition: Definition, *, rows: int = 0) -> CheckTrial:
    """Run a statement with the rights of the caller and compare its result. Raises as `execute.run_query`."""
    limit = max(rows, expectations.rows_needed(definition.expects))
    operation = QuerySql.read({"sql": definition.sql, "source": definition.source, "limit": limit})
    answer = execute.run_query(caller, operation, max_s=settings.CHECK_TIMEOUT_S)
    return CheckTrial(expectations.compare(definition, answer.result), answer.result, answer.source.name)


def author_of(email: str) -> Caller | None:
    """Return the author of a check as a caller with their present rights, or None if there is no such account."""
    person = get_user_model().objects.filter(email__iexact=email).first()
    try:
        return build_caller(person, channel="checks") if person else None
    except Forbidden:
        return None


def run(check_id: UUID, *, takes_turn: bool = True) -> MemoryCheck | None:
    """Run a check with the rights of its author, store the result, and return the check.

    Returns None if the check was deleted, or changed meanwhile. With `takes_turn`, a check that another worker has
    taken is left to it.
    """
    with service("checks"):
        check = MemoryCheck.objects.select_related("record").filter(pk=check_id).first()
        if check is None or (takes_turn and not _take(check)):
            return None
        is_exhausted = _has_reached_daily_limit(check.source)
    outcome = CheckOutcome(CheckState.CANNOT_RUN, "daily_limit") if is_exhausted else _run_as_author(check)
    with service("checks"):
        return record_result(check, outcome, timezone.now(), counts=not is_exhausted)


def _take(check: MemoryCheck) -> bool:
    taken = MemoryCheck.objects.filter(pk=check.pk, next_run_at=check.next_run_at)
    return bool(taken.update(next_run_at=timezone.now() + LEASE))


def _has_reached_daily_limit(source: str) -> bool:
    today = MemoryCheck.objects.filter(source=source, runs_on=_today())
    count = today.aggregate(count=Sum("runs_that_day"))["count"] or 0
    return count >= settings.CHECKS_PER_SOURCE_PER_DAY


def _run_as_author(check: MemoryCheck) -> CheckOutcome:
    author = author_of(check.author)
    if author is None:
        return CheckOutcome(CheckState.CANNOT_RUN, "not_permitted")
    try:
        return run_definition(author, definition_of(check)).outcome
    except DomainError as error:
        return outcome_of(error)


def outcome_of(error: DomainError) -> CheckOutcome:
    if isinstance(error, LimitReached):
        code = "limit"
    elif isinstance(error, Invalid):
        code = "not_permitted" if error.field == "source" else "refused"
    else:
        code = "source_error"
    detail = "" if code == "not_permitted" else error.message[: expectations.MAX_DETAIL]
    return CheckOutcome(CheckState.CANNOT_RUN, code, detail)


def record_result(
    check: MemoryCheck, outcome: CheckOutcome, now: datetime, *, counts: bool = True
) -> MemoryCheck | None:
    """Store a result, and change the status of the memory if it follows from it.

    Returns None if the check was changed or deleted since it was read.
    """
    with transaction.atomic():
        record = MemoryRecord.objects.select_for_update().filter(pk=check.record_id).first()
        rows = MemoryCheck.objects.select_for_update().filter(pk=check.pk, updated_at=check.updated_at)
        stored = rows.first() if record else None
        if record is None or stored is None:
            return None
        set_result(stored, outcome, now)
        stored.next_run_at = _next_run(stored, record, now)
        if counts:
            stored.runs_that_day = stored.runs_that_day + 1 if stored.runs_on == _today() else 1
            stored.runs_on = _today()
        stored.save()
        stored.record = record
        set_status(record, stored)
    return stored


def set_result(check: MemoryCheck, outcome: CheckOutcome, now: datetime) -> None:
    """Set the result of a run in a check that is not saved yet."""
    kept = [run for run in check.runs if datetime.fromisoformat(run["at"]) > now - timedelta(days=KEPT_DAYS)]
    run = {"at": now.isoformat(), "state": outcome.state.value, "code": outcome.code, "detail": outcome.detail}
    check.runs = [run, *kept][:KEPT_RUNS]
    check.state = outcome.state
    check.checked_at = now
    if outcome.state == CheckState.PASSED:
        check.failures = 0
        check.failed_at = None
    elif outcome.state == CheckState.FAILED and check.failed_at is None:
        check.failures = 1
        check.failed_at = now
    elif outcome.state == CheckState.FAILED and check.failed_at and now - check.failed_at >= SECOND_AFTER:
        check.failures = 2


def set_status(record: MemoryRecord, check: MemoryCheck) -> None:
    """Make the locked memory stale if the check has failed twice, or active again if a check alone made it stale."""
    if check.has_failed_twice and record.status == Status.ACTIVE:
        services.mark_stale(CHECKER, record_id=record.pk, reason=reason_of(check))
    elif (
        check.state == CheckState.PASSED
        and record.status == Status.STALE
        and was_marked_stale_by(record, CHECKER.email)
    ):
        mark_fresh(CHECKER, record_id=record.pk, reason=PASSES_AGAIN, change=CHECK_PASSED)
    record.refresh_from_db(fields=["status", "stale_reason", "stale_at"])


@translation.override(settings.LANGUAGE_CODE)  # the text is stored
def reason_of(check: MemoryCheck) -> str:
    """Return why a check that failed twice makes its memory stale, with both results but without values."""
    failed = [run for run in check.runs if run["state"] == CheckState.FAILED]
    results = [f"{TEXTS[run['code']]} at {_shown_time(run['at'])}" for run in (failed[-1:] + failed[:1])[:2]]
    return f"its check in {check.source} failed twice: {', and '.join(results)}"[:MAX_REASON]


def _shown_time(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@service("checks")
def stale_cause(record: MemoryRecord) -> StaleCause | None:
    check = MemoryCheck.objects.filter(record=record, failures__gt=1).first()
    return StaleCause(CHECKER.email, reason_of(check)) if check else None


# -- when checks run ---------------------------------------------------------------------------------------


def _next_run(check: MemoryCheck, record: MemoryRecord, now: datetime) -> datetime:
    if check.state == CheckState.FAILED and not check.has_failed_twice:
        return now + RETRY_AFTER
    interval = _interval(record, now)
    return now + interval + interval * random.random() / 10


def _interval(record: MemoryRecord, now: datetime) -> timedelta:
    uses = Impression.objects.filter(record=record, at__gt=now - RECENTLY).exists()
    if uses or Report.objects.filter(record=record, at__gt=now - RECENTLY).exists():
        return USED
    return FORGOTTEN if record.created_at < now - OLD and _is_unused(record, now) else UNUSED


def _is_unused(record: MemoryRecord, now: datetime) -> bool:
    since = now - FORGOTTEN
    is_recalled = record.last_accessed_at is not None and record.last_accessed_at > since
    return not is_recalled and not Impression.objects.filter(record=record, at__gt=since).exists()


@service("checks")
def due_checks(limit: int, record_ids: Sequence[UUID] | None = None) -> list[UUID]:
    """Return the ids of checks that are due, and of those of memories that are used again, longest due first."""
    now = timezone.now()
    living = MemoryCheck.objects.filter(record__status__in=IN_USE)
    if record_ids is not None:
        living = living.filter(record__in=record_ids)
    due = list(living.filter(next_run_at__lte=now).order_by("next_run_at").values_list("pk", flat=True)[:limit])
    used = Impression.objects.filter(at__gt=now - RECENTLY).values("record")
    again = living.filter(checked_at__lt=now - USED, next_run_at__gt=now + LEASE, record__in=used)
    return [*due, *again.order_by("checked_at").values_list("pk", flat=True)[: limit - len(due)]]


@service("checks")
def make_due(record_ids: Sequence[UUID], *, older_than: timedelta) -> list[UUID]:
    """Make the checks of these memories due that have not run for `older_than`. Return the memories that have any."""
    now = timezone.now()
    rows = MemoryCheck.objects.filter(record__in=record_ids, next_run_at__gt=now)
    old = rows.filter(checked_at__lt=now - older_than) | rows.filter(checked_at=None)
    ids = list(old.values_list("record", flat=True).distinct())
    if ids:
        old.update(next_run_at=now)
    return ids


def request_runs(record_ids: Sequence[UUID], *, older_than: timedelta) -> None:
    """Let a worker run the checks of these memories soon, unless they have run since or are due already.

    The caller must have been shown these memories.
    """
    if ids := make_due(record_ids, older_than=older_than):
        transaction.on_commit(partial(async_task, "analysis.tasks.run_checks_of", [pk.hex for pk in ids]))


@service("checks")
def make_due_about(urns: Sequence[str]) -> int:
    """Make the checks of memories about these entities due, because the catalog says that their schema changed."""
    rows = MemoryCheck.objects.filter(record__entity_urns__overlap=list(urns), record__status__in=IN_USE)
    return rows.filter(next_run_at__gt=timezone.now()).update(next_run_at=timezone.now())


def _today() -> date:
    return timezone.now().astimezone(UTC).date()
