"""The owner's choice of when a memory is attached, and what its attachments led to."""

from __future__ import annotations

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0031_scopes"),
    ]

    operations = [
        migrations.AddField(
            model_name='impression',
            name='terms',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='Keyed hashes of the memory’s words that the call did not have. NULL: not counted.', null=True, size=None),
        ),
        migrations.AddField(
            model_name='impression',
            name='used_at',
            field=models.DateTimeField(help_text='When a later call on the connection first had one of these words.', null=True),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='attachment',
            field=models.CharField(choices=[('automatic', 'Automatic'), ('always', 'Always'), ('never', 'Never')], default='automatic', max_length=10),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='counted_from',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='quiet_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='memoryrecord',
            index=models.Index(condition=models.Q(('quiet_at__isnull', False)), fields=['quiet_at'], name='memory_quiet'),
        ),
        migrations.AddConstraint(
            model_name='memoryrecord',
            constraint=models.CheckConstraint(condition=models.Q(('attachment__in', ['automatic', 'always', 'never'])), name='memory_attachment_known'),
        ),
    ]
