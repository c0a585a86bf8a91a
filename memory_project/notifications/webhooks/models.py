"""Webhook endpoints, the queue of events, and deliveries. None of these tables stores a text of a memory."""

from __future__ import annotations

import uuid
from datetime import timedelta
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.columns import PSEUDONYM, PersonColumn
from memory_project.notifications.webhooks.pause_reasons import in_words

KEPT_DAYS = 30  # days until a delivery is deleted


class Endpoint(models.Model):
    """A URL to which a person lets events be sent."""

    # An heir confirms the URL before anything is sent there, because the former owner has chosen it.
    person_columns = (
        PersonColumn("owner", handed_over_as="webhook endpoints"),
        PersonColumn("set_up_by", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.CharField(max_length=254)
    set_up_by = models.CharField(
        max_length=254,
        help_text=gettext_lazy("Who has confirmed the URL. Another owner, after a hand-over, has to confirm it."),
    )
    name = models.CharField(max_length=120)
    url = models.CharField(max_length=500)
    kinds = ArrayField(
        models.CharField(max_length=40), default=list, help_text=gettext_lazy("Kinds of events that are sent.")
    )
    with_texts = models.BooleanField(
        default=False, help_text=gettext_lazy("Whether texts are sent, or ids and states only.")
    )
    # The secret is computed from the nonce and SECRET_KEY, so that the database contains none. Its digest shows whether
    # SECRET_KEY has changed since.
    nonce = models.CharField(max_length=64, editable=False)
    secret_digest = models.CharField(max_length=64, editable=False)
    previous_nonce = models.CharField(max_length=64, blank=True, editable=False)
    rotated_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    failing_since = models.DateTimeField(
        null=True, blank=True, help_text=gettext_lazy("Empty if the last delivery succeeded.")
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    pause_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        db_table = "webhook_endpoints"
        ordering = ["-created_at"]
        verbose_name = gettext_lazy("webhook endpoint")
        indexes = [models.Index(fields=["owner"], name="webhook_endpoint_owner")]

    def __str__(self) -> str:
        return self.name

    @property
    def reason_in_words(self) -> str:
        return in_words(self.pause_reason)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


class Event(models.Model):
    """An event that a worker has yet to distribute to the endpoints, stored in the transaction of the change."""

    person_columns = (PersonColumn("owner"),)

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=40)
    record_id = models.UUIDField(null=True, blank=True, help_text=gettext_lazy("The memory, insight or import."))
    owner = models.CharField(
        max_length=254, blank=True, help_text=gettext_lazy("The only person who gets it; empty: all readers.")
    )
    details = models.JSONField(default=dict, help_text=gettext_lazy("Ids, states and numbers; no texts."))
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "webhook_events"

    def __str__(self) -> str:
        return self.kind


class DeliveryState(models.TextChoices):
    WAITING = "waiting", gettext_lazy("Waiting")
    DELIVERED = "delivered", gettext_lazy("Delivered")
    FAILED = "failed", gettext_lazy("Failed")  # all tries have failed
    SKIPPED = "skipped", gettext_lazy("Skipped")  # the owner of the endpoint could not read the memory any more


class Delivery(models.Model):
    """An event on its way to one endpoint. Its body is built for each try, as the endpoint's owner."""

    retention = (Retention("created_at", timedelta(days=KEPT_DAYS)),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries")
    kind = models.CharField(max_length=40)
    record_id = models.UUIDField(null=True, blank=True)
    details = models.JSONField(default=dict)
    occurred_at = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    tried_at = models.DateTimeField(null=True, blank=True)
    status_code = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Status of the last response.")
    )
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        db_table = "webhook_deliveries"
        ordering = ["-created_at"]
        verbose_name_plural = gettext_lazy("webhook deliveries")
        indexes = [
            models.Index(  # what is due
                fields=["endpoint", "attempts", "next_try_at"],
                condition=Q(state="waiting"),
                name="webhook_delivery_due",
            ),
            models.Index(fields=["endpoint", "-created_at"], name="webhook_delivery_of"),
            models.Index(fields=["-created_at"], name="webhook_delivery_newest"),  # retention, and the admin's list
        ]

    def __str__(self) -> str:
        return self.message_id

    @property
    def error_in_words(self) -> str:
        return in_words(self.error)

    @property
    def message_id(self) -> str:
        """Return the header webhook-id, which is the same for every try."""
        return f"msg_{self.pk.hex}"
