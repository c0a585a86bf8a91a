"""Row-level security of insights. They carry the owner, persona and visibility of their memory."""

from __future__ import annotations

from django.db import migrations, models

from memories.database import policies

INSIGHTS = policies.protect("insights", read=f"({policies.readable('owner')} OR persona = ANY {policies.CURATES})")
# A curator reads and changes the memories of the insights of their personas, even private ones.
CURATED = f"persona = ANY {policies.CURATES} AND {policies.part_of('insights', '{}', 'record_id')}"
OF_RECORD, OF_PASSAGE = CURATED.format("memory_records.id"), CURATED.format("memory_passages.record_id")
CURATING = f"""
    CREATE POLICY curating_reading ON memory_records FOR SELECT USING ({OF_RECORD});
    CREATE POLICY curating_changing ON memory_records FOR UPDATE USING ({OF_RECORD});
    CREATE POLICY curating ON memory_passages USING ({OF_PASSAGE});
"""
NOT_CURATING = """
    DROP POLICY curating_reading ON memory_records;
    DROP POLICY curating_changing ON memory_records;
    DROP POLICY curating ON memory_passages;
"""
DECISIONS = policies.protect("insight_decisions", read=policies.part_of("insights", "insight_id", "record_id"))


class Migration(migrations.Migration):

    dependencies = [
        ('knowledge', '0011_baselines_due_and_shared_values'),
        ('memories', '0021_row_level_security'),
    ]

    operations = [
        migrations.AddField(
            model_name='insight',
            name='owner',
            field=models.CharField(default='', editable=False, max_length=254),
        ),
        migrations.AddField(
            model_name='insight',
            name='persona',
            field=models.CharField(default='', editable=False, max_length=60),
        ),
        migrations.AddField(
            model_name='insight',
            name='visibility',
            field=models.CharField(default='', editable=False, max_length=10),
        ),
        migrations.RunSQL(policies.fill_scope("insights"), migrations.RunSQL.noop),
        migrations.RunSQL(policies.copy_scope("insights"), policies.no_copy_scope("insights")),
        migrations.RunSQL(INSIGHTS, policies.unprotect("insights")),
        migrations.RunSQL(CURATING, NOT_CURATING),
        migrations.RunSQL(DECISIONS, policies.unprotect("insight_decisions")),
    ]
