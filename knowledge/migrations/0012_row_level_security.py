"""Row-level security of insights. They carry the owner, persona and visibility of their memory."""

from __future__ import annotations

from django.db import migrations, models

from foundation.database import policies

INSIGHTS = policies.protect("insights", read=f"({policies.readable('owner')} OR persona = ANY {policies.CURATES})")
# A curator reads and changes the memories of the insights of their personas, even private ones.
# A function, because the planner would spend time on a subquery that few rows need.
IS_INSIGHT = """
    CREATE FUNCTION is_insight(memory uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN EXISTS (SELECT 1 FROM insights WHERE record_id = memory);
    END $$;
"""
OF_RECORD = f"persona = ANY {policies.CURATES} AND is_insight(id)"
OF_PASSAGE = f"persona = ANY {policies.CURATES} AND is_insight(record_id)"
CURATING = f"""{IS_INSIGHT}
    CREATE POLICY curating_reading ON memory_records FOR SELECT USING ({OF_RECORD});
    CREATE POLICY curating_changing ON memory_records FOR UPDATE USING ({OF_RECORD});
    CREATE POLICY curating ON memory_passages USING ({OF_PASSAGE});
"""
NOT_CURATING = """
    DROP POLICY curating_reading ON memory_records;
    DROP POLICY curating_changing ON memory_records;
    DROP POLICY curating ON memory_passages;
    DROP FUNCTION is_insight;
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
