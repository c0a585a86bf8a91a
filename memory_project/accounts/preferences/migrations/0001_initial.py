"""Settings of pages that belong to one person."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from foundation.database import policies

MINE = f"(person_id = (SELECT id FROM memory_project_user WHERE email = {policies.EMAIL}))"


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Preference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=100)),
                ('value', models.JSONField()),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='preferences', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'preferences',
                'constraints': [models.UniqueConstraint(fields=('person', 'key'), name='preference_once_a_person')],
            },
        ),
        migrations.RunSQL(policies.protect("preferences", read=MINE), policies.unprotect("preferences")),
    ]
