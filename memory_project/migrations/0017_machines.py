"""What several machines with one database share."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("memory_project", "0016_recalls_without_hits"),
    ]

    operations = [
        migrations.CreateModel(
            name='InstallationFact',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('value', models.TextField()),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'installation_facts',
            },
        ),
        migrations.CreateModel(
            name='UnreadableTask',
            fields=[
                ('task', models.BigIntegerField(primary_key=True, serialize=False)),
                ('reason', models.CharField(max_length=300)),
                ('host', models.CharField(max_length=100)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'unreadable_tasks',
            },
        ),
        migrations.CreateModel(
            name='CacheEntry',
            fields=[
                ('key', models.CharField(max_length=300, primary_key=True, serialize=False)),
                ('value', models.JSONField()),
                ('expires_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'cache_entries',
                'indexes': [models.Index(fields=['expires_at'], name='cache_entries_expire')],
            },
        ),
        # a restart of a crashed server may empty the table, and writing to it costs no write-ahead log
        migrations.RunSQL('ALTER TABLE cache_entries SET UNLOGGED', migrations.RunSQL.noop),
    ]
