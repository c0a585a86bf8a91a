"""Row-level security of memories. Passages carry the owner, persona and visibility of their memory."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from foundation.database import policies

# Reading a memory permits updates, because a reader may mark it stale, and the use of memories is counted. The services
# decide who may change what.
# A curator may correct a stale memory in the name of its owner.
CURATED = f"(visibility <> 'private' AND persona = ANY {policies.CURATES})"
RECORDS = policies.protect(
    "memory_records",
    read=policies.readable(),
    insert=f"{policies.owned()} OR {CURATED}",
    delete=policies.owned(),
)
OF_RECORD = policies.part_of("memory_records", "record_id")
# An earlier state can have been private, while the memory is shared now.
REVISIONS = policies.protect("memory_revisions", read=policies.readable_state(), write=OF_RECORD)
FEEDBACK = policies.protect("memory_feedback", read=policies.readable("owner"))
PASSAGES = policies.protect("memory_passages", read=policies.readable("owner"))
VECTOR_INDEXES = """
    SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memory_passages' AND indexdef LIKE '%ivfflat%'"""


def fill_in_passages(apps: Any, schema_editor: Any) -> None:
    """Fill in the columns. The vector index is built again afterwards, which is faster than adding each row to it."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(VECTOR_INDEXES)
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {schema_editor.quote_name(name)}")
        cursor.execute(policies.fill_scope("memory_passages"))
        for _, definition in indexes:
            cursor.execute(definition)


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0020_detected_entities'),
    ]

    operations = [
        migrations.AddField(
            model_name='passage',
            name='owner',
            field=models.CharField(default='', editable=False, max_length=254),
        ),
        migrations.AddField(
            model_name='passage',
            name='persona',
            field=models.CharField(default='', editable=False, max_length=60),
        ),
        migrations.AddField(
            model_name='passage',
            name='visibility',
            field=models.CharField(default='', editable=False, max_length=10),
        ),
        migrations.AddField(
            model_name='feedback',
            name='owner',
            field=models.CharField(default='', editable=False, max_length=254),
        ),
        migrations.AddField(
            model_name='feedback',
            name='persona',
            field=models.CharField(default='', editable=False, max_length=60),
        ),
        migrations.AddField(
            model_name='feedback',
            name='visibility',
            field=models.CharField(default='', editable=False, max_length=10),
        ),
        migrations.RunPython(fill_in_passages, migrations.RunPython.noop),
        migrations.RunSQL(
            policies.SCOPE_FUNCTIONS
            + policies.copy_scope("memory_passages")
            + policies.fill_scope("memory_feedback")
            + policies.copy_scope("memory_feedback"),
            policies.no_copy_scope("memory_feedback")
            + policies.no_copy_scope("memory_passages")
            + policies.NO_SCOPE_FUNCTIONS,
        ),
        migrations.RunSQL(RECORDS, policies.unprotect("memory_records")),
        migrations.RunSQL(REVISIONS, policies.unprotect("memory_revisions")),
        migrations.RunSQL(FEEDBACK, policies.unprotect("memory_feedback")),
        migrations.RunSQL(PASSAGES, policies.unprotect("memory_passages")),
    ]
