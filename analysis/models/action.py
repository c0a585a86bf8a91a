from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from foundation.people.columns import PSEUDONYM, PersonColumn


class ActionState(models.TextChoices):
    QUEUED = "queued", gettext_lazy("Queued")  # a worker is to resume it
    RUNNING = "running", gettext_lazy("Running")
    DONE = "done", gettext_lazy("Done")
    PARTIAL = "partial", gettext_lazy("Partial")  # some records failed, or their outcome is unknown


class Outcome(models.TextChoices):
    PLANNED = "planned", gettext_lazy("Planned")
    SENDING = (
        "sending",
        gettext_lazy("Sending"),
    )  # the request may have been sent; when the action is resumed, the upstream record is checked
    SUCCEEDED = "succeeded", gettext_lazy("Succeeded")
    FAILED = "failed", gettext_lazy("Failed")
    DRIFTED = (
        "drifted",
        gettext_lazy("Drifted"),
    )  # the record was changed or deleted since it was ingested, and was skipped
    UNKNOWN = "unknown", gettext_lazy("Unknown")  # a person has to check the record upstream


class ActionQuerySet(models.QuerySet["Action"]):
    def visible_to(self, caller: Caller) -> ActionQuerySet:
        return self if caller.is_admin else self.owned_by(caller)

    def owned_by(self, caller: Caller) -> ActionQuerySet:
        return self.filter(owner=caller.email)


class Action(models.Model):
    """A bulk change of upstream records. It is kept when its session is deleted."""

    person_columns = (
        PersonColumn("owner", PSEUDONYM, handed_over_as="actions"),
        PersonColumn("on_behalf_of", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.CharField(max_length=254)
    on_behalf_of = models.CharField(max_length=254, blank=True)
    analysis_id = models.CharField(max_length=200)
    model = models.CharField(max_length=120)
    kind = models.CharField(max_length=10, help_text=gettext_lazy("update or delete"))
    attributes = models.JSONField(default=dict)
    where = models.JSONField(default=dict)
    revalidate = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=ActionState.choices, default=ActionState.RUNNING)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ActionQuerySet.as_manager()

    class Meta:
        db_table = "analysis_actions"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["owner", "-created_at"], name="action_of_owner")]

    def __str__(self) -> str:
        return f"{self.kind} {self.model}"


class ActionItem(models.Model):
    """An upstream record that an action changes, with the outcome and a snapshot from before the change."""

    id = models.BigAutoField(primary_key=True)
    action = models.ForeignKey(Action, on_delete=models.CASCADE, related_name="items")
    record_id = models.CharField(max_length=500)
    before = models.JSONField(default=dict)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.PLANNED)
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    error = models.TextField(blank=True)
    at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "analysis_action_items"
        ordering = ["id"]
        indexes = [models.Index(fields=["action", "outcome"], name="item_by_outcome")]

    def __str__(self) -> str:
        return f"{self.record_id}: {self.outcome}"
