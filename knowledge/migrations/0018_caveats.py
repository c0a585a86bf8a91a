"""Lineage of columns, derived from the catalog's aspects, and statements that a caveat from upstream does not hold."""

from __future__ import annotations

from typing import Any

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from knowledge.catalog.lineage_edges import column_pairs
from foundation.database import policies

# A change of a memory's scope changes the copies in its waivers, and it may be the owner's or a curator's.
CONCERNED = f"({policies.owned('by')} OR {policies.owned('owner')} OR persona = ANY {policies.CURATES})"
WAIVERS = policies.protect(
    "caveat_waivers",
    read=f"({policies.readable('owner')} OR {CONCERNED})",
    write=CONCERNED,
    insert=f"({policies.owned('by')} AND {policies.part_of('memory_records', 'record_id')})",
    delete=f"({policies.owned('by')} OR {policies.owned('owner')})",
)
ASPECTS = ("upstreamLineage", "dataJobInputOutput")
BATCH_SIZE = 500


def derive_column_edges(apps: Any, schema_editor: Any) -> None:
    """Fill the table from the aspects that the catalog has. Later changes of an aspect keep it up to date."""
    ColumnEdge = apps.get_model("knowledge", "ColumnEdge")
    rows = apps.get_model("knowledge", "CatalogAspect").objects.filter(
        aspect__in=ASPECTS, is_latest=True, value__isnull=False
    )
    edges = []
    for urn, aspect, value in rows.values_list("urn", "aspect", "value").iterator(chunk_size=BATCH_SIZE):
        for down, down_column, up, up_column in sorted(column_pairs({aspect: value})):
            edges.append(
                ColumnEdge(
                    downstream=down, downstream_column=down_column, upstream=up, upstream_column=up_column, said_by=urn
                )
            )
        if len(edges) >= BATCH_SIZE:
            ColumnEdge.objects.bulk_create(edges, batch_size=BATCH_SIZE)
            edges = []
    ColumnEdge.objects.bulk_create(edges, batch_size=BATCH_SIZE)


class Migration(migrations.Migration):

    dependencies = [
        ("knowledge", "0017_recent_memories_without_entities"),
        ('memories', '0032_attachment'),
    ]

    operations = [
        migrations.CreateModel(
            name='ColumnEdge',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('downstream', models.CharField(max_length=500)),
                ('downstream_column', models.CharField(max_length=300)),
                ('upstream', models.CharField(max_length=500)),
                ('upstream_column', models.CharField(max_length=300)),
                ('said_by', models.CharField(max_length=500)),
            ],
            options={
                'db_table': 'catalog_column_lineage',
                'indexes': [models.Index(fields=['downstream', 'downstream_column'], name='column_lineage_of_downstream'), models.Index(fields=['said_by'], name='column_lineage_said_by')],
            },
        ),
        migrations.CreateModel(
            name='CaveatWaiver',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(help_text='The derived entity.', max_length=500)),
                ('column', models.CharField(blank=True, help_text='The derived column. Empty: the whole entity.', max_length=300)),
                ('reason', models.TextField()),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('content_key', models.CharField(help_text='The key of the text that was waived. Another text ends the waiver.', max_length=32)),
                ('withdrawn_by', models.CharField(blank=True, max_length=254)),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='waivers', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'caveat_waivers',
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['urn'], name='waiver_of_entity'), models.Index(fields=['by'], name='waiver_of_person'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('reason', config='simple'), name='waiver_words')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('withdrawn_at__isnull', True)), fields=('record', 'urn', 'column', 'content_key'), name='caveat_waived_once')],
            },
        ),
        migrations.RunPython(derive_column_edges, migrations.RunPython.noop),
        migrations.RunSQL(policies.copy_scope("caveat_waivers"), policies.no_copy_scope("caveat_waivers")),
        migrations.RunSQL(WAIVERS, policies.unprotect("caveat_waivers")),
    ]
