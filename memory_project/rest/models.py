from __future__ import annotations

from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn

KEPT = timedelta(days=1)


class IdempotentAnswer(models.Model):
    """The answer to a POST with an Idempotency-Key, kept for KEPT and given again to repetitions of the request."""

    person_columns = (PersonColumn("owner"),)

    retention = (Retention("started_at", KEPT),)

    owner = models.CharField(max_length=254)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)  # None while the request is running
    body = models.JSONField(null=True)
    headers = models.JSONField(default=dict)
    record_ids = ArrayField(models.UUIDField(), default=list)  # memories named in the request or the answer

    class Meta:
        db_table = "idempotent_answers"
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="idempotent_answer_key")]
        indexes = [
            models.Index(fields=["started_at"], name="idempotent_answer_age"),  # deletion after a day
            GinIndex(fields=["record_ids"], name="idempotent_answer_records"),  # erasure
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.key}"
