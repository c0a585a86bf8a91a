from django.db import migrations


class Migration(migrations.Migration):
    """A memory whose text names exactly one entity is about that one, so nobody is asked."""

    dependencies = [("memories", "0037_changes_of_term_counts")]

    operations = [
        migrations.RunSQL(
            "UPDATE memory_records SET unsettled = false WHERE unsettled AND cardinality(detected_urns) = 1",
            migrations.RunSQL.noop,
        )
    ]
