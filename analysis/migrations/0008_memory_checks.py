"""Checks of memories. Readers of a memory read its checks. Its owner and the curators of its persona change them."""

from __future__ import annotations

import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from foundation.database import policies

SHARED = f"(whole.visibility <> 'private' AND whole.persona = ANY {policies.CURATES})"
MAY_CHANGE = (
    f"(EXISTS (SELECT 1 FROM memory_records whole WHERE whole.id = record_id "  # noqa: S608 - names in migrations
    f"AND ({policies.owned('whole.created_by')} OR {SHARED})))"
)
CHECKS = policies.protect(
    "memory_checks", read=policies.part_of("memory_records", "record_id"), write=MAY_CHANGE
)
EXPECTATIONS = [
    ("equals", "Equals"),
    ("at_least", "At least"),
    ("between", "Between"),
    ("empty", "Is empty"),
    ("not_empty", "Is not empty"),
    ("same", "Same as when captured"),
]
STATES = [("not_run", "Not run yet"), ("passed", "Passed"), ("failed", "Failed"), ("cannot_run", "Can’t run")]


class Migration(migrations.Migration):
    dependencies = [("analysis", "0007_erasure_by_origin"), ("memories", "0029_reports")]

    operations = [
        migrations.CreateModel(
            name="MemoryCheck",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("author", models.CharField(max_length=254)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("source", models.CharField(max_length=60)),
                ("sql", models.TextField()),
                ("expects", models.CharField(choices=EXPECTATIONS, max_length=10)),
                ("value", models.JSONField(blank=True, help_text="For equals and at least.", null=True)),
                ("low", models.JSONField(blank=True, help_text="For between.", null=True)),
                ("high", models.JSONField(blank=True, help_text="For between.", null=True)),
                (
                    "digest",
                    models.CharField(blank=True, help_text="SHA-256 of the captured result.", max_length=64),
                ),
                ("captured", models.TextField(blank=True, help_text="A summary of the captured result.")),
                ("state", models.CharField(choices=STATES, default="not_run", max_length=10)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("runs", models.JSONField(default=list, help_text="The last results, newest first.")),
                (
                    "failures",
                    models.PositiveSmallIntegerField(default=0, help_text="Failures in a row, at most 2."),
                ),
                (
                    "failed_at",
                    models.DateTimeField(blank=True, help_text="The first of these failures.", null=True),
                ),
                ("next_run_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "runs_on",
                    models.DateField(blank=True, help_text="The last day in UTC with a run.", null=True),
                ),
                ("runs_that_day", models.PositiveIntegerField(default=0)),
                (
                    "record",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checks", to="memories.memoryrecord"
                    ),
                ),
            ],
            options={
                "db_table": "memory_checks",
                "ordering": ["created_at", "id"],
                "verbose_name": "check",
                "indexes": [
                    models.Index(fields=["next_run_at"], name="check_due"),
                    models.Index(fields=["source", "runs_on"], name="check_runs_of_source"),
                    models.Index(fields=["author"], name="check_of_author"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expects__in", ["equals", "at_least", "between", "empty", "not_empty", "same"])
                        ),
                        name="check_expectation_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["not_run", "passed", "failed", "cannot_run"])),
                        name="check_state_known",
                    ),
                ],
            },
        ),
        migrations.RunSQL(CHECKS, policies.unprotect("memory_checks")),
    ]
