"""Knowledge debt by entity, the calls that it is computed from, and the questions of interviews."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models

from foundation.database import policies

# A curator may read what became of the questions that the curator has asked.
ASKED = f"({policies.owned('owner')} OR {policies.owned('asked_by')})"
# Derived rows are written by a service alone.
NOBODY = "false"


class Migration(migrations.Migration):

    dependencies = [
        ("knowledge", "0018_caveats"),
        ('memories', '0029_reports'),
    ]

    operations = [
        migrations.CreateModel(
            name='EntityDebt',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(max_length=500)),
                ('persona', models.CharField(help_text='Who may read the row; * for everyone.', max_length=60)),
                ('name', models.CharField(max_length=500)),
                ('entity_type', models.CharField(blank=True, max_length=60)),
                ('domain', models.CharField(blank=True, max_length=500)),
                ('calls', models.PositiveIntegerField(default=0)),
                ('recalled', models.PositiveIntegerField(default=0)),
                ('unanswered', models.PositiveIntegerField(default=0)),
                ('memories', models.PositiveIntegerField(default=0)),
                ('stale', models.PositiveIntegerField(default=0)),
                ('stale_since', models.DateTimeField(blank=True, null=True)),
                ('contested', models.PositiveIntegerField(default=0)),
                ('questions', models.PositiveIntegerField(default=0, help_text='Open questions to authors of insights.')),
                ('no_description', models.PositiveSmallIntegerField(default=0)),
                ('answers', models.PositiveIntegerField(default=0, help_text='Answers in interviews, which halve it.')),
            ],
            options={
                'db_table': 'entity_debts',
                'indexes': [models.Index(fields=['persona', 'urn'], name='entity_debt_of_persona')],
                'constraints': [models.UniqueConstraint(fields=('urn', 'persona'), name='entity_debt_once_a_persona')],
            },
        ),
        migrations.CreateModel(
            name='EntityUse',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(max_length=500)),
                ('persona', models.CharField(help_text='The persona of the calls; * for none.', max_length=60)),
                ('owner', models.CharField(help_text='The person who called.', max_length=254)),
                ('week', models.DateField(help_text='The Monday of the week, in UTC.')),
                ('calls', models.PositiveIntegerField(default=0, help_text='Calls that named the entity.')),
                ('unanswered', models.PositiveIntegerField(default=0, help_text='Those that found no memory.')),
                ('recalled', models.PositiveIntegerField(default=0, help_text='Memories about it that were attached.')),
            ],
            options={
                'db_table': 'entity_uses',
                'indexes': [models.Index(fields=['owner', 'urn'], name='entity_use_of_person'), models.Index(fields=['week'], name='entity_use_expiry')],
                'constraints': [models.UniqueConstraint(fields=('urn', 'persona', 'owner', 'week'), name='entity_use_once_a_week')],
            },
        ),
        migrations.CreateModel(
            name='InterviewQuestion',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner', models.CharField(help_text='The person who is asked.', max_length=254)),
                ('urn', models.CharField(max_length=500)),
                ('reason', models.CharField(choices=[('contested', 'Contested'), ('unanswered', 'Nothing found'), ('stale', 'Stale'), ('no_description', 'No description')], max_length=20)),
                ('record_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), blank=True, default=list, help_text='The memories that it is about.', size=None)),
                ('since', models.DateTimeField(blank=True, help_text='Since when they are stale.', null=True)),
                ('asked_by', models.CharField(max_length=254)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('state', models.CharField(choices=[('open', 'Not answered yet'), ('answered', 'Answered'), ('skipped', 'Skipped'), ('unknown', 'Not known to this person'), ('passed', 'Passed to somebody else'), ('closed', 'No longer needed')], default='open', max_length=10)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('stored_new', models.BooleanField(default=False, help_text='Whether the answer stored the insight.')),
                ('record', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memories.memoryrecord', verbose_name='answer')),
            ],
            options={
                'db_table': 'interview_questions',
                'ordering': ['-created_at'],
                'indexes': [models.Index(condition=models.Q(('state', 'open')), fields=['owner', 'created_at'], name='interview_open'), models.Index(fields=['asked_by', '-created_at'], name='interview_asked_by'), models.Index(fields=['urn', 'reason'], name='interview_about')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'urn', 'reason'), name='interview_question_once')],
            },
        ),
        migrations.RunSQL(
            policies.protect("entity_uses", read=policies.owned("owner"), write=NOBODY),
            policies.unprotect("entity_uses"),
        ),
        migrations.RunSQL(
            policies.protect("entity_debts", read=f"(persona = ANY {policies.SHARED})", write=NOBODY),
            policies.unprotect("entity_debts"),
        ),
        migrations.RunSQL(
            policies.protect("interview_questions", read=ASKED), policies.unprotect("interview_questions")
        ),
    ]
