"""Analyses with their records, findings and actions, sources, and checks of memories."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.utils.timezone
import memories.models.fields
import uuid
from django.db import migrations, models

from foundation.database import policies

SHARED = f"(whole.visibility <> 'private' AND whole.persona = ANY {policies.CURATES})"
MAY_CHANGE = (
    f"(EXISTS (SELECT 1 FROM memory_records whole WHERE whole.id = record_id "  # noqa: S608 - names in migrations
    f"AND ({policies.owned('whole.created_by')} OR {SHARED})))"
)
# table → its policies
PROTECTED = {
    "analysis_sessions": policies.protect("analysis_sessions", read=policies.owned("owner")),
    "ingested_records": policies.protect("ingested_records", read=policies.part_of("analysis_sessions", "session_id")),
    "analysis_memories": policies.protect("analysis_memories", read=policies.part_of("analysis_sessions", "session_id")),
    "analysis_passages": policies.protect("analysis_passages", read=policies.part_of("analysis_memories", "finding_id")),
    "analysis_ingests": policies.protect("analysis_ingests", read=policies.part_of("analysis_sessions", "session_id")),
    "analysis_actions": policies.protect("analysis_actions", read=policies.owned("owner")),
    "analysis_action_items": policies.protect("analysis_action_items", read=policies.part_of("analysis_actions", "action_id")),
    "memory_checks": policies.protect("memory_checks", read=policies.part_of("memory_records", "record_id"), write=MAY_CHANGE),
}


class Migration(migrations.Migration):

    replaces = [('analysis', '0001_initial'), ('analysis', '0002_source_checks'), ('analysis', '0003_finding_passages'), ('analysis', '0004_reworded_help_texts'), ('analysis', '0005_page_contents'), ('analysis', '0006_row_level_security'), ('analysis', '0007_erasure_by_origin'), ('analysis', '0008_memory_checks')]

    initial = True

    dependencies = [
        ('memories', '0029_reports'),
    ]

    operations = [
        migrations.CreateModel(
            name='DeclaredSource',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('declaration', models.TextField(help_text='TOML: base_url, token_env (the name of the environment variable that holds the credential), and a table for each model. docs/analysis.md shows a whole one.')),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'verbose_name': 'source',
                'db_table': 'analysis_sources',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('model', models.CharField(blank=True, max_length=120)),
                ('finding', models.TextField()),
                ('category', models.CharField(blank=True, max_length=120)),
                ('metadata', models.JSONField(default=dict)),
                ('page_key', models.CharField(blank=True, help_text='For a page summary: the page and its scope.', max_length=80)),
                ('embedding_model', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('embedding_text_hash', models.BinaryField(null=True)),
                ('persistent', models.BooleanField(default=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'analysis_memories',
                'ordering': ['-created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='SourceCheck',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('succeeded_at', models.DateTimeField(blank=True, null=True)),
                ('failed_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'db_table': 'analysis_source_checks',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Action',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner', models.CharField(max_length=254)),
                ('on_behalf_of', models.CharField(blank=True, max_length=254)),
                ('analysis_id', models.CharField(max_length=200)),
                ('model', models.CharField(max_length=120)),
                ('kind', models.CharField(help_text='update or delete', max_length=10)),
                ('attributes', models.JSONField(default=dict)),
                ('where', models.JSONField(default=dict)),
                ('revalidate', models.BooleanField(default=False)),
                ('state', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('partial', 'Partial')], default='running', max_length=10)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'analysis_actions',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['owner', '-created_at'], name='action_of_owner')],
            },
        ),
        migrations.CreateModel(
            name='FindingPassage',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('start', models.PositiveIntegerField()),
                ('stop', models.PositiveIntegerField()),
                ('vector', memories.models.fields.EmbeddingField()),
                ('finding', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='analysis.finding')),
            ],
            options={
                'db_table': 'analysis_passages',
            },
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('analysis_id', models.CharField(max_length=200)),
                ('owner', models.CharField(max_length=254)),
                ('persona', models.CharField(max_length=60)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_used_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'analysis_sessions',
                'ordering': ['-last_used_at'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'analysis_id'), name='analysis_once_an_owner')],
            },
        ),
        migrations.AddField(
            model_name='finding',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='analysis.session'),
        ),
        migrations.CreateModel(
            name='ActionItem',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('record_id', models.CharField(max_length=500)),
                ('before', models.JSONField(default=dict)),
                ('outcome', models.CharField(choices=[('planned', 'Planned'), ('sending', 'Sending'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('drifted', 'Drifted'), ('unknown', 'Unknown')], default='planned', max_length=10)),
                ('status_code', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('error', models.TextField(blank=True)),
                ('at', models.DateTimeField(blank=True, null=True)),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='items', to='analysis.action')),
            ],
            options={
                'db_table': 'analysis_action_items',
                'ordering': ['id'],
                'indexes': [models.Index(fields=['action', 'outcome'], name='item_by_outcome')],
            },
        ),
        migrations.CreateModel(
            name='MemoryCheck',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('author', models.CharField(max_length=254)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('source', models.CharField(max_length=60)),
                ('sql', models.TextField()),
                ('expects', models.CharField(choices=[('equals', 'Equals'), ('at_least', 'At least'), ('between', 'Between'), ('empty', 'Is empty'), ('not_empty', 'Is not empty'), ('same', 'Same as when captured')], max_length=10)),
                ('value', models.JSONField(blank=True, help_text='For equals and at least.', null=True)),
                ('low', models.JSONField(blank=True, help_text='For between.', null=True)),
                ('high', models.JSONField(blank=True, help_text='For between.', null=True)),
                ('digest', models.CharField(blank=True, help_text='SHA-256 of the captured result.', max_length=64)),
                ('captured', models.TextField(blank=True, help_text='A summary of the captured result.')),
                ('state', models.CharField(choices=[('not_run', 'Not run yet'), ('passed', 'Passed'), ('failed', 'Failed'), ('cannot_run', 'Can’t run')], default='not_run', max_length=10)),
                ('checked_at', models.DateTimeField(blank=True, null=True)),
                ('runs', models.JSONField(default=list, help_text='The last results, newest first.')),
                ('failures', models.PositiveSmallIntegerField(default=0, help_text='Failures in a row, at most 2.')),
                ('failed_at', models.DateTimeField(blank=True, help_text='The first of these failures.', null=True)),
                ('next_run_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('runs_on', models.DateField(blank=True, help_text='The last day in UTC with a run.', null=True)),
                ('runs_that_day', models.PositiveIntegerField(default=0)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checks', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_checks',
                'ordering': ['created_at', 'id'],
                'verbose_name': 'check',
                'indexes': [models.Index(fields=['next_run_at'], name='check_due'), models.Index(fields=['source', 'runs_on'], name='check_runs_of_source'), models.Index(fields=['author'], name='check_of_author')],
                'constraints': [models.CheckConstraint(condition=models.Q(('expects__in', ['equals', 'at_least', 'between', 'empty', 'not_empty', 'same'])), name='check_expectation_known'), models.CheckConstraint(condition=models.Q(('state__in', ['not_run', 'passed', 'failed', 'cannot_run'])), name='check_state_known')],
            },
        ),
        migrations.CreateModel(
            name='IngestedRecord',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('model', models.CharField(max_length=120)),
                ('record_id', models.CharField(help_text="The upstream's id, or a hash of the row's position if it has none.", max_length=500)),
                ('has_id', models.BooleanField(default=True)),
                ('data', models.JSONField()),
                ('ingested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='records', to='analysis.session')),
            ],
            options={
                'db_table': 'ingested_records',
                'ordering': ['id'],
                'indexes': [models.Index(fields=['session', 'model', 'id'], name='ingested_in_order'), django.contrib.postgres.indexes.GinIndex(fields=['data'], name='ingested_exact', opclasses=['jsonb_path_ops']), models.Index(fields=['expires_at'], name='ingested_expiry'), models.Index(condition=models.Q(('model', 'memory')), fields=['record_id'], name='ingested_memory')],
                'constraints': [models.UniqueConstraint(fields=('session', 'model', 'record_id'), name='ingested_once')],
            },
        ),
        migrations.CreateModel(
            name='Ingest',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('model', models.CharField(max_length=120)),
                ('scope', models.CharField(help_text='SHA-256 of model, filters, page size and fields.', max_length=64)),
                ('filters', models.JSONField(default=dict)),
                ('per_page', models.PositiveIntegerField()),
                ('pages_done', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), default=list, size=None)),
                ('total_pages', models.PositiveIntegerField(blank=True, null=True)),
                ('next_cursor', models.TextField(blank=True)),
                ('state', models.CharField(choices=[('running', 'Running'), ('partial', 'Partial'), ('complete', 'Complete')], default='running', max_length=10)),
                ('error', models.TextField(blank=True)),
                ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('page_contents', models.JSONField(blank=True, default=dict, help_text='For each stored page: its number of rows, and a hash that identifies them.')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='ingests', to='analysis.session')),
            ],
            options={
                'db_table': 'analysis_ingests',
                'constraints': [models.UniqueConstraint(fields=('session', 'scope'), name='ingest_once_a_scope')],
            },
        ),
        migrations.AddIndex(
            model_name='finding',
            index=models.Index(fields=['session', 'category'], name='finding_of_session'),
        ),
        migrations.AddIndex(
            model_name='finding',
            index=models.Index(fields=['expires_at'], name='finding_expiry'),
        ),
        migrations.AddIndex(
            model_name='finding',
            index=django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('finding', config='simple'), name='finding_words'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.UniqueConstraint(condition=models.Q(('page_key', ''), _negated=True), fields=('session', 'page_key'), name='one_summary_a_page'),
        ),
        *(migrations.RunSQL(sql, policies.unprotect(table)) for table, sql in PROTECTED.items()),
    ]
