"""Where a memory holds, and the purposes that admins keep."""

from __future__ import annotations

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0030_validity"),
    ]

    operations = [
        migrations.CreateModel(
            name='Purpose',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Short and stable, because memories refer to it. Lower-case letters, digits, - and _.', max_length=60, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_-]*$', 'lower-case letters, digits, - and _ only')])),
                ('title', models.CharField(blank=True, help_text='The name shown to people, for example “Board reporting”.', max_length=120)),
            ],
            options={
                'db_table': 'memory_purposes',
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='memoryrecord',
            name='scope',
            field=models.CharField(blank=True, default='', help_text='Where it holds: persona:NAME, domain:URN or purpose:NAME. Empty: everywhere.', max_length=520),
        ),
    ]
