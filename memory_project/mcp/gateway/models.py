"""Tables of the gateway. They hold no text of people: tools and their texts come from upstream servers."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn


class DeclaredUpstream(models.Model):
    """An upstream MCP server that is declared in the admin."""

    id = models.BigAutoField(primary_key=True)
    name = models.SlugField(max_length=20, unique=True)
    declaration = models.TextField(
        help_text=gettext_lazy(
            "TOML: url, headers (credentials as ${UPSTREAM_…}, the names of environment variables), personas. "
            "docs/gateway.md lists all keys."
        )
    )
    is_enabled = models.BooleanField(gettext_lazy("enabled"), default=True)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        db_table = "gateway_upstreams"
        ordering = ["name"]
        verbose_name = gettext_lazy("upstream")

    def __str__(self) -> str:
        return self.name


class PinState(models.TextChoices):
    APPROVED = "approved", gettext_lazy("Approved")
    NEW = "new", gettext_lazy("New")
    CHANGED = "changed", gettext_lazy("Changed")
    REFUSED = "refused", gettext_lazy("Refused")
    GONE = "gone", gettext_lazy("Gone")


WAITING = (PinState.NEW, PinState.CHANGED)


class PinnedTool(models.Model):
    """A tool of an upstream, as it was approved and as the upstream offers it now."""

    id = models.BigAutoField(primary_key=True)
    upstream = models.CharField(max_length=20)
    tool = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=PinState, default=PinState.NEW)
    approved = models.JSONField(null=True, blank=True)  # the canonical form; null if it was never approved
    approved_hash = models.CharField(max_length=64, blank=True)
    offered = models.JSONField()  # the canonical form of the latest list
    offered_hash = models.CharField(max_length=64)
    flags = models.JSONField(default=list, blank=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)  # of `state` or `offered`

    class Meta:
        db_table = "gateway_pins"
        ordering = ["upstream", "tool"]
        constraints = [models.UniqueConstraint(fields=["upstream", "tool"], name="gateway_pin_of_tool")]
        indexes = [models.Index(fields=["state", "changed_at"], name="gateway_pins_waiting")]
        verbose_name = gettext_lazy("upstream tool")

    def __str__(self) -> str:
        return f"{self.upstream}_{self.tool}"


class PinDecision(models.Model):
    """An operator's decision on a pinned tool, with what undoes it."""

    person_columns = (
        PersonColumn("decided_by", PSEUDONYM),
        PersonColumn("undone_by", PSEUDONYM),
    )

    id = models.BigAutoField(primary_key=True)
    pin = models.ForeignKey(PinnedTool, on_delete=models.CASCADE, related_name="decisions")
    accepted = models.BooleanField()
    decided_by = models.CharField(max_length=254)
    decided_at = models.DateTimeField(default=timezone.now)
    note = models.CharField(max_length=500, blank=True)
    offered_hash = models.CharField(max_length=64)
    before_state = models.CharField(max_length=10, choices=PinState)
    before_approved = models.JSONField(null=True, blank=True)
    before_hash = models.CharField(max_length=64, blank=True)
    undone_by = models.CharField(max_length=254, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "gateway_decisions"
        ordering = ["-id"]
        verbose_name = gettext_lazy("decision on an upstream tool")

    def __str__(self) -> str:
        return f"{self.pin_id} {self.decided_by}"


class UpstreamStatus(models.Model):
    """When an upstream was last reached, and what it offers besides tools. Derived data."""

    name = models.CharField(max_length=20, primary_key=True)
    reached_at = models.DateTimeField(null=True, blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    server = models.CharField(max_length=200, blank=True)  # name and version as the server states them
    resources = models.JSONField(default=list, blank=True)
    templates = models.JSONField(default=list, blank=True)

    class Meta:
        db_table = "gateway_status"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_failing(self) -> bool:
        return self.failed_at is not None and (self.reached_at is None or self.failed_at > self.reached_at)


class StoredCredential(models.Model):
    """What goes upstream for one person, or with an empty owner for everybody: a secret, or the tokens of a sign-in."""

    person_columns = (
        PersonColumn("owner"),
        PersonColumn("stored_by", PSEUDONYM),
    )

    sealed_column = "sealed"

    id = models.BigAutoField(primary_key=True)
    upstream = models.CharField(max_length=20)
    owner = models.CharField(max_length=254, blank=True)
    # The credential goes to this origin only. Otherwise a changed declaration would send it to another server.
    origin = models.CharField(max_length=300)
    sealed = models.TextField()
    version = models.UUIDField(default=uuid.uuid4)  # changes if it is replaced, not if a token is refreshed
    stored_by = models.CharField(max_length=254)
    stored_at = models.DateTimeField(default=timezone.now)
    refused_at = models.DateTimeField(null=True, blank=True)  # when the other system no longer accepted it

    class Meta:
        db_table = "gateway_credentials"
        constraints = [models.UniqueConstraint(fields=["upstream", "owner"], name="gateway_credential_of")]
        verbose_name = gettext_lazy("credential for an upstream")

    def __str__(self) -> str:
        return f"{self.upstream} {self.owner}"


class PendingSignIn(models.Model):
    """A sign-in at an upstream's authorization server that a person has begun. It is used once."""

    person_columns = (
        PersonColumn("owner"),
        PersonColumn("created_by"),
    )

    sealed_column = "sealed"

    id = models.BigAutoField(primary_key=True)
    state_hash = models.CharField(max_length=64, unique=True)
    upstream = models.CharField(max_length=20)
    owner = models.CharField(max_length=254, blank=True)  # of the credential
    created_by = models.CharField(max_length=254)
    started_at = models.DateTimeField(default=timezone.now)
    sealed = models.TextField()

    class Meta:
        db_table = "gateway_sign_ins"
        verbose_name = gettext_lazy("sign-in at an upstream")

    def __str__(self) -> str:
        return f"{self.upstream} {self.created_by}"
