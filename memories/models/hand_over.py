from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn


class HandOver(models.Model):
    """A transfer of everything that a person owns to another one, with the ids that its undo takes back."""

    person_columns = (
        PersonColumn("from_owner", PSEUDONYM),
        PersonColumn("to_owner", PSEUDONYM),
        PersonColumn("by", PSEUDONYM),
        PersonColumn("undone_by", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    from_owner = models.CharField(max_length=254)
    to_owner = models.CharField(max_length=254)
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    moved = models.JSONField(default=dict, help_text=gettext_lazy("The ids of the moved rows, by kind."))
    stays = models.JSONField(
        default=dict, help_text=gettext_lazy("The number of rows that could not be moved, by kind.")
    )
    undone_by = models.CharField(max_length=254, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "hand_overs"
        ordering = ["-at"]
        indexes = [models.Index(fields=["from_owner", "-at"], name="hand_over_of_person")]

    def __str__(self) -> str:
        return f"{self.from_owner} to {self.to_owner}, {self.at:%Y-%m-%d %H:%M}"

    @property
    def counts(self) -> dict[str, int]:
        return {kind: len(ids) for kind, ids in self.moved.items() if ids and kind not in NOT_COUNTED}


# "returned" are memories that are also among the moved ones: those that only came back to their first owner. "account"
# is the state of the account after the hand-over (see memory_project/accounts/people.py).
NOT_COUNTED = ("returned", "account")
