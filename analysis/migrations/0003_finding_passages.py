"""The vectors of findings move into a table of passages; a finding that is longer than one passage is indexed anew."""

import django.db.models.deletion
from django.db import migrations, models

import memories.models.fields

MOVE = """
    INSERT INTO analysis_passages (finding_id, start, stop, vector)
    SELECT id, 0, length(finding), embedding FROM analysis_memories WHERE embedding IS NOT NULL;
    UPDATE analysis_memories SET embedding_text_hash = NULL WHERE length(finding) > 600;
    SET CONSTRAINTS ALL IMMEDIATE;
"""
BACK = """
    UPDATE analysis_memories SET embedding = vector
    FROM analysis_passages WHERE finding_id = analysis_memories.id AND start = 0;
"""


class Migration(migrations.Migration):
    dependencies = [("analysis", "0002_source_checks")]

    operations = [
        migrations.CreateModel(
            name="FindingPassage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.PositiveIntegerField()),
                ("stop", models.PositiveIntegerField()),
                ("vector", memories.models.fields.EmbeddingField()),
                (
                    "finding",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="passages", to="analysis.finding"
                    ),
                ),
            ],
            options={"db_table": "analysis_passages"},
        ),
        migrations.RunSQL(MOVE, BACK),
        migrations.RemoveField(model_name="finding", name="embedding"),
    ]
