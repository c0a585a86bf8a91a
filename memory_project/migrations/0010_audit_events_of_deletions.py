from django.db import migrations

# delete_memory names its memory in the argument memory_id.
NAMED = """
    UPDATE memory_project_auditevent SET record_ids = array_append(record_ids, (arguments->>'memory_id')::uuid)
    WHERE arguments->>'memory_id' ~ '^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$'
    AND NOT (arguments->>'memory_id')::uuid = ANY(record_ids)"""


class Migration(migrations.Migration):
    """Store which memories earlier calls of delete_memory have named. Erasing a memory empties their events."""

    dependencies = [
        ('memory_project', '0009_row_level_security'),
    ]

    operations = [
        migrations.RunSQL(NAMED, migrations.RunSQL.noop),
    ]
