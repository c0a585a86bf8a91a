from __future__ import annotations

from memory_project.exchange.subscriptions import git, services
from memory_project.exchange.subscriptions.models import Subscription


def queue_due() -> str:
    copies = git.copies()  # read first, so that the copy of a subscription that is set up meanwhile stays
    if copies:
        for pk in copies.difference(Subscription.objects.values_list("pk", flat=True)):
            git.delete_copy(pk)  # the data of its owner were wiped
    return f"{services.queue_due()} queued"
