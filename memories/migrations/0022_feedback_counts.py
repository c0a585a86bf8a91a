"""Whether a mark counts for other readers. Stored marks keep the effect that they have had."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memories", "0021_row_level_security")]

    operations = [
        migrations.AddField(
            model_name="feedback",
            name="counts",
            field=models.BooleanField(default=True),
        ),
        migrations.AlterField(
            model_name="feedback",
            name="counts",
            field=models.BooleanField(
                default=False,
                help_text=(
                    "Whether it counts for other readers: its author held the memory's persona or was a curator."
                ),
            ),
        ),
    ]
