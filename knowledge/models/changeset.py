from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from foundation.people.columns import PSEUDONYM, PersonColumn


class ChangesetState(models.TextChoices):
    PLANNED = "planned", gettext_lazy("Planned")  # saved; no write has begun
    APPLIED = "applied", gettext_lazy("Applied")
    PARTIAL = "partial", gettext_lazy("Partial")  # writes are in progress, or stopped after some may have succeeded
    FAILED = "failed", gettext_lazy("Failed")
    ROLLED_BACK = "rolled_back", gettext_lazy("Rolled back")
    WAITING = "waiting", gettext_lazy("Waits for a second approval")
    DECLINED = "declined", gettext_lazy("Declined")


class ChangeOutcome(models.TextChoices):
    PLANNED = "planned", gettext_lazy("Planned")
    SENDING = (
        "sending",
        gettext_lazy("Sending"),
    )  # the write has begun; after a crash, its result must be read from the catalog
    LANDED = "landed", gettext_lazy("Landed")
    NOOP = "noop", gettext_lazy("Nothing to change")
    FAILED = "failed", gettext_lazy("Failed")
    CONFLICT = "conflict", gettext_lazy("Conflict")  # others have changed the value, so it is left as it is
    REVERTING = "reverting", gettext_lazy("Reverting")
    REVERTED = "reverted", gettext_lazy("Reverted")
    KEPT = "kept", gettext_lazy("Kept for other insights")  # rolled back, but another changeset rests on the same value


UNWRITTEN = (ChangeOutcome.PLANNED, ChangeOutcome.SENDING, ChangeOutcome.FAILED)


class ChangesetQuerySet(models.QuerySet["Changeset"]):
    def visible_to(self, caller: Caller) -> ChangesetQuerySet:
        """Filter to changesets that the caller may see.

        An insight of the changeset, or a memory that such an insight replaces, must belong to a persona of the caller.
        Others than curators see only those that were written completely: until then, a changeset repeats texts that may
        be private. Admins see all changesets.
        """
        if caller.is_admin:
            return self
        rows = self.filter(personas__overlap=sorted(caller.personas))
        if caller.is_curator:
            return rows
        unwritten = Change.objects.filter(changeset=models.OuterRef("pk"), outcome__in=UNWRITTEN)
        rolled_back = Q(state=ChangesetState.ROLLED_BACK) & ~models.Exists(unwritten)
        return rows.filter(Q(state=ChangesetState.APPLIED) | rolled_back)


class Changeset(models.Model):
    """Writes to the catalog that were made together for one or more insights, and can be rolled back together."""

    person_columns = (
        PersonColumn("applied_by", PSEUDONYM),
        PersonColumn("rolled_back_by", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    entity_urn = models.CharField(max_length=500, blank=True)
    persona = models.CharField(max_length=60)
    personas = ArrayField(
        models.CharField(max_length=60),
        default=list,
        help_text=gettext_lazy("Personas of its insights and of the memories that they replace."),
    )
    catalog = models.CharField(
        max_length=20, help_text=gettext_lazy("The catalog that it was written to: local or datahub.")
    )
    state = models.CharField(max_length=12, choices=ChangesetState.choices, default=ChangesetState.PLANNED)
    insight_ids = models.JSONField(
        default=list, help_text=gettext_lazy("The insights that it applies, kept after a rollback.")
    )
    applied_by = models.CharField(max_length=254)
    finished_at = models.DateTimeField(null=True, blank=True)
    rolled_back_by = models.CharField(max_length=254, blank=True)
    rolled_back_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    risks = models.JSONField(
        default=list, blank=True, help_text=gettext_lazy("Why it needs the approval of two curators, if it does.")
    )

    objects = ChangesetQuerySet.as_manager()

    class Meta:
        db_table = "changesets"
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ChangesetState.values), name="changeset_state_known"),
        ]
        indexes = [
            models.Index(fields=["entity_urn", "-created_at"], name="changeset_of_entity"),
            GinIndex(fields=["personas"], name="changeset_of_personas"),
            GinIndex(fields=["insight_ids"], name="changeset_of_insights"),  # for erasing an insight
            models.Index(  # changesets that wait for a second curator
                fields=["created_at"], condition=Q(state=ChangesetState.WAITING), name="changeset_waiting"
            ),
        ]

    def __str__(self) -> str:
        _, _, inner = self.entity_urn.partition(",")
        name = inner.partition(",")[0] or self.entity_urn.rpartition(":")[2] or "document"
        return f"{self.created_at:%Y-%m-%d %H:%M} {name}"

    @property
    def run_id(self) -> str:
        return f"cs-{self.pk.hex}"


class Change(models.Model):
    """One write, with the previous and the written value at a path of an aspect."""

    id = models.BigAutoField(primary_key=True)
    changeset = models.ForeignKey(Changeset, on_delete=models.CASCADE, related_name="changes")
    position = models.PositiveSmallIntegerField()
    request = models.PositiveSmallIntegerField(
        help_text=gettext_lazy("The index of the requested change that it belongs to.")
    )
    change_type = models.CharField(max_length=40)
    urn = models.CharField(max_length=500)
    aspect = models.CharField(max_length=100)
    path = models.JSONField(default=list)
    operation = models.CharField(max_length=10, help_text=gettext_lazy("add or remove, as in JSON patch."))
    had_before = models.BooleanField(help_text=gettext_lazy("Whether there was a value before. An empty value counts."))
    before = models.JSONField(null=True)
    before_erased = models.BooleanField(
        default=False,
        help_text=gettext_lazy("The value from before belonged to an insight that was erased. It can't be restored."),
    )
    written = models.JSONField(null=True)
    creates = models.BooleanField(
        default=False, help_text=gettext_lazy("The change creates an entity. Rolling back removes or resolves it.")
    )
    outcome = models.CharField(max_length=10, choices=ChangeOutcome.choices, default=ChangeOutcome.PLANNED)
    error = models.TextField(blank=True)

    class Meta:
        db_table = "changes"
        ordering = ["changeset_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["changeset", "position"], name="change_position_once"),
            models.CheckConstraint(condition=Q(outcome__in=ChangeOutcome.values), name="change_outcome_known"),
        ]
        indexes = [models.Index(fields=["urn", "aspect"], name="change_of_aspect")]  # shared values, erasing

    def __str__(self) -> str:
        return f"{self.operation} {self.aspect}/{'/'.join(self.path)}"
