# The table and its indexes keep their names: only the state of the models changes.

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memories", "0015_vector_index_is_trained"),
    ]

    operations = [
        migrations.RenameModel(old_name="Showing", new_name="Impression"),
        migrations.AlterField(
            model_name="impression",
            name="record",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="impressions", to="memories.memoryrecord"
            ),
        ),
    ]
