from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PersonColumn
from memories.models import MemoryRecord
from memories.models.fields import EmbeddingField, exact_words


class CachedAnswer(models.Model):
    """A question with its answer, found by similar questions until it expires."""

    person_columns = (PersonColumn("created_by", handed_over_as="cached answers"),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254)
    query = models.TextField()
    response = models.TextField()
    entity_urns = ArrayField(models.CharField(max_length=500), default=list, blank=True)
    vector = EmbeddingField(null=True)  # derived; null if the embedder was unavailable
    embedding_model = models.CharField(max_length=200, blank=True, default="")
    hits = models.PositiveIntegerField(default=0)
    last_hit_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "conversation_cache"
        ordering = ["-created_at"]
        verbose_name = gettext_lazy("cached answer")
        indexes = [
            models.Index(fields=["created_by", "-created_at"], name="cache_of_user"),  # check_cache and lists
            models.Index(fields=["expires_at"], name="cache_expiring"),  # deletion of expired answers
            GinIndex(exact_words("query", "response"), name="cache_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return self.query[:80]


class CacheUse(models.Model):
    """Cache hits and misses of a user on a day, for the hit rate."""

    person_columns = (PersonColumn("created_by"),)

    created_by = models.CharField(max_length=254)
    day = models.DateField()
    hits = models.PositiveIntegerField(default=0)
    misses = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "conversation_cache_use"
        constraints = [models.UniqueConstraint(fields=["created_by", "day"], name="cache_use_once_a_day")]

    def __str__(self) -> str:
        return f"{self.created_by} {self.day}: {self.hits} of {self.hits + self.misses}"


class UserDecision(models.Model):
    """A preference, choice or setting of a user, stored under a key."""

    person_columns = (PersonColumn("created_by", handed_over_as="decisions", unique=("key",)),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254)
    key = models.CharField(max_length=200)
    value = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "conversation_decisions"
        ordering = ["key"]
        verbose_name = gettext_lazy("user decision")
        constraints = [models.UniqueConstraint(fields=["created_by", "key"], name="decision_once_a_key")]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="decision_expiring"),
            GinIndex(exact_words("value"), name="user_decision_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()


class UserDecisionChange(models.Model):
    """An earlier value of a decision, with the time in which it applied."""

    decision = models.ForeignKey(UserDecision, on_delete=models.CASCADE, related_name="changes")
    value = models.TextField()
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField()

    class Meta:
        db_table = "conversation_decision_changes"
        ordering = ["-valid_to"]

    def __str__(self) -> str:
        return f"{self.value[:60]} until {self.valid_to}"


class MergeState(models.TextChoices):
    PROPOSED = "proposed", gettext_lazy("Proposed")
    ACCEPTED = "accepted", gettext_lazy("Accepted")
    DISMISSED = "dismissed", gettext_lazy("Dismissed")


class MergeProposal(models.Model):
    """A proposal to merge two similar long-term memories. Their owner decides about it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="merges")
    target = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="merges_into")
    cosine = models.FloatField()
    text = models.TextField(help_text=gettext_lazy("The text of the merged memory."))
    state = models.CharField(max_length=10, choices=MergeState.choices, default=MergeState.PROPOSED)
    created_at = models.DateTimeField(default=timezone.now)
    decided_at = models.DateTimeField(null=True, blank=True)
    correction_id = models.UUIDField(
        gettext_lazy("correction"),
        null=True,
        editable=False,
        help_text=gettext_lazy("The memory with the merged text, if one was stored."),
    )

    class Meta:
        db_table = "conversation_merges"
        ordering = ["-created_at"]
        verbose_name = gettext_lazy("merge proposal")
        indexes = [
            models.Index(fields=["-created_at"], condition=Q(state="proposed"), name="merge_waiting"),  # the inbox
        ]
        constraints = [
            models.UniqueConstraint(fields=["record", "target"], name="merge_proposed_once"),
            models.CheckConstraint(condition=Q(state__in=MergeState.values), name="merge_state_known"),
        ]

    def __str__(self) -> str:
        return self.text[:80]


class WipeRequest(models.Model):
    """A wipe of a person's data that an agent prepared and the person has not confirmed yet."""

    person_columns = (PersonColumn("created_by"),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254)
    counts = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "conversation_wipe_requests"
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"wipe of {self.created_by}, {self.created_at}"
