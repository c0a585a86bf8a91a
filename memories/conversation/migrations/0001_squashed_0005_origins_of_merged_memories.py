"""Cached answers, decisions, merges and wipe requests of conversations."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.utils.timezone
import memories.models.fields
import uuid
from django.db import migrations, models

from foundation.database import policies

# table → its policies
PROTECTED = {
    "conversation_cache": policies.protect("conversation_cache", read=policies.owned()),
    "conversation_cache_use": policies.protect("conversation_cache_use", read=policies.owned()),
    "conversation_decisions": policies.protect("conversation_decisions", read=policies.owned()),
    "conversation_decision_changes": policies.protect("conversation_decision_changes", read=policies.part_of("conversation_decisions", "decision_id")),
    "conversation_merges": policies.protect("conversation_merges", read=policies.part_of("memory_records", "record_id")),
    "conversation_wipe_requests": policies.protect("conversation_wipe_requests", read=policies.owned()),
}


class Migration(migrations.Migration):

    replaces = [('conversation', '0001_conversations'), ('conversation', '0002_reworded_help_texts'), ('conversation', '0003_row_level_security'), ('conversation', '0004_erasure_by_origin'), ('conversation', '0005_origins_of_merged_memories')]

    initial = True

    dependencies = [
        ('memories', '0025_erasure_by_origin'),
    ]

    operations = [
        migrations.CreateModel(
            name='WipeRequest',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_by', models.CharField(max_length=254)),
                ('counts', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'conversation_wipe_requests',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='CachedAnswer',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_by', models.CharField(max_length=254)),
                ('query', models.TextField()),
                ('response', models.TextField()),
                ('entity_urns', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), blank=True, default=list, size=None)),
                ('vector', memories.models.fields.EmbeddingField(null=True)),
                ('embedding_model', models.CharField(blank=True, default='', max_length=200)),
                ('hits', models.PositiveIntegerField(default=0)),
                ('last_hit_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'cached answer',
                'db_table': 'conversation_cache',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['created_by', '-created_at'], name='cache_of_user'), models.Index(fields=['expires_at'], name='cache_expiring'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('query', 'response', config='simple'), name='cache_words')],
            },
        ),
        migrations.CreateModel(
            name='CacheUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_by', models.CharField(max_length=254)),
                ('day', models.DateField()),
                ('hits', models.PositiveIntegerField(default=0)),
                ('misses', models.PositiveIntegerField(default=0)),
            ],
            options={
                'db_table': 'conversation_cache_use',
                'constraints': [models.UniqueConstraint(fields=('created_by', 'day'), name='cache_use_once_a_day')],
            },
        ),
        migrations.CreateModel(
            name='UserDecision',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_by', models.CharField(max_length=254)),
                ('key', models.CharField(max_length=200)),
                ('value', models.TextField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'verbose_name': 'user decision',
                'db_table': 'conversation_decisions',
                'ordering': ['key'],
                'indexes': [models.Index(condition=models.Q(('expires_at__isnull', False)), fields=['expires_at'], name='decision_expiring'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('value', config='simple'), name='user_decision_words')],
                'constraints': [models.UniqueConstraint(fields=('created_by', 'key'), name='decision_once_a_key')],
            },
        ),
        migrations.CreateModel(
            name='UserDecisionChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('value', models.TextField()),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField()),
                ('decision', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='conversation.userdecision')),
            ],
            options={
                'db_table': 'conversation_decision_changes',
                'ordering': ['-valid_to'],
            },
        ),
        migrations.CreateModel(
            name='MergeProposal',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('cosine', models.FloatField()),
                ('text', models.TextField(help_text='The text of the merged memory.')),
                ('state', models.CharField(choices=[('proposed', 'Proposed'), ('accepted', 'Accepted'), ('dismissed', 'Dismissed')], default='proposed', max_length=10)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='merges', to='memories.memoryrecord')),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='merges_into', to='memories.memoryrecord')),
            ],
            options={
                'verbose_name': 'merge proposal',
                'db_table': 'conversation_merges',
                'ordering': ['-created_at'],
                'constraints': [models.UniqueConstraint(fields=('record', 'target'), name='merge_proposed_once'), models.CheckConstraint(condition=models.Q(('state__in', ['proposed', 'accepted', 'dismissed'])), name='merge_state_known')],
            },
        ),
        *(migrations.RunSQL(sql, policies.unprotect(table)) for table, sql in PROTECTED.items()),
    ]
