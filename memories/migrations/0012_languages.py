import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

import memories.models.fields


class Migration(migrations.Migration):
    """A memory's language, by which its words are stemmed. The search column is derived and rebuilt; existing memories
    get their language from `manage.py rebuild_search`."""

    dependencies = [("memories", "0011_vectors_leave_records")]

    operations = [
        migrations.AddField(
            model_name="memoryrecord",
            name="language",
            field=models.CharField(
                blank=True,
                default="",
                help_text="ISO 639-1, of RECALL_LANGUAGES; empty where the text did not tell.",
                max_length=3,
            ),
        ),
        migrations.RemoveIndex(model_name="memoryrecord", name="memory_words"),
        migrations.RemoveField(model_name="memoryrecord", name="search"),
        migrations.AddField(
            model_name="memoryrecord",
            name="search",
            field=models.GeneratedField(
                db_persist=True,
                expression=memories.models.fields.LanguageSearchText("content", "summary"),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(
            model_name="memoryrecord",
            index=django.contrib.postgres.indexes.GinIndex(fields=["search"], name="memory_words"),
        ),
    ]
