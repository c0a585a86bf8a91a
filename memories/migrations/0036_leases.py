from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0035_unsettled_entities"),
    ]

    operations = [
        migrations.CreateModel(
            name='Lease',
            fields=[
                ('name', models.CharField(max_length=120, primary_key=True, serialize=False)),
                ('token', models.UUIDField(unique=True)),
                ('has_session', models.BooleanField()),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'leases',
            },
        ),
    ]
