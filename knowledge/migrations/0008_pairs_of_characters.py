import django.contrib.postgres.indexes
import django.contrib.postgres.search
from django.db import migrations, models

import memories.models.fields


class Migration(migrations.Migration):
    """The derived search column of the catalog, rebuilt: runs of scripts without spaces are split into pairs."""

    dependencies = [("knowledge", "0007_failed_calls")]

    operations = [
        migrations.RemoveIndex(model_name="catalogentity", name="catalog_words"),
        migrations.RemoveField(model_name="catalogentity", name="search"),
        migrations.AddField(
            model_name="catalogentity",
            name="search",
            field=models.GeneratedField(
                db_persist=True,
                expression=memories.models.fields.SearchText("qualified_name", "name", "description", "columns"),
                output_field=django.contrib.postgres.search.SearchVectorField(),
            ),
        ),
        migrations.AddIndex(
            model_name="catalogentity",
            index=django.contrib.postgres.indexes.GinIndex(fields=["search"], name="catalog_words"),
        ),
    ]
