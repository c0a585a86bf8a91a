from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models import MemoryRecord, Visibility


class SubscriptionKind(models.TextChoices):
    FOLDER = "folder", gettext_lazy("Folder")
    GIT = "git", gettext_lazy("Git repository")


class Subscription(models.Model):
    """A source whose texts become memories of one person, and are kept in step with it."""

    person_columns = (PersonColumn("created_by", handed_over_as="subscriptions"),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(
        max_length=254, help_text=gettext_lazy("Owner of the subscription and of its memories.")
    )
    created_at = models.DateTimeField(default=timezone.now)
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=6, choices=SubscriptionKind.choices)
    location = models.CharField(max_length=500, help_text=gettext_lazy("Path of the folder, or URL of the repository."))
    branch = models.CharField(
        max_length=200, blank=True, help_text=gettext_lazy("Of the repository; empty: its default branch.")
    )
    subfolder = models.CharField(
        max_length=300, blank=True, help_text=gettext_lazy("Only files below this folder are read.")
    )
    persona = models.CharField(max_length=60)
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PERSONA)
    interval_min = models.PositiveIntegerField(
        gettext_lazy("interval"), default=60, help_text=gettext_lazy("Minutes between two runs.")
    )
    is_paused = models.BooleanField(gettext_lazy("paused"), default=False)
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
    QUEUED = "queued", gettext_lazy("Queued")
    RUNNING = "running", gettext_lazy("Running")
    DONE = "done", gettext_lazy("Done")
    FAILED = "failed", gettext_lazy("Failed")
    HELD = "held", gettext_lazy("Waiting for confirmation")


OPEN_RUNS = (RunState.QUEUED, RunState.RUNNING)


class SubscriptionRun(models.Model):
    """One comparison of a source with its memories. With `is_plan`, nothing is changed."""

    person_columns = (
        PersonColumn("owner", handed_over_as="runs of subscriptions"),
        PersonColumn("started_by", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="runs")
    owner = models.CharField(max_length=254)
    started_by = models.CharField(
        max_length=254, blank=True, help_text=gettext_lazy("Empty if the schedule started it.")
    )
    is_plan = models.BooleanField(gettext_lazy("plan only"), default=False)
    removals_confirmed = models.PositiveIntegerField(
        default=0, help_text=gettext_lazy("So many files may be missing, however large their share is.")
    )
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    version = models.CharField(max_length=64, blank=True, help_text=gettext_lazy("The commit that was read."))
    counts = models.JSONField(default=dict, help_text=gettext_lazy("Number of texts by what became of them."))
    missing_files = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(
        default=0, help_text=gettext_lazy("Number of changes; `done` of them are carried out.")
    )
    report = models.JSONField(default=list, help_text=gettext_lazy("The first changes, conflicts and refusals."))
    error = models.TextField(blank=True)

    class Meta:
        db_table = "subscription_runs"
        ordering = ["-started_at"]
        verbose_name = gettext_lazy("run")
        indexes = [models.Index(fields=["subscription", "-started_at"], name="subscription_run_newest")]

    def __str__(self) -> str:
        return f"{self.subscription} {self.started_at:%Y-%m-%d %H:%M}"


class ItemState(models.TextChoices):
    KEPT = "kept", gettext_lazy("Kept")
    CONFLICTING = "conflicting", gettext_lazy("Conflicting")  # a person's version of the memory stays
    REFUSED = "refused", gettext_lazy("Refused")


class SubscriptionItem(models.Model):
    """A text of a source and its memory. It holds digests of what was taken over, and no text.

    Its memory is missing if it was erased, and if the text was never taken over. In the latter case `text_digest` is
    empty.
    """

    person_columns = (PersonColumn("owner", handed_over_as="texts of sources"),)

    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="items")
    owner = models.CharField(max_length=254)
    path = models.CharField(max_length=400)
    key = models.CharField(
        max_length=400, help_text=gettext_lazy("The path, and the section if the file has several memories.")
    )
    number = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Position within the file."))
    file_digest = models.CharField(max_length=64)
    text_digest = models.CharField(max_length=64, blank=True)
    field_digests = models.JSONField(default=dict)
    record = models.ForeignKey(
        MemoryRecord, null=True, blank=True, on_delete=models.SET_NULL, related_name="subscription_items"
    )
    is_ours = models.BooleanField(
        default=True, help_text=gettext_lazy("False if a person had stored the same text before.")
    )
    proposal = models.UUIDField(null=True, blank=True, help_text=gettext_lazy("A correction that waits for approval."))
    proposed_digest = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=12, choices=ItemState.choices, default=ItemState.KEPT)
    reason = models.CharField(max_length=500, blank=True)
    version = models.CharField(
        max_length=64, blank=True, help_text=gettext_lazy("Commit or digest from which it was taken.")
    )
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "subscription_items"
        ordering = ["path", "number"]
        verbose_name = gettext_lazy("text of a source")
        verbose_name_plural = gettext_lazy("texts of sources")
        constraints = [models.UniqueConstraint(fields=["subscription", "key"], name="subscription_item_key")]

    def __str__(self) -> str:
        return self.key

    @property
    def short_version(self) -> str:
        return self.version[:10]
