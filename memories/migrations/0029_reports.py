"""Reports about memories that were used. Readers see their own, owners and curators those about their memories."""

from __future__ import annotations

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from foundation.database import policies

REPORTER = policies.owned("by")
# A change of a memory's scope changes the copies in its reports, so owners may update reports. Services don't.
CONCERNED = (
    f"({REPORTER} OR {policies.owned('owner')} OR (visibility <> 'private' AND persona = ANY {policies.CURATES}))"
)
REPORTS = policies.protect(
    "memory_reports",
    read=CONCERNED,
    insert=f"({REPORTER} AND {policies.part_of('memory_records', 'record_id')})",
    delete=f"({REPORTER} OR {policies.owned('owner')})",
)


class Migration(migrations.Migration):
    dependencies = [("memories", "0028_source_keys")]

    operations = [
        migrations.CreateModel(
            name="Report",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("by", models.CharField(max_length=254)),
                (
                    "verdict",
                    models.CharField(
                        choices=[("used", "Used"), ("wrong", "Wrong"), ("outdated", "Outdated")], max_length=10
                    ),
                ),
                ("note", models.TextField(blank=True)),
                ("day", models.DateField(help_text="The day in UTC. A person makes each report once a day.")),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "content_key",
                    models.CharField(help_text="The key of the text that the report is about.", max_length=32),
                ),
                ("owner", models.CharField(default="", editable=False, max_length=254)),
                ("persona", models.CharField(default="", editable=False, max_length=60)),
                ("visibility", models.CharField(default="", editable=False, max_length=10)),
                (
                    "record",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="reports", to="memories.memoryrecord"
                    ),
                ),
            ],
            options={
                "db_table": "memory_reports",
                "ordering": ["-at", "-id"],
                "indexes": [
                    models.Index(fields=["by", "day"], name="report_of_person"),
                    models.Index(fields=["verdict", "at"], name="report_newest"),
                    django.contrib.postgres.indexes.GinIndex(
                        django.contrib.postgres.search.SearchVector("note", config="simple"), name="report_words"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("record", "by", "verdict", "day"), name="report_once_a_day"),
                    models.CheckConstraint(
                        condition=models.Q(("verdict__in", ["used", "wrong", "outdated"])),
                        name="report_verdict_known",
                    ),
                ],
            },
        ),
        migrations.RunSQL(policies.copy_scope("memory_reports"), policies.no_copy_scope("memory_reports")),
        migrations.RunSQL(REPORTS, policies.unprotect("memory_reports")),
    ]
