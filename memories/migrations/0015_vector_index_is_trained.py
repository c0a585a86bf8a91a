from django.db import migrations


class Migration(migrations.Migration):
    """The vector index goes out of the migrations' hands: a worker builds it (memories/retrieval/vector_index.py)."""

    dependencies = [
        ("memories", "0014_limits"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            # built by earlier versions of 0011 and 0013
            database_operations=[
                migrations.RunSQL("DROP INDEX IF EXISTS passage_vectors", migrations.RunSQL.noop),
            ],
            state_operations=[migrations.RemoveIndex(model_name="passage", name="passage_vectors")],
        ),
    ]
