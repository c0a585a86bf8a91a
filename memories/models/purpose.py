from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy


class Purpose(models.Model):
    """A purpose that memories may be limited to, such as board reporting. Admins keep the list."""

    name = models.CharField(
        max_length=60,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", "lower-case letters, digits, - and _ only")],
        help_text=gettext_lazy("Short and stable, because memories refer to it. Lower-case letters, digits, - and _."),
    )
    title = models.CharField(
        max_length=120, blank=True, help_text=gettext_lazy("The name shown to people, for example “Board reporting”.")
    )

    class Meta:
        db_table = "memory_purposes"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.title or self.name
