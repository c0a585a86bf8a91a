from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone


class Backup(models.Model):
    """A backup that was written, or a failed attempt to write one.

    The manifest in the file contains the same id, so each machine can tell whether the file at `path` is this backup.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    path = models.TextField(help_text="On the machine that wrote it.")
    host = models.CharField(max_length=255, help_text="Name of this machine.")
    created_at = models.DateTimeField(default=timezone.now)
    is_scheduled = models.BooleanField(default=False)
    size = models.BigIntegerField(null=True, help_text="In bytes.")
    problem = models.CharField(max_length=500, blank=True, help_text="Why it could not be written.")
    seen_at = models.DateTimeField(null=True, help_text="When a machine last found the file.")
    verified_at = models.DateTimeField(null=True)
    verification_problem = models.CharField(max_length=500, blank=True, help_text="What a trial restore found.")
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "backups"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["-created_at"], name="backups_by_time")]

    def __str__(self) -> str:
        return self.path


WRITTEN = Q(problem="", deleted_at=None)


class ErasedMemory(models.Model):
    """The id of a memory that was erased, purged or wiped. A restore erases it again.

    Unlike a tombstone, it names nobody, and a wipe leaves it too.
    """

    record_id = models.UUIDField(primary_key=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "erased_memories"
        indexes = [models.Index(fields=["at"], name="erased_memories_by_time")]

    def __str__(self) -> str:
        return f"{self.record_id}"
