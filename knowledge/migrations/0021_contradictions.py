"""Contradictions between texts, and the verdicts on them. Their rows are readable by who may read both texts."""

from __future__ import annotations

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models

from foundation.database import policies

FIRST = policies.part_of("memory_records", "first_id")
SECOND = f"(second_id IS NULL OR {policies.part_of('memory_records', 'second_id')})"
BOTH = f"({FIRST} AND {SECOND})"
CONTRADICTIONS = policies.protect("contradictions", read=BOTH, write="false")  # only the worker writes them
SETTLEMENTS = policies.protect("settlements", read=BOTH, write=f"({policies.owned('by')} AND {BOTH})")


class Migration(migrations.Migration):

    dependencies = [
        ("knowledge", "0020_second_approval"),
        ('memories', '0031_scopes'),
    ]

    operations = [
        migrations.CreateModel(
            name='ContradictionScan',
            fields=[
                ('record', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='memories.memoryrecord')),
                ('at', models.DateTimeField()),
            ],
            options={
                'db_table': 'contradiction_scans',
            },
        ),
        migrations.CreateModel(
            name='Contradiction',
            fields=[
                ('urn', models.CharField(blank=True, help_text='The entity that is described.', max_length=500)),
                ('column', models.CharField(blank=True, default='', max_length=300)),
                ('first_key', models.CharField(help_text='The key of the first text.', max_length=32)),
                ('second_key', models.CharField(help_text='The key of the second text.', max_length=32)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('reason', models.CharField(help_text='The words that differ.', max_length=300)),
                ('found_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
                ('second', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'contradictions',
                'ordering': ['-found_at', 'id'],
                'indexes': [models.Index(fields=['-found_at', 'id'], name='contradiction_newest')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('second__isnull', True), models.Q(('urn', ''), _negated=True)), models.Q(('column', ''), ('second__isnull', False), ('urn', '')), _connector='OR'), name='contradiction_with_memory_or_catalog'), models.UniqueConstraint(condition=models.Q(('second__isnull', False)), fields=('first', 'second'), name='contradiction_of_memories_once'), models.UniqueConstraint(condition=models.Q(('second__isnull', True)), fields=('first', 'urn', 'column'), name='contradiction_of_catalog_once')],
            },
        ),
        migrations.CreateModel(
            name='Settlement',
            fields=[
                ('urn', models.CharField(blank=True, help_text='The entity that is described.', max_length=500)),
                ('column', models.CharField(blank=True, default='', max_length=300)),
                ('first_key', models.CharField(help_text='The key of the first text.', max_length=32)),
                ('second_key', models.CharField(help_text='The key of the second text.', max_length=32)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('verdict', models.CharField(choices=[('first', 'The first one holds'), ('second', 'The second one holds'), ('both', 'Both hold, differently'), ('neither', 'Neither holds')], max_length=10)),
                ('state', models.CharField(choices=[('decided', 'Decided'), ('proposed', 'Proposed to the owner')], max_length=10)),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('note', models.TextField(blank=True)),
                ('first_scope', models.CharField(blank=True, default='', max_length=520)),
                ('second_scope', models.CharField(blank=True, default='', max_length=520)),
                ('effects', models.JSONField(default=list, help_text='What it has done, as undoing it reverts it.')),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
                ('undone_by', models.CharField(blank=True, default='', max_length=254)),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
                ('second', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'settlements',
                'ordering': ['-at', 'id'],
                'indexes': [models.Index(fields=['by', '-at'], name='settlement_by_person'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('note', config='simple'), name='settlement_words')],
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['first', 'second', 'both', 'neither'])), name='settlement_verdict_known'), models.CheckConstraint(condition=models.Q(('state__in', ['decided', 'proposed'])), name='settlement_state_known')],
            },
        ),
        migrations.RunSQL(CONTRADICTIONS, policies.unprotect("contradictions")),
        migrations.RunSQL(SETTLEMENTS, policies.unprotect("settlements")),
    ]
