"""Periods: named spans of time, such as releases and fiscal periods, which admins open and end."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.people.caller import Caller
from memories.models import Period
from memories.operations import OpenPeriod, PeriodOperation
from memories.writing.validity import end_condition, renew_condition


def open_period(caller: Caller, operation: OpenPeriod) -> Period:
    """Open a period, on which memories may depend from then on. Raises Conflict if there is one of this name."""
    _require_admin(caller)
    with transaction.atomic():
        period, is_new = Period.objects.get_or_create(
            name=operation.name, defaults={"note": operation.note, "opened_by": caller.email}
        )
    if not is_new:
        raise Conflict(gettext("there is a period of this name already"), field="name")
    return period


def end_period(caller: Caller, operation: PeriodOperation) -> tuple[Period, int]:
    """End a period, and with it the validity of the memories that depend on it. Return it and their number."""
    return _set_ended(operation.name, caller, end_condition, ended=True)


def reopen_period(caller: Caller, operation: PeriodOperation) -> tuple[Period, int]:
    """Open an ended period again. The memories that depend on it are valid again. Return it and their number."""
    return _set_ended(operation.name, caller, renew_condition, ended=False)


def _set_ended(name: str, caller: Caller, spread: Callable[..., int], *, ended: bool) -> tuple[Period, int]:
    _require_admin(caller)
    with transaction.atomic():
        period = Period.objects.select_for_update().filter(name=name).first()
        if period is None:
            raise NotFound(gettext("no such period"), field="name")
        if bool(period.ended_at) == ended:
            fault = gettext("has ended already") if ended else gettext("is open")
            raise Conflict(fault, field="name")
        period.ended_at, period.ended_by = (timezone.now(), caller.email) if ended else (None, "")
        period.save(update_fields=["ended_at", "ended_by"])
        reason = f"the period {name} {'ended' if ended else 'was opened again'}"
        count = spread(caller, condition=f"period:{name}", reason=reason)
    return period, count


def _require_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can open and end periods"))
