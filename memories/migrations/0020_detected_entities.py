"""Entities that are detected in the texts of memories. `manage.py link_memories` detects them in stored memories."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0019_batch_seen'),
    ]

    operations = [
        migrations.AddField(
            model_name='memoryrecord',
            name='detected_urns',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), blank=True, default=list, editable=False, size=None),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='dismissed_urns',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), blank=True, default=list, editable=False, size=None),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='entities_detected_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='memoryrecord',
            index=django.contrib.postgres.indexes.GinIndex(fields=['detected_urns'], name='memory_detected'),
        ),
        migrations.AddIndex(
            model_name='memoryrecord',
            index=models.Index(condition=models.Q(('entities_detected_at__isnull', True), models.Q(('status', 'archived'), _negated=True), models.Q(('tier', 'stm'), _negated=True)), fields=['id'], name='memory_undetected'),
        ),
    ]
