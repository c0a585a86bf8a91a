from __future__ import annotations

from django.db import models


class Lease(models.Model):
    """A lock that a process holds while it works on something (foundation/database/locks.py). Deleted at its end."""

    name = models.CharField(primary_key=True, max_length=120)
    # Changes with each holder. It is unique, so that a transaction which has read it keeps others from changing it
    # (FOR KEY SHARE), but does not keep its holder from renewing the lease.
    token = models.UUIDField(unique=True)
    has_session = models.BooleanField()  # the holder's session has an advisory lock, so its end is noticed at once
    expires_at = models.DateTimeField()

    class Meta:
        app_label = "memories"
        db_table = "leases"

    def __str__(self) -> str:
        return self.name
