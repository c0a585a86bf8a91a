from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy


class EntityState(models.Model):
    """State of an entity at the last check. The scheduled check compares memories only if the fingerprint changed.

    The fingerprint is empty if memories were compared with another state since: the next check compares all of them.
    """

    id = models.BigAutoField(primary_key=True)
    catalog = models.CharField(max_length=200)
    urn = models.CharField(max_length=500)
    fingerprint = models.CharField(
        max_length=64,
        blank=True,
        help_text=gettext_lazy("SHA-256 of the parts of the entity that can make memories stale."),
    )
    checked_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "entity_states"
        ordering = ["urn"]
        constraints = [models.UniqueConstraint(fields=["catalog", "urn"], name="entity_state_once_a_catalog")]
        indexes = [models.Index(fields=["catalog", "checked_at"], name="entity_state_check_next")]

    def __str__(self) -> str:
        return self.urn
