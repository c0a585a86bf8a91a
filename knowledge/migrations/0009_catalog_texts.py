"""Documents and glossary terms of the catalog get passages; a worker makes the vectors of those that are there."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

import memories.models.fields

FILL = """
    INSERT INTO catalog_texts (id, entity_id, embedding_model)
    SELECT gen_random_uuid(), urn, '' FROM catalog_entities
    WHERE entity_type IN ('document', 'glossaryTerm') AND description <> ''
"""


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0008_pairs_of_characters")]

    operations = [
        migrations.CreateModel(
            name="CatalogText",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("embedding_model", models.CharField(blank=True, default="", editable=False, max_length=200)),
                ("embedding_text_hash", models.BinaryField(editable=False, null=True)),
                (
                    "entity",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prose",
                        to="knowledge.catalogentity",
                    ),
                ),
            ],
            options={"db_table": "catalog_texts"},
        ),
        migrations.CreateModel(
            name="CatalogPassage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.PositiveIntegerField()),
                ("stop", models.PositiveIntegerField()),
                ("vector", memories.models.fields.EmbeddingField()),
                (
                    "text",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="passages",
                        to="knowledge.catalogtext",
                    ),
                ),
            ],
            options={"db_table": "catalog_passages"},
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
