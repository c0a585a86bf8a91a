from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy


def all_tools() -> list[str]:
    return ["*"]


class Persona(models.Model):
    """A role that people hold. They share memories under it, and it limits the tools they may call."""

    name = models.CharField(
        max_length=60,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", "lower-case letters, digits, - and _ only")],
        help_text=gettext_lazy("Short and stable, because memories refer to it. Lower-case letters, digits, - and _."),
    )
    title = models.CharField(
        max_length=120, blank=True, help_text=gettext_lazy("The name shown to people, for example “Sales analytics”.")
    )
    description = models.TextField(blank=True)
    tools_allow = ArrayField(
        models.CharField(max_length=100),
        default=all_tools,
        blank=True,
        help_text=gettext_lazy(
            "Tools that this persona may call, as patterns with *, comma-separated. Other tools are denied."
        ),
    )
    tools_deny = ArrayField(
        models.CharField(max_length=100),
        default=list,
        blank=True,
        help_text=gettext_lazy(
            "Exceptions to the allowed tools. A denial always wins. “memory_manage.erase” is one command."
        ),
    )
    toolsets = ArrayField(
        models.CharField(max_length=60),
        default=list,
        blank=True,
        help_text=gettext_lazy("Offered to agents that choose none. Empty: the setting MCP_TOOLSETS."),
    )
    memory_context = models.BooleanField(
        gettext_lazy("automatic context"),
        default=True,
        help_text=gettext_lazy("Attach memories about the mentioned entities to tool responses."),
    )
    calls_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Tool calls per person under this persona. Empty: no limit.")
    )
    writes_per_day = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Tool calls per person that write. Empty: no limit.")
    )
    is_default = models.BooleanField(
        default=False, help_text=gettext_lazy("Assigned to users who have no other persona.")
    )
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="PersonaMembership", related_name="personas")

    class Meta:
        app_label = "memories"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="one_default_persona"
            )
        ]

    def __str__(self) -> str:
        return self.title or self.name

    @classmethod
    def default(cls) -> Persona:
        """Return the persona of users without any other persona."""
        # A migration creates the default persona, and the admin does not allow deleting it.
        return cls.objects.get(is_default=True)


class PersonaMembership(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    persona = models.ForeignKey(Persona, on_delete=models.PROTECT, related_name="memberships")
    is_default = models.BooleanField(
        default=False, help_text=gettext_lazy("Active on connections that name no persona.")
    )

    class Meta:
        app_label = "memories"
        ordering = ["persona__name"]
        constraints = [
            models.UniqueConstraint(fields=["user", "persona"], name="one_membership_per_persona"),
            models.UniqueConstraint(
                fields=["user"], condition=models.Q(is_default=True), name="one_default_persona_per_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} · {self.persona}"
