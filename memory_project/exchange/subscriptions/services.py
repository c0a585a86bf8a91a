"""Services about subscriptions, called by the admin and the command line."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from foundation.database import locks
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.work import jobs
from foundation.work.jobs import JobKind
from memory_project.exchange.subscriptions import addresses, git, operations, synchronization
from memory_project.exchange.subscriptions.models import (
    OPEN_RUNS,
    RunState,
    Subscription,
    SubscriptionKind,
    SubscriptionRun,
)

RUNS_KEPT = 50  # of each subscription


def visible_to(caller: Caller) -> QuerySet[Subscription]:
    """Return the caller's own subscriptions, or all for admins."""
    rows = Subscription.objects.all()
    return rows if caller.is_admin else rows.filter(created_by=caller.email)


def get(caller: Caller, subscription_id: UUID) -> Subscription:
    row = visible_to(caller).filter(pk=subscription_id).first()
    if row is None:
        raise NotFound("no such subscription", field="id")
    return row


def add(caller: Caller, operation: operations.AddSubscription) -> Subscription:
    """Set up a subscription. Its memories belong to the caller. It runs for the first time when a worker is free.

    Raises Forbidden if the caller is no operator or does not hold the persona, and Invalid if the location may not be
    read.
    """
    if not caller.is_operator:
        raise Forbidden("only operators can subscribe to sources")
    persona = operation.persona or caller.persona
    if persona not in caller.personas and not (caller.is_admin and Persona.objects.filter(name=persona).exists()):
        raise Forbidden(f"you do not hold the persona {persona!r}", allowed=", ".join(sorted(caller.personas)))
    if operation.kind == SubscriptionKind.FOLDER and operation.branch:
        raise Invalid("is given for a folder", field="branch", allowed="nothing")
    values = operation.values() | {
        "location": addresses.check_location(operation.kind, operation.location),
        "branch": addresses.check_branch(operation.branch),
        "subfolder": addresses.check_subfolder(operation.subfolder),
        "persona": persona,
    }
    return Subscription.objects.create(created_by=caller.email, **values)


def change(caller: Caller, operation: operations.ChangeSubscription) -> Subscription:
    values = operation.explicit_values("name", "interval_min", "is_paused")
    values = {name: value for name, value in values.items() if value is not None}
    if not values:
        raise Invalid("no fields to change", allowed="name, interval_min, is_paused")
    with transaction.atomic():
        row = get(caller, operation.subscription_id)
        for name, value in values.items():
            setattr(row, name, value)
        if "interval_min" in values:
            row.next_run_at = min(row.next_run_at, timezone.now() + timedelta(minutes=row.interval_min))
        row.save(update_fields=[*values, "next_run_at"])
    return row


def remove(caller: Caller, operation: operations.RemoveSubscription) -> int:
    """End a subscription. Return how many memories were forgotten; those that people have changed stay."""
    row = get(caller, operation.subscription_id)
    busy = Conflict("A run of this subscription is in progress: try again later", field="id")
    with locks.exclusive("subscription", row.pk, busy), transaction.atomic():
        count = synchronization.forget_all(caller, row) if operation.memories == operations.FORGET else 0
        row.delete()
    git.delete_copy(operation.subscription_id)
    return count


def start(caller: Caller, operation: operations.RunSubscription) -> SubscriptionRun:
    """Queue a run for a worker, and return it. Raises Conflict if one is queued or running."""
    with transaction.atomic():
        run = new_run(caller, operation)
        jobs.add(SubscriptionJobs.name, run.pk, run.owner)
    return run


def new_run(caller: Caller, operation: operations.RunSubscription) -> SubscriptionRun:
    """Store a run that the caller carries out or queues."""
    row = get(caller, operation.subscription_id)
    open_runs = row.runs.filter(state__in=OPEN_RUNS, started_at__gt=timezone.now() - timedelta(hours=1))
    if open_runs.exists() and locks.is_locked("subscription", row.pk):
        raise Conflict("A run of this subscription is in progress", field="id")
    return create_run(row, by=caller.email, is_plan=operation.plan, removals=operation.removals)


def create_run(row: Subscription, *, by: str = "", is_plan: bool = False, removals: int = 0) -> SubscriptionRun:
    """Store a run, and delete the oldest runs of the subscription."""
    old = row.runs.order_by("-started_at").values_list("pk", flat=True)[RUNS_KEPT - 1 :]
    SubscriptionRun.objects.filter(pk__in=list(old)).delete()
    options: dict[str, Any] = {"is_plan": is_plan, "removals_confirmed": removals}
    return SubscriptionRun.objects.create(subscription=row, owner=row.created_by, started_by=by, **options)


def queue_due() -> int:
    """Queue a run of each subscription that is due. Return their number."""
    now = timezone.now()
    count = 0
    for row in Subscription.objects.filter(is_paused=False, next_run_at__lte=now):
        with transaction.atomic():
            following = now + timedelta(minutes=row.interval_min)
            # Two workers may find the same row. The one whose update comes second changes nothing.
            claimed = Subscription.objects.filter(pk=row.pk, next_run_at=row.next_run_at).update(next_run_at=following)
            if claimed:
                jobs.add(SubscriptionJobs.name, create_run(row).pk, row.created_by)
                count += 1
    return count


class SubscriptionJobs(JobKind[SubscriptionRun]):
    """A run reads its source and plans anew in each turn, so it has one turn, which ends by itself."""

    name = "subscription"
    since = "started_at"
    channel = "subscription"
    is_long = True

    def unfinished(self) -> QuerySet[SubscriptionRun]:
        return SubscriptionRun.objects.filter(state__in=OPEN_RUNS).select_related("subscription")

    def owner_of(self, row: SubscriptionRun) -> str:
        return row.subscription.created_by

    def persona_of(self, row: SubscriptionRun) -> str:
        return row.subscription.persona

    def is_worked_on(self, row: SubscriptionRun) -> bool:
        return locks.is_locked("subscription", row.subscription_id)

    def slices(self, caller: Caller, row: SubscriptionRun) -> Generator[object, None, None]:
        yield synchronization.synchronize(caller, row=row)

    def fail(self, row: SubscriptionRun, reason: str) -> None:
        row.state = RunState.FAILED
        row.error = reason[:1_000]
        row.finished_at = timezone.now()
        row.save(update_fields=["state", "error", "finished_at"])
