from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy


class DeclaredSource(models.Model):
    """A record source, warehouse or object store that is declared in the admin.

    The format is TOML, as in the ANALYSIS_SOURCES files.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.SlugField(max_length=60, unique=True)
    declaration = models.TextField(
        help_text=gettext_lazy(
            "TOML: base_url, token_env (the name of the environment variable that holds the credential), and a "
            "table for each model. docs/analysis.md shows a whole one."
        )
    )
    is_enabled = models.BooleanField(gettext_lazy("enabled"), default=True)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        db_table = "analysis_sources"
        ordering = ["name"]
        verbose_name = gettext_lazy("source")

    def __str__(self) -> str:
        return self.name


class SourceCheck(models.Model):
    """Times of a source's last success and last failure, in an ingest or an operator's test. Derived data."""

    name = models.CharField(max_length=200, primary_key=True)
    succeeded_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        db_table = "analysis_source_checks"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
