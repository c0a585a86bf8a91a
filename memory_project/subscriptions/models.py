from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from memories.models import MemoryRecord, Visibility


class Kind(models.TextChoices):
    FOLDER = "folder"
    GIT = "git", "Git repository"


class Subscription(models.Model):
    """A source whose texts become memories of one person, and are kept in step with it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254, help_text="Owner of the subscription and of its memories.")
    created_at = models.DateTimeField(default=timezone.now)
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=6, choices=Kind.choices)
    location = models.CharField(max_length=500, help_text="Path of the folder, or URL of the repository.")
    branch = models.CharField(max_length=200, blank=True, help_text="Of the repository; empty: its default branch.")
    subfolder = models.CharField(max_length=300, blank=True, help_text="Only files below this folder are read.")
    persona = models.CharField(max_length=60)
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PERSONA)
    interval_min = models.PositiveIntegerField("interval", default=60, help_text="Minutes between two runs.")
    is_paused = models.BooleanField("paused", default=False)
    next_run_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "subscriptions"
        ordering = ["name", "id"]
        indexes = [
            models.Index(fields=["next_run_at"], condition=Q(is_paused=False), name="subscription_due"),
        ]

    def __str__(self) -> str:
        return self.name


class RunState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held", "Waiting for confirmation"


OPEN_RUNS = (RunState.QUEUED, RunState.RUNNING)


class SubscriptionRun(models.Model):
    """One comparison of a source with its memories. With `is_plan`, nothing is changed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="runs")
    owner = models.CharField(max_length=254)
    started_by = models.CharField(max_length=254, blank=True, help_text="Empty if the schedule started it.")
    is_plan = models.BooleanField("plan only", default=False)
    removals_confirmed = models.PositiveIntegerField(
        default=0, help_text="So many files may be missing, however large their share is."
    )
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    version = models.CharField(max_length=64, blank=True, help_text="The commit that was read.")
    counts = models.JSONField(default=dict, help_text="Number of texts by what became of them.")
    missing_files = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0, help_text="Number of changes; `done` of them are carried out.")
    report = models.JSONField(default=list, help_text="The first changes, conflicts and refusals.")
    error = models.TextField(blank=True)

    class Meta:
        db_table = "subscription_runs"
        ordering = ["-started_at"]
        verbose_name = "run"
        indexes = [models.Index(fields=["subscription", "-started_at"], name="subscription_run_newest")]

    def __str__(self) -> str:
        return f"{self.subscription} {self.started_at:%Y-%m-%d %H:%M}"


class ItemState(models.TextChoices):
    KEPT = "kept"
    CONFLICTING = "conflicting"  # a person's version of the memory stays
    REFUSED = "refused"


class SubscriptionItem(models.Model):
    """A text of a source and its memory. It holds digests of what was taken over, and no text.

    Its memory is missing if it was erased, and if the text was never taken over. In the latter case `text_digest` is
    empty.
    """

    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="items")
    owner = models.CharField(max_length=254)
    path = models.CharField(max_length=400)
    key = models.CharField(max_length=400, help_text="The path, and the section if the file has several memories.")
    number = models.PositiveIntegerField(default=0, help_text="Position within the file.")
    file_digest = models.CharField(max_length=64)
    text_digest = models.CharField(max_length=64, blank=True)
    field_digests = models.JSONField(default=dict)
    record = models.ForeignKey(
        MemoryRecord, null=True, blank=True, on_delete=models.SET_NULL, related_name="subscription_items"
    )
    is_ours = models.BooleanField(default=True, help_text="False if a person had stored the same text before.")
    proposal = models.UUIDField(null=True, blank=True, help_text="A correction that waits for approval.")
    proposed_digest = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=12, choices=ItemState.choices, default=ItemState.KEPT)
    reason = models.CharField(max_length=500, blank=True)
    version = models.CharField(max_length=64, blank=True, help_text="Commit or digest from which it was taken.")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "subscription_items"
        ordering = ["path", "number"]
        verbose_name = "text of a source"
        verbose_name_plural = "texts of sources"
        constraints = [models.UniqueConstraint(fields=["subscription", "key"], name="subscription_item_key")]

    def __str__(self) -> str:
        return self.key

    @property
    def short_version(self) -> str:
        return self.version[:10]
