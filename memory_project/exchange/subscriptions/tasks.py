from __future__ import annotations

from django.contrib.auth import get_user_model

from foundation.database import identity
from foundation.operations.errors import DomainError
from foundation.people.permissions import build_caller
from memory_project.exchange.subscriptions import git, services, synchronization
from memory_project.exchange.subscriptions.models import RunState, Subscription, SubscriptionRun


def queue_due() -> str:
    copies = git.copies()  # read first, so that the copy of a subscription that is set up meanwhile stays
    if copies:
        for pk in copies.difference(Subscription.objects.values_list("pk", flat=True)):
            git.delete_copy(pk)  # the data of its owner were wiped
    return f"{services.queue_due()} queued"


def perform(run_id: str) -> str:
    """Carry out a queued run under the identity of the subscription's owner."""
    row = SubscriptionRun.objects.select_related("subscription").filter(pk=run_id, state=RunState.QUEUED).first()
    if row is None:
        return "was removed or carried out"
    owner = get_user_model()._default_manager.filter(email=row.subscription.created_by).first()
    if owner is None:
        return services.fail(row, f"there is no account {row.subscription.created_by}").error
    try:
        caller = build_caller(owner, channel="subscription", persona=row.subscription.persona)
        with identity.acting_as(caller):
            return str(synchronization.synchronize(caller, row=row).state)
    except DomainError as error:
        return services.fail(row, error.message).error
