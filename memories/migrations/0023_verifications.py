"""Verifications of versions. Those in the history count if the memory has not changed since."""

from __future__ import annotations

from typing import Any

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from foundation.database import policies

CHANGING = {"entity_urns", "related_columns", "persona"}
# The expression of memories.models.verification.version_of when this migration was written
VERSION = """
    SELECT encode(sha256(convert_to(jsonb_build_array(
        content, entity_urns, related_columns, visibility, CASE WHEN visibility = 'persona' THEN persona ELSE '' END
    )::text, 'UTF8')), 'hex') FROM memory_records WHERE id = %s"""


def keep_verifications(apps: Any, schema_editor: Any) -> None:
    Revision = apps.get_model("memories", "MemoryRevision")
    Verification = apps.get_model("memories", "Verification")
    verified = Revision.objects.filter(change="verify").order_by().values("record").distinct()
    for record_id in list(verified.values_list("record", flat=True)):
        revisions = list(
            Revision.objects.filter(record_id=record_id).select_related("record").order_by("valid_to", "id")
        )
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(VERSION, [record_id])
            (version,) = cursor.fetchone()
        rows = [
            _verification(Verification, revision, revisions[number + 1 :], version)
            for number, revision in enumerate(revisions)
            if revision.change == "verify" and not _is_undone(revisions[number + 1 :])
        ]
        Verification.objects.bulk_create(rows)


def _is_undone(later: list[Any]) -> bool:
    return bool(later) and later[0].change == "undo" and "last_verified_at" in later[0].details


def _verification(model: Any, revision: Any, later: list[Any], version: str) -> Any:
    record = revision.record
    is_unchanged = (
        (revision.content, revision.visibility) == (record.content, record.visibility)
        and all((row.content, row.visibility) == (record.content, record.visibility) for row in later)
        and not any(CHANGING & set(row.details) for row in later)
    )
    return model(
        record_id=record.pk,
        by=revision.changed_by,
        at=revision.valid_to,
        version=version if is_unchanged else "",
        is_own=revision.changed_by in (record.created_by, record.metadata.get("edited_by")),
        detected_urns=record.detected_urns,
    )


class Migration(migrations.Migration):
    dependencies = [("memories", "0022_feedback_counts")]

    operations = [
        migrations.CreateModel(
            name="Verification",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("by", models.CharField(max_length=254)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "version",
                    models.CharField(help_text="The version that was verified, see version_of.", max_length=64),
                ),
                (
                    "is_own",
                    models.BooleanField(help_text="Whether the person owned the memory or had written its text."),
                ),
                (
                    "detected_urns",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=500),
                        default=list,
                        help_text="Entities that were detected in the text by then. Those detected later are not "
                        "verified.",
                        size=None,
                    ),
                ),
                ("owner", models.CharField(default="", editable=False, max_length=254)),
                ("persona", models.CharField(default="", editable=False, max_length=60)),
                ("visibility", models.CharField(default="", editable=False, max_length=10)),
                (
                    "record",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="verifications",
                        to="memories.memoryrecord",
                    ),
                ),
            ],
            options={"db_table": "memory_verifications", "ordering": ["-at", "-id"]},
        ),
        migrations.RunSQL(
            policies.copy_scope("memory_verifications"), policies.no_copy_scope("memory_verifications")
        ),
        migrations.RunPython(keep_verifications, migrations.RunPython.noop),
        migrations.RunSQL(
            policies.protect("memory_verifications", read=policies.readable("owner")),
            policies.unprotect("memory_verifications"),
        ),
    ]
