"""The persona of those who were given none: there has to be exactly one."""

from django.db import migrations


def create(apps, schema_editor):
    apps.get_model("memories", "Persona").objects.get_or_create(
        is_default=True, defaults={"name": "analyst", "title": "Analysts", "tools_allow": ["*"]}
    )


class Migration(migrations.Migration):
    dependencies = [("memories", "0001_initial")]
    # Going back leaves the persona: memories may carry its name by then, and 0001 drops the table anyway.
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
