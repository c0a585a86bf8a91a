from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.caller import OPERATE, Limit
from foundation.people.columns import NOTHING, PSEUDONYM, PersonColumn


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=(username or "").strip().lower())


class User(AbstractBaseUser, PermissionsMixin):
    """An account. It, its tokens and its memberships stay when its data are wiped: admins manage them."""

    email = models.EmailField(
        unique=True,
        help_text=gettext_lazy("The owner of this person's memories. Change it with manage.py rekey_owner."),
    )
    name = models.CharField(max_length=120, blank=True)
    is_staff = models.BooleanField(gettext_lazy("may use the admin"), default=False)
    is_active = models.BooleanField(
        gettext_lazy("active"), default=True, help_text=gettext_lazy("Deactivate accounts instead of deleting them.")
    )
    date_joined = models.DateTimeField(default=timezone.now, editable=False)
    session_generation = models.PositiveIntegerField(
        default=0, editable=False, help_text=gettext_lazy("Incremented to end all sessions of this person.")
    )

    time_zone = models.CharField(max_length=64, blank=True, help_text=gettext_lazy("Empty: the browser's time zone."))
    language = models.CharField(
        max_length=8, blank=True, choices=settings.LANGUAGES, help_text=gettext_lazy("Empty: the browser's language.")
    )
    notify = models.JSONField(
        default=dict, blank=True, editable=False, help_text=gettext_lazy("Kind of notification → portal, mail or none.")
    )

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"

    class Meta:
        ordering = ["email"]
        verbose_name = gettext_lazy("person")
        verbose_name_plural = gettext_lazy("people")
        permissions = [(OPERATE, "Can manage sources, webhooks, the index and background work")]

    def __str__(self) -> str:
        return self.name or self.email

    def clean(self) -> None:
        super().clean()
        self.email = self.email.strip().lower()

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        key_salt = "memory_project.models.User.session"
        value = f"{self.session_generation}:{self.password}"
        return salted_hmac(key_salt, value, secret=secret, algorithm="sha256").hexdigest()

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] if self.name else self.email.split("@")[0]


class ApiToken(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(
        max_length=120, help_text=gettext_lazy("Where it is used, for example “Claude on my laptop”.")
    )
    persona = models.CharField(
        max_length=60,
        blank=True,
        help_text=gettext_lazy("The active persona of its connections. Empty: the person's default."),
    )
    rights = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    graph = models.CharField(
        max_length=60,
        blank=True,
        help_text=gettext_lazy("The persona whose knowledge graph it uses. Empty: the person's own graph."),
    )
    calls_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text=gettext_lazy("Empty: no limit."))
    writes_per_day = models.PositiveIntegerField(null=True, blank=True, help_text=gettext_lazy("Empty: no limit."))
    prefix = models.CharField(
        max_length=12, editable=False, help_text=gettext_lazy("The first characters, to recognize the token.")
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)  # SHA-256 of the token, in hexadecimal
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
        verbose_name = gettext_lazy("API token")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    toolsets: ClassVar[list[str]] = []  # all
    read_only: ClassVar[bool] = False

    @property
    def connection(self) -> str:
        return f"token {self.pk}"

    @property
    def limits(self) -> tuple[Limit, ...]:
        return (Limit(f"token {self.pk}", self.calls_per_minute, self.writes_per_day),)

    @property
    def is_usable(self) -> bool:
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not expired and self.user.is_active


class ConnectedApp(models.Model):
    """What a person allowed an application on the consent page. It ends with its date, or when somebody ends it.

    Its primary key is the `token_family` of all tokens that django-oauth-toolkit issues for it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="connected_apps")
    application = models.ForeignKey("oauth2_provider.Application", on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=255, blank=True, help_text=gettext_lazy("The application's own claim."))
    address = models.CharField(max_length=255, help_text=gettext_lazy("The host that the code was sent to."))
    persona = models.CharField(max_length=60, blank=True, help_text=gettext_lazy("Empty: the person's default."))
    toolsets = ArrayField(
        models.CharField(max_length=40), default=list, blank=True, help_text=gettext_lazy("Empty: all.")
    )
    read_only = models.BooleanField(default=False)
    code_digest = models.CharField(max_length=64, unique=True, editable=False)  # SHA-256 of the authorization code
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    code_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        db_table = "connected_apps"
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name or self.address} of {self.user}"

    @property
    def connection(self) -> str:
        return f"app {self.pk}"

    @property
    def rights(self) -> list[str]:
        return []

    @property
    def graph(self) -> str:
        return ""

    @property
    def limits(self) -> tuple[Limit, ...]:
        return ()

    @property
    def is_usable(self) -> bool:
        return self.revoked_at is None and self.expires_at > timezone.now() and self.user.is_active


class ServiceAccount(models.Model):
    """A service whose tokens, of the company's issuer, act for a person. Admins declare it."""

    subject = models.CharField(
        max_length=255, unique=True, help_text=gettext_lazy("The claim sub of the service's tokens.")
    )
    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="service_accounts")
    persona = models.CharField(max_length=60, blank=True, help_text=gettext_lazy("Empty: the person's default."))
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        db_table = "service_accounts"
        ordering = ["subject"]

    def __str__(self) -> str:
        return f"{self.subject} for {self.person}"


class AuditEvent(models.Model):
    """One call through one channel: caller, tool and outcome. audit.record() redacts long texts and secrets."""

    retention = (Retention("at", lambda: timedelta(days=settings.AUDIT_RETENTION_DAYS)),)

    class Outcome(models.TextChoices):
        OK = "ok", gettext_lazy("OK")
        ERROR = "error", gettext_lazy("Error")
        REFUSED = "refused", gettext_lazy("Refused")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    at = models.DateTimeField(default=timezone.now)
    email = models.CharField(max_length=254, blank=True)
    persona = models.CharField(max_length=60, blank=True)
    channel = models.CharField(max_length=20, db_column="door")
    tool = models.CharField(max_length=100)
    outcome = models.CharField(max_length=10, choices=Outcome.choices)
    code = models.CharField(max_length=20, blank=True)
    message = models.TextField(blank=True)
    duration_ms = models.FloatField()
    request_chars = models.PositiveIntegerField(default=0)
    response_chars = models.PositiveIntegerField(default=0)
    arguments = models.JSONField(default=dict)
    context_ms = models.FloatField(default=0, help_text=gettext_lazy("Milliseconds spent on automatic context."))
    context_count = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Memories attached to the response."))
    record_ids = ArrayField(
        models.UUIDField(), default=list, help_text=gettext_lazy("Memories named in the call or its response.")
    )
    trace_id = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",  # processes of an older version insert rows without it during an upgrade
        help_text=gettext_lazy("Finds the request in traces and in the server's log."),
    )
    hits = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Memories that a recall found; empty for other calls.")
    )

    class Meta:
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["-at"], name="audit_newest"),
            models.Index(fields=["email", "-at"], name="audit_of_person"),  # for the Activity page
            models.Index(fields=["tool", "-at"], name="audit_of_tool"),
            GinIndex(fields=["record_ids"], name="audit_of_record"),  # for erasing a memory
            models.Index(fields=["-at"], condition=Q(hits=0), name="audit_without_hits"),  # questions without answers
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.email} {self.tool} {self.outcome}"


class CallWindow(models.Model):
    """Number of calls counted by one rate limit in one time window. Deleted two days after the window starts."""

    retention = (Retention("starts_at", timedelta(days=2)),)  # the longest window is a day

    key = models.CharField(max_length=200)
    starts_at = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "call_windows"
        constraints = [models.UniqueConstraint(fields=["key", "starts_at"], name="call_window_once")]

    def __str__(self) -> str:
        return f"{self.key}: {self.count}"


class Notification(models.Model):
    """A notification of one person about one memory or insight, without its text (see notifications/inbox.py)."""

    person_columns = (
        PersonColumn("person__email"),
        PersonColumn("by", PSEUDONYM),
    )

    retention = (Retention("at", timedelta(days=90)),)

    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notifications")
    kind = models.CharField(max_length=20)
    record_id = models.UUIDField()
    by = models.CharField(max_length=254, blank=True)
    at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True, blank=True)
    mail_at = models.DateTimeField(null=True, blank=True, help_text="When a mail is due; empty: none is due.")
    mailed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "notifications"
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["person", "-at"], name="notification_of_person"),
            models.Index(fields=["person"], condition=Q(read_at=None), name="notification_unread"),  # for the bell
            models.Index(fields=["record_id"], name="notification_about"),  # for erasing a memory
            models.Index(  # mails that are due
                fields=["mail_at"], condition=Q(mail_at__isnull=False), name="notification_mail_due"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.person}"


def account_of(email: str) -> int | None:
    """Return the primary key of a person's account, or None."""
    return User.objects.filter(email=email).values_list("pk", flat=True).first()


class SavedView(models.Model):
    """A filtered list that a person has named. The navigation shows it below the section of the list."""

    person_columns = (
        PersonColumn("person__email"),
        PersonColumn("person_id", NOTHING, handed_over_as="saved views", unique=("name",), owner_value=account_of),
    )

    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    page = models.CharField(max_length=60, help_text=gettext_lazy("The list that the view belongs to."))
    query = models.CharField(max_length=2000, help_text=gettext_lazy("The filters, as in the URL."))
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "saved_views"
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["person", "name"], name="saved_view_name_once_a_person")]

    def __str__(self) -> str:
        return self.name


class Webhook(models.Model):
    """A chat channel: the URL to which the numbers of a persona's waiting insights and stale memories are posted."""

    persona = models.OneToOneField("memories.Persona", on_delete=models.CASCADE, related_name="webhook")
    url = models.CharField(max_length=500)
    is_on = models.BooleanField(gettext_lazy("on"), default=True)
    last_counts = models.JSONField(
        default=dict, editable=False, help_text=gettext_lazy("The counts that were last sent.")
    )
    sent_at = models.DateTimeField(null=True, blank=True, editable=False)
    tried_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)

    class Meta:
        db_table = "webhooks"
        ordering = ["persona__name"]
        verbose_name = gettext_lazy("chat channel")
        verbose_name_plural = gettext_lazy("chat channels")

    def __str__(self) -> str:
        return f"{self.persona}"

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


class CompanyGroup(models.Model):
    """A group of the company's issuer, and what its members get in Commonplace at each sign-in."""

    name = models.CharField(
        max_length=255,
        unique=True,
        help_text=gettext_lazy(
            "Exactly as the issuer sends it in the groups claim. Microsoft Entra sends the id of a group."
        ),
    )
    personas = models.ManyToManyField(
        "memories.Persona",
        blank=True,
        related_name="company_groups",
        help_text=gettext_lazy("Members get these personas."),
    )
    is_curator = models.BooleanField(
        gettext_lazy("curators"), default=False, help_text=gettext_lazy("Members review and apply insights.")
    )
    is_operator = models.BooleanField(
        gettext_lazy("operators"),
        default=False,
        help_text=gettext_lazy("Members manage sources, webhooks and the index."),
    )
    is_admin = models.BooleanField(
        gettext_lazy("admins"), default=False, help_text=gettext_lazy("Members may do everything, as you may.")
    )

    class Meta:
        db_table = "company_groups"
        ordering = ["name"]
        verbose_name = gettext_lazy("group of the company")
        verbose_name_plural = gettext_lazy("groups of the company")

    def __str__(self) -> str:
        return self.name


class CompanyIdentity(models.Model):
    """The issuer's identity of a person, and what the issuer's groups gave them at the last sign-in.

    Personas and rights that an admin gave by hand are not listed here, so the next sign-in leaves them alone.
    """

    person = models.OneToOneField(User, on_delete=models.CASCADE, related_name="company_identity")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(
        max_length=255, help_text=gettext_lazy("The issuer's id of the person (the claim “sub”).")
    )
    personas = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    rights = ArrayField(models.CharField(max_length=20), default=list, blank=True)
    is_admin = models.BooleanField(default=False)
    linked_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text=gettext_lazy("When the account was deactivated because the groups no longer allow it."),
    )

    class Meta:
        db_table = "company_identities"
        verbose_name = gettext_lazy("company identity")
        verbose_name_plural = gettext_lazy("company identities")
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="company_identity_once")]

    def __str__(self) -> str:
        return f"{self.person} at {self.issuer}"
