"""What a wipe and a hand-over do with subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from memories.extensions import MemoryExtension, OwnedRows, PersonalDataColumn
from memory_project.exchange.subscriptions.models import Subscription, SubscriptionItem, SubscriptionRun


class SubscriptionsMemoryExtension(MemoryExtension):
    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [
            PersonalDataColumn(SubscriptionItem, "owner"),
            PersonalDataColumn(SubscriptionRun, "owner"),
            PersonalDataColumn(SubscriptionRun, "started_by", stays=True),
            PersonalDataColumn(Subscription, "created_by"),
        ]

    def owned_rows(self) -> Sequence[OwnedRows]:
        return [
            OwnedRows("subscriptions", Subscription, "created_by"),
            OwnedRows("texts of sources", SubscriptionItem, "owner"),
            OwnedRows("runs of subscriptions", SubscriptionRun, "owner"),
        ]
