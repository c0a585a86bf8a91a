"""Counts of search terms by the people who may read the memories. They are derived: a task fills the new table."""

from __future__ import annotations

from django.db import migrations, models

from foundation.database import policies

READABLE = f"""(
    owner = {policies.EMAIL}
    OR owner = '' AND (CASE persona WHEN '' THEN '*' ELSE persona END) = ANY {policies.SHARED})"""


class Migration(migrations.Migration):
    dependencies = [("memories", "0023_verifications")]

    operations = [
        migrations.DeleteModel(name="Lexeme"),
        migrations.CreateModel(
            name="Lexeme",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("lexeme", models.TextField()),
                (
                    "owner",
                    models.CharField(
                        help_text="Owner of the private memories that are counted, or empty.", max_length=254
                    ),
                ),
                (
                    "persona",
                    models.CharField(
                        help_text="Persona with which the counted memories are shared, or empty. Both empty: everyone.",
                        max_length=60,
                    ),
                ),
                ("rough", models.BooleanField(help_text="Whether this is the rough count of all shared memories.")),
                ("documents", models.PositiveIntegerField(help_text="Number of memories that contain the term.")),
            ],
            options={"db_table": "memory_lexemes"},
        ),
        migrations.AddConstraint(
            model_name="lexeme",
            constraint=models.UniqueConstraint(
                fields=("lexeme", "owner", "persona", "rough"), name="lexeme_once_for_its_readers"
            ),
        ),
        migrations.RunSQL(
            policies.protect("memory_lexemes", read=READABLE, write="false"), policies.unprotect("memory_lexemes")
        ),
    ]
