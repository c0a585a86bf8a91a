from __future__ import annotations

from datetime import timedelta

from django.db import models

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn

KEPT = timedelta(days=1)


class Submission(models.Model):
    """The form that a person sent last from one rendered page. No text of it is stored, only its digest."""

    person_columns = (PersonColumn("owner"),)

    retention = (Retention("started_at", KEPT),)

    page = models.CharField(
        max_length=64, primary_key=True, help_text="Digest of the person and the page's CSRF token."
    )
    owner = models.CharField(max_length=254)
    body = models.CharField(max_length=64, help_text="Digest of the address and the values of the form.")
    location = models.TextField(blank=True, help_text="The page shown after it. Empty while the request is running.")
    started_at = models.DateTimeField()

    class Meta:
        db_table = "submissions"
        indexes = [models.Index(fields=["started_at"], name="submission_age")]  # deletion after a day

    def __str__(self) -> str:
        return f"{self.owner} → {self.location or 'running'}"


class DefaultView(models.Model):
    """The saved view that a person's list opens with."""

    person_columns = (PersonColumn("person__email"),)

    person = models.ForeignKey("memory_project.User", on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=60, help_text="The list, by the name of its URL.")
    view = models.OneToOneField("memory_project.SavedView", on_delete=models.CASCADE, related_name="default_for")

    class Meta:
        db_table = "default_views"
        constraints = [models.UniqueConstraint(fields=["person", "page"], name="default_view_once_a_page")]

    def __str__(self) -> str:
        return f"{self.page} of {self.person}"
