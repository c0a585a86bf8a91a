from __future__ import annotations

from django.db import models
from django.utils import timezone


class InstallationFact(models.Model):
    """What all machines of an installation must agree on, such as the fingerprint of the secret key."""

    name = models.CharField(max_length=100, primary_key=True)
    value = models.TextField()
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "memory_project"
        db_table = "installation_facts"

    def __str__(self) -> str:
        return self.name


class UnreadableTask(models.Model):
    """A mark for a queued task that a worker could not read. The task itself stays in the queue."""

    task = models.BigIntegerField(primary_key=True)  # no foreign key: the queue's own package deletes its rows
    reason = models.CharField(max_length=300)
    host = models.CharField(max_length=100)  # name of the machine of the worker
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "memory_project"
        db_table = "unreadable_tasks"

    def __str__(self) -> str:
        return f"task {self.task}"


class CacheEntry(models.Model):
    """An entry of the cache that processes share where there is no Redis. The table is unlogged: a crash empties it."""

    key = models.CharField(max_length=300, primary_key=True)
    value = models.JSONField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "memory_project"
        db_table = "cache_entries"
        indexes = [models.Index(fields=["expires_at"], name="cache_entries_expire")]  # for deleting expired entries

    def __str__(self) -> str:
        return self.key
