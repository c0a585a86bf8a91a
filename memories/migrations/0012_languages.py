from django.db import migrations, models


class Migration(migrations.Migration):
    """A memory's language, by which its words are stemmed; the next migration rebuilds the derived column. Existing
    memories get their language from `manage.py rebuild_search`."""

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
    ]
