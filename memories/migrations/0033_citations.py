"""Documents that cite memories. People see their own, and the titles of those that their authors share."""

from __future__ import annotations

import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from foundation.database import policies

AUTHOR = policies.owned("created_by")
DOCUMENTS = policies.protect("citing_documents", read=f"({AUTHOR} OR is_shared)", write=AUTHOR)
OF_AUTHOR = (
    "(EXISTS (SELECT 1 FROM citing_documents whole WHERE whole.id = document_id "
    f"AND whole.created_by = {policies.EMAIL}))"
)
# Readers of a memory may know that documents cite it, and no more.
CITATIONS = policies.protect(
    "memory_citations",
    read=f"({policies.part_of('citing_documents', 'document_id')} OR {policies.part_of('memory_records', 'record_id')})",
    write=OF_AUTHOR,
)


class Migration(migrations.Migration):
    dependencies = [("memories", "0032_attachment")]

    operations = [
        migrations.CreateModel(
            name="CitingDocument",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("created_by", models.CharField(max_length=254)),
                ("title", models.CharField(blank=True, default="", max_length=200)),
                ("address", models.CharField(help_text="Where it is: a URL, or other words.", max_length=500)),
                (
                    "is_shared",
                    models.BooleanField(
                        default=False, help_text="Whether its title and address are shown to other people."
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("registered_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                (
                    "erased",
                    models.PositiveIntegerField(
                        default=0, help_text="Cited memories that were erased and that its author has yet to note."
                    ),
                ),
                ("erased_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "verbose_name": "citing document",
                "db_table": "citing_documents",
                "ordering": ["-registered_at", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("created_by", "address"), name="citing_document_once"),
                    models.CheckConstraint(
                        condition=models.Q(("address", ""), _negated=True), name="citing_document_has_address"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Citation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("cited_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("content_key", models.CharField(help_text="The key of the text that is cited.", max_length=32)),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "Current"),
                            ("superseded", "Corrected"),
                            ("stale", "May no longer be true"),
                            ("archived", "Archived"),
                            ("edited", "Reworded"),
                            ("rolled_back", "Rolled back"),
                            ("invalid", "No longer valid"),
                        ],
                        default="",
                        max_length=12,
                    ),
                ),
                (
                    "other_reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "Current"),
                            ("superseded", "Corrected"),
                            ("stale", "May no longer be true"),
                            ("archived", "Archived"),
                            ("edited", "Reworded"),
                            ("rolled_back", "Rolled back"),
                            ("invalid", "No longer valid"),
                        ],
                        default="",
                        help_text="A reason that neither the status nor the text of the memory shows.",
                        max_length=12,
                    ),
                ),
                ("outdated_at", models.DateTimeField(blank=True, null=True)),
                ("acknowledged_at", models.DateTimeField(blank=True, null=True)),
                (
                    "record",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="citations",
                        to="memories.memoryrecord",
                    ),
                ),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="citations",
                        to="memories.citingdocument",
                    ),
                ),
            ],
            options={
                "db_table": "memory_citations",
                "ordering": ["document", "id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(models.Q(("reason", ""), _negated=True), ("acknowledged_at", None)),
                        fields=["document"],
                        name="citation_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("document", "record"), name="citation_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("other_reason__in", ("", "rolled_back", "invalid")),
                            ("reason__in", ["", "superseded", "stale", "archived", "edited", "rolled_back", "invalid"])
                        ),
                        name="citation_reason_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("reason", ""), ("outdated_at", None), ("acknowledged_at", None)),
                            models.Q(models.Q(("reason", ""), _negated=True), ("outdated_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="citation_outdated_has_reason",
                    ),
                ],
            },
        ),
        migrations.RunSQL(DOCUMENTS, policies.unprotect("citing_documents")),
        migrations.RunSQL(CITATIONS, policies.unprotect("memory_citations")),
    ]
