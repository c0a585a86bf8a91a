from django.db import migrations

# Notes of bulk actions that quote one of the memories that they are about, and choices that do. Ten is the minimum
# number of characters of a quoted text.
OF_BATCHES = """
    INSERT INTO memory_quotations (record_id, place, "row", is_whole)
    SELECT record.id, quoting.place, replace(batch.id::text, '-', ''), quoting.is_whole
    FROM batches batch CROSS JOIN LATERAL unnest(batch.unit_ids) AS unit
    JOIN memory_records record ON record.id = unit
    CROSS JOIN LATERAL (
        VALUES ('batch notes', batch.note, false), ('batch choices', batch.choice, true)
    ) AS quoting(place, text, is_whole)
    WHERE length(record.content) >= 10 AND position(record.content IN quoting.text) > 0
    ON CONFLICT DO NOTHING"""
# Reasons for corrections that quote the correction.
OF_REASONS = """
    INSERT INTO memory_quotations (record_id, place, "row", is_whole)
    SELECT correction.id, 'reasons in the history', revision.id::text, false
    FROM memory_revisions revision JOIN memory_records correction ON correction.supersedes_id = revision.record_id
    WHERE revision.change = 'supersede' AND length(correction.content) >= 10
    AND position(correction.content IN revision.reason) > 0
    ON CONFLICT DO NOTHING"""


class Migration(migrations.Migration):
    """Store the origins of texts that were written before origins were stored, where ids make them certain."""

    dependencies = [
        ('memories', '0025_erasure_by_origin'),
    ]

    operations = [
        migrations.RunSQL(OF_BATCHES, migrations.RunSQL.noop),
        migrations.RunSQL(OF_REASONS, migrations.RunSQL.noop),
    ]
