"""Changes that a replica must have replayed before somebody reads from it. The tables hold no texts."""

from __future__ import annotations

from datetime import timedelta

from django.db import models

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn

KEPT = timedelta(hours=1)


class Position(models.Model):
    """The position in the write-ahead log after a person's last call that may have changed something."""

    person_columns = (PersonColumn("person__email"),)

    person = models.OneToOneField("memory_project.User", on_delete=models.CASCADE, primary_key=True, related_name="+")
    position = models.BigIntegerField(help_text="Bytes since the beginning of the log.")

    class Meta:
        db_table = "replica_positions"

    def __str__(self) -> str:
        return f"{self.person_id}: {self.position}"


class Barrier(models.Model):
    """A transaction that changed or removed what people read. Triggers insert it in the same transaction.

    Nobody reads from a replica that has not replayed it.
    """

    retention = (Retention("at", KEPT),)

    xact = models.BigIntegerField(help_text="PostgreSQL's id of the transaction.")
    at = models.DateTimeField(help_text="When the transaction began.")

    class Meta:
        db_table = "replica_barriers"
        constraints = [models.UniqueConstraint(fields=["xact", "at"], name="one_barrier_per_transaction")]
        indexes = [models.Index(fields=["at"], name="replica_barrier_age")]  # deletion after an hour

    def __str__(self) -> str:
        return str(self.xact)
