"""The time in which a memory is true, and named periods."""

from __future__ import annotations

import django.utils.timezone
from django.db import migrations, models



class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0029_reports"),
    ]

    operations = [
        migrations.CreateModel(
            name='Period',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='For example FY2026-Q3 or release-42. Memories refer to it, so it stays.', max_length=100, unique=True)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('opened_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('opened_by', models.CharField(max_length=254)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('ended_by', models.CharField(blank=True, max_length=254)),
            ],
            options={
                'verbose_name': 'period',
                'verbose_name_plural': 'periods',
                'db_table': 'memory_periods',
                'ordering': ['-opened_at', 'name'],
            },
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='condition_ended_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='valid_from',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='valid_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='valid_while',
            field=models.CharField(blank=True, default='', help_text='incident:<URN>, deprecated:<URN> or period:<name>. Empty if there is no condition.', max_length=600),
        ),
        migrations.AddIndex(
            model_name='memoryrecord',
            index=models.Index(condition=models.Q(('valid_from__isnull', False), ('valid_until__isnull', False), ('condition_ended_at__isnull', False), _connector='OR'), fields=['valid_until'], name='memory_bounded'),
        ),
        migrations.AddIndex(
            model_name='memoryrecord',
            index=models.Index(condition=models.Q(('valid_while', ''), _negated=True), fields=['valid_while'], name='memory_conditions'),
        ),
        migrations.AddConstraint(
            model_name='memoryrecord',
            constraint=models.CheckConstraint(condition=models.Q(('valid_from__isnull', True), ('valid_until__isnull', True), ('valid_until__gt', models.F('valid_from')), _connector='OR'), name='memory_valid_until_after_from'),
        ),
        migrations.AddConstraint(
            model_name='memoryrecord',
            constraint=models.CheckConstraint(condition=models.Q(('condition_ended_at__isnull', True), models.Q(('valid_while', ''), _negated=True), _connector='OR'), name='memory_ended_condition_is_known'),
        ),
    ]
