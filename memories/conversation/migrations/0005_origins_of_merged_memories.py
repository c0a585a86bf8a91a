from django.db import migrations

# A merged memory is the correction of the older memory, with the text of the accepted proposal.
OF_MERGES = """
    INSERT INTO memory_quotations (record_id, place, "row", is_whole)
    SELECT part.id, 'memories', replace(merged.id::text, '-', ''), true
    FROM conversation_merges merge
    JOIN memory_records merged ON merged.supersedes_id = merge.target_id AND merged.content = left(merge.text, 4000)
    CROSS JOIN LATERAL (VALUES (merge.record_id), (merge.target_id)) AS part(id)
    WHERE merge.state = 'accepted'
    ON CONFLICT DO NOTHING"""


class Migration(migrations.Migration):
    """Store the origins of merged memories that were written before origins were stored."""

    dependencies = [
        ('conversation', '0004_erasure_by_origin'),
        ('memories', '0025_erasure_by_origin'),
    ]

    operations = [
        migrations.RunSQL(OF_MERGES, migrations.RunSQL.noop),
    ]
