"""Vectors move into a narrow table of passages, where they are stored in line.

What has a vector keeps it until the reconciler has made all anew: long texts get several, and all their token bits.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import memories.models.fields

MOVE = """
    INSERT INTO memory_passages (record_id, start, stop, vector)
    SELECT id, 0, least(length(content), 32767), embedding FROM memory_records WHERE embedding IS NOT NULL;
    UPDATE memory_records SET embedding_text_hash = NULL WHERE embedding_text_hash IS NOT NULL;
    SET CONSTRAINTS ALL IMMEDIATE;
"""
# In line, where a scan finds them; the bits, which a scan does not need, out of it.
STORAGE = """
    ALTER TABLE memory_passages ALTER COLUMN vector SET STORAGE PLAIN;
    ALTER TABLE memory_passages ALTER COLUMN token_bits SET STORAGE EXTERNAL;
    ALTER TABLE memory_passages SET (toast_tuple_target = 128);
"""
# Each updated row would get a new entry in the vector index, which takes hours if there are many rows. The next
# migration removes both indexes from the state.
DROP_INDEXES = "DROP INDEX IF EXISTS memory_vectors; DROP INDEX IF EXISTS memory_no_vector;"
BACK = """
    UPDATE memory_records SET embedding = vector FROM memory_passages WHERE record_id = memory_records.id AND start = 0;
"""


class Migration(migrations.Migration):
    dependencies = [("memories", "0009_memories_come_along")]

    operations = [
        migrations.RunSQL(DROP_INDEXES, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Passage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.PositiveSmallIntegerField()),
                ("stop", models.PositiveSmallIntegerField()),
                ("vector", memories.models.fields.EmbeddingField()),
                (
                    "token_bits",
                    models.BinaryField(
                        help_text="The signs of each word piece's state, where the model tells.", null=True
                    ),
                ),
                (
                    "record",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="passages",
                        to="memories.memoryrecord",
                    ),
                ),
            ],
            options={"db_table": "memory_passages", "ordering": ["record", "start"]},
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(MOVE, BACK),
        migrations.AddConstraint(
            model_name="passage",
            constraint=models.UniqueConstraint(fields=("record", "start"), name="passage_once"),
        ),
    ]
