"""What a worker last found in checks of the installation that are too slow for a page."""


import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Examination',
            fields=[
                ('name', models.CharField(max_length=60, primary_key=True, serialize=False)),
                ('finding', models.JSONField()),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'examinations',
            },
        ),
    ]
