from django.db import migrations

# Facts of the last 30 days that state no entity become an open question to their owners. Older ones are left alone, so
# that nobody finds a list of years. Without a catalog, there is nothing that could answer the question.
ASK = """
    UPDATE memory_records SET unsettled = true
    WHERE created_at > now() - interval '30 days' AND entity_urns = '{}' AND tier = '' AND source <> 'note'
    AND dimension IN ('knowledge', 'entity', 'relationship') AND status IN ('active', 'stale')
    AND EXISTS (SELECT FROM catalog_entities WHERE NOT removed)
"""


class Migration(migrations.Migration):

    dependencies = [
        ("knowledge", "0016_suggestions"),
        ('memories', '0035_unsettled_entities'),
    ]

    operations = [
        migrations.RunSQL(ASK, migrations.RunSQL.noop),
    ]
