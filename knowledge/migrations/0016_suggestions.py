"""The inbox of suggestions. Its rows are readable by their owner alone."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models

from foundation.database import policies


class Migration(migrations.Migration):

    dependencies = [
        ('knowledge', '0015_catalog_entities'),
        ('memories', '0028_source_keys'),
    ]

    operations = [
        migrations.CreateModel(
            name='Suggestion',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner', models.CharField(max_length=254)),
                ('kind', models.CharField(choices=[('decision', 'Decision'), ('correction', 'Correction'), ('failed_statement', 'Repaired statement'), ('open_question', 'Question without an answer')], max_length=20)),
                ('text', models.CharField(max_length=500)),
                ('evidence', models.CharField(blank=True, help_text='Where it was found.', max_length=500)),
                ('entities', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), default=list, help_text='Names, as in the session.', size=None)),
                ('source', models.CharField(choices=[('hook', 'Session of an agent'), ('conversation', 'Conversation'), ('recalls', 'Repeated questions')], max_length=12)),
                ('program', models.CharField(blank=True, max_length=40)),
                ('repository', models.CharField(blank=True, max_length=200)),
                ('session', models.CharField(blank=True, help_text='The last one it was found in.', max_length=200)),
                ('text_key', models.CharField(editable=False, max_length=64)),
                ('times_seen', models.PositiveIntegerField(default=1, help_text='Sessions it was found in.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('kept', 'Kept'), ('discarded', 'Discarded'), ('never', 'Never again')], default='waiting', max_length=10)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, help_text='Empty: it stays.', null=True)),
                ('stored_new', models.BooleanField(default=False, help_text='Whether keeping it stored the memory.')),
                ('record', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memories.memoryrecord', verbose_name='memory')),
            ],
            options={
                'db_table': 'suggestions',
                'ordering': ['-created_at'],
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['owner', '-created_at'], name='suggestion_waiting'), models.Index(fields=['expires_at'], name='suggestion_expiry')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'text_key'), name='suggestion_once_a_person')],
            },
        ),
        migrations.RunSQL(policies.protect("suggestions", read=policies.owned("owner")), policies.unprotect("suggestions")),
    ]
