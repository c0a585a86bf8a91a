"""Services that try, add, change and remove checks of memories.

Whoever may edit a memory may change its checks. The checks of a memory that a curator has approved are changed by
curators of its persona, other than its owner. A check runs before it is stored, with the rights of the caller, and is
refused if it can't run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from analysis.checks import expectations, presence, running
from analysis.checks.expectations import TEXTS, Definition
from analysis.checks.operations import AddCheck, EditCheck, RemoveCheck, RunCheck, TryCheck
from analysis.checks.running import CheckTrial
from analysis.models import CheckState, Expectation, MemoryCheck
from analysis.sql.execute import readable_sources
from foundation.database.identity import service
from foundation.operations.errors import Conflict, Forbidden, Invalid, LimitReached, NotFound
from foundation.people.caller import Caller, require_user
from memories import extensions
from memories.extensions import PreparedCheck
from memories.models import IN_USE, MemoryRecord
from memories.writing.correction_chains import require_in_use

MAX_CHECKS = 5  # of a memory
ROWS_SHOWN = 20  # of a trial
DEFINED = ("source", "sql", "expects", "value", "low", "high")


@dataclass(frozen=True)
class Tried:
    """A definition that was run, completed by the source's name and the digest, and its result."""

    definition: Definition
    trial: CheckTrial


def try_check(caller: Caller, operation: TryCheck) -> Tried:
    """Run a check that need not be stored, and return at least ROWS_SHOWN rows if there are as many.

    Raises Invalid for a wrong argument, a statement that writes, and a source that the caller may not read, and as
    `execute.run_query` if the source can't run it.
    """
    return _tried(caller, _definition(caller, operation.values(*DEFINED), operation.call))


def add_check(caller: Caller, operation: AddCheck) -> MemoryCheck:
    record = changeable(caller, operation.record_id)
    _check_count(record)
    tried = _runnable(try_check(caller, operation))
    with transaction.atomic():
        return _store(caller, _locked(caller, operation.record_id), tried)


def edit_check(caller: Caller, operation: EditCheck) -> MemoryCheck:
    """Change a check. The caller becomes its author, because it runs with their rights from then on."""
    tried = _tried_edit(caller, operation)
    with transaction.atomic():
        return _store_edit(caller, _locked(caller, operation.record_id), operation.check_id, tried)


def remove_check(caller: Caller, operation: RemoveCheck) -> None:
    with transaction.atomic():
        record = _locked(caller, operation.record_id)
        with service("checks"):
            if not MemoryCheck.objects.filter(pk=operation.check_id, record=record).delete()[0]:
                raise NotFound(gettext("no such check"), field="check_id")


def run_check(caller: Caller, operation: RunCheck) -> MemoryCheck:
    """Run a check now, with the rights of its author. Its owner, curators of its persona and admins may do so."""
    record = readable(caller, operation.record_id)
    if not (caller.can_edit_for(record.created_by) or caller.can_review_for(record.persona)):
        raise Forbidden(gettext("belongs to another user: only its owner, a curator or an admin can run its checks"))
    require_in_use(caller, record)
    if not MemoryCheck.objects.filter(pk=operation.check_id, record=record).exists():
        raise NotFound(gettext("no such check"), field="check_id")
    check = running.run(operation.check_id, takes_turn=False)
    if check is None:
        raise Conflict(gettext("was changed in the meantime"), field="check_id")
    return check


@service("checks")
def keep_checks(old: MemoryRecord, new: MemoryRecord) -> None:
    """Copy the checks of a corrected memory to its correction. They keep their authors, and run soon."""
    for check in MemoryCheck.objects.filter(record=old):
        defined = {name: getattr(check, name) for name in (*DEFINED, "digest", "captured", "author")}
        MemoryCheck.objects.create(record=new, **defined)


# -- the argument `check` of operations on memories -----------------------------------------------------------


def prepare(caller: Caller, values: Mapping[str, Any], record_id: UUID | None) -> PreparedCheck:
    """Run what the argument `check` of an operation names, and return what stores it. Errors name `check`."""
    try:
        return _prepare(caller, dict(values), record_id)
    except Invalid as error:
        raise Invalid(
            error.fault, field=f"check.{error.field}" if error.field else "check", allowed=error.allowed
        ) from None


def _prepare(caller: Caller, values: dict[str, Any], record_id: UUID | None) -> PreparedCheck:
    if record_id is None:
        tried = _runnable(try_check(caller, TryCheck.read(values)))
        return lambda record: _message(_store(caller, record, tried))
    check_id = values.pop("id", None)
    if check_id is None:
        record = changeable(caller, record_id)
        _check_count(record)
        tried = _runnable(try_check(caller, TryCheck.read(values)))
        return lambda record: _message(_store(caller, _locked(caller, record.pk), tried))
    place = {"record_id": record_id, "check_id": check_id}
    if values == {"remove": True}:
        return partial(_remove, caller, RemoveCheck.read(place))
    if values == {"run": True}:
        check = run_check(caller, RunCheck.read(place))  # with the rights of its author
        message = _message(check, is_open=check.source in readable_sources(caller))
        return lambda record: message
    edit = EditCheck.read(place | values)
    edited = _tried_edit(caller, edit)
    return lambda record: _message(_store_edit(caller, _locked(caller, record.pk), edit.check_id, edited))


def _remove(caller: Caller, operation: RemoveCheck, record: MemoryRecord) -> str:
    remove_check(caller, operation)
    return gettext("the check was removed")


def _message(check: MemoryCheck, *, is_open: bool = True) -> str:
    result = TEXTS[check.last_run["code"]]
    detail = check.last_run["detail"]
    text = gettext("check %(id)s: %(result)s") % {"id": check.pk.hex, "result": result}
    return f"{text} ({detail})" if is_open and detail and check.state == CheckState.FAILED else text


# -- steps ----------------------------------------------------------------------------------------------------


def readable(caller: Caller, record_id: UUID) -> MemoryRecord:
    record = MemoryRecord.objects.visible_to(caller).defer("search").filter(pk=record_id).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field="id")
    return record


def changeable(caller: Caller, record_id: UUID) -> MemoryRecord:
    """Return the memory. Raises NotFound, Forbidden and Conflict if the caller may not change its checks."""
    record = readable(caller, record_id)
    approved = is_approved(record)
    if not _decides(caller, record, is_approved=approved):
        if not approved:
            raise Forbidden(gettext("belongs to another user: only its owner or an admin can change it"), field="id")
        raise Forbidden(
            gettext("was approved by a curator: only another curator of %(persona)s can change its checks")
            % {"persona": record.persona},
            field="id",
        )
    require_in_use(caller, record)
    return record


def may_change_checks(caller: Caller, record: MemoryRecord, *, is_approved: bool) -> bool:
    return record.status in IN_USE and _decides(caller, record, is_approved=is_approved)


def _decides(caller: Caller, record: MemoryRecord, *, is_approved: bool) -> bool:
    if not is_approved:
        return caller.can_edit_for(record.created_by)
    return caller.is_admin or (caller.can_review_for(record.persona) and caller.email != record.created_by)


@service("checks")
def is_approved(record: MemoryRecord) -> bool:
    return extensions.proposals_among([record.pk]).get(record.pk, False)


def _locked(caller: Caller, record_id: UUID) -> MemoryRecord:
    with service("checks"):
        MemoryRecord.objects.select_for_update().filter(pk=record_id).first()
    return changeable(caller, record_id)


def _one(caller: Caller, record_id: UUID, check_id: UUID) -> MemoryCheck:
    record = changeable(caller, record_id)
    check = MemoryCheck.objects.filter(pk=check_id, record=record).first()
    if check is None:
        raise NotFound(gettext("no such check"), field="check_id")
    return check


def _check_count(record: MemoryRecord) -> None:
    if MemoryCheck.objects.filter(record=record).count() >= MAX_CHECKS:
        raise LimitReached(
            gettext("the memory has %(count)s checks, the most there may be: change one of them")
            % {"count": MAX_CHECKS}
        )


def _definition(caller: Caller, values: Mapping[str, Any], call: str) -> Definition:
    stated = dict(values)
    if call:
        stated["source"], stated["sql"] = _statement_of(caller, call)
    if not stated["sql"]:
        raise Invalid(gettext("is missing"), field="sql", allowed=gettext("one statement that reads, or call"))
    expectations.check_values(stated)
    return Definition(**stated)


def _statement_of(caller: Caller, call: str) -> tuple[str, str]:
    statement = extensions.recent_statement(caller, call)
    if statement is None:
        raise Invalid(
            gettext("no such call of query_sql by you, or its statement is too long"),
            field="call",
            allowed=gettext("last, the id of a call, or sql instead"),
        )
    return statement


def _tried_edit(caller: Caller, operation: EditCheck) -> Tried:
    """Run a stored check with the changes of the operation."""
    check = _one(caller, operation.record_id, operation.check_id)
    if check.source not in readable_sources(caller):  # errors of the source quote the statement
        raise Forbidden(gettext("is about a source that you may not read: its author can change it"), field="check_id")
    given = operation.explicit_values(*DEFINED)
    needed = expectations.VALUES.get(given.get("expects") or check.expects, ())
    kept = [name for name in DEFINED if name not in ("value", "low", "high") or name in needed]
    values = dict.fromkeys(DEFINED) | {name: getattr(check, name) for name in kept} | given
    return _runnable(_tried(caller, _definition(caller, values, operation.call or "")))


def _tried(caller: Caller, definition: Definition) -> Tried:
    require_user(caller)
    if not caller.may_use("query_sql"):
        raise Forbidden(
            gettext("the persona %(persona)r may not use query_sql, and so not add checks")
            % {"persona": caller.persona}
        )
    trial = running.run_definition(caller, definition, rows=ROWS_SHOWN)
    definition = replace(definition, source=trial.source)
    if definition.expects == Expectation.SAME:  # later results are compared with this one
        digest = expectations.digest_of(trial.result)
        definition = replace(definition, digest=digest, captured=expectations.shown(trial.result))
        trial = replace(trial, outcome=expectations.compare(definition, trial.result))
    return Tried(definition, trial)


def _runnable(tried: Tried) -> Tried:
    """Raise Invalid if the result can't be compared with the expectation."""
    outcome = tried.trial.outcome
    if outcome.state == CheckState.CANNOT_RUN:
        raise Invalid(str(TEXTS[outcome.code]), field="sql", allowed=gettext("a statement whose result fits expects"))
    return tried


def _store(caller: Caller, record: MemoryRecord, tried: Tried) -> MemoryCheck:
    _check_count(record)
    check = MemoryCheck(record=record)
    with service("checks"):
        _write(check, caller, tried)
    presence.note_new()
    return check


def _store_edit(caller: Caller, record: MemoryRecord, check_id: UUID, tried: Tried) -> MemoryCheck:
    with service("checks"):
        check = MemoryCheck.objects.select_for_update().filter(pk=check_id, record=record).first()
        if check is None:
            raise NotFound(gettext("no such check"), field="check_id")
        check.record = record
        _write(check, caller, tried)
        running.set_status(record, check)
    return check


def _write(check: MemoryCheck, caller: Caller, tried: Tried) -> None:
    definition = tried.definition
    now = timezone.now()
    for name in (*DEFINED, "digest", "captured"):
        setattr(check, name, getattr(definition, name))
    check.author = caller.email
    check.updated_at = now
    check.runs = []
    check.failures = 0
    check.failed_at = None
    running.set_result(check, tried.trial.outcome, now)
    failed = check.state == CheckState.FAILED
    check.next_run_at = now + (running.RETRY_AFTER if failed else running.USED)
    check.save()
