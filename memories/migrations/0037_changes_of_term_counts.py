"""Changes of the counts of search terms, written by triggers, so that a task counts only what has changed.

And an index for the list of conversations.
"""

from __future__ import annotations

import django.contrib.postgres.search
from django.db import migrations, models

from foundation.database import policies

# Rows are written by the triggers alone, in the transaction of whoever changes the memory. Workers read and delete them.
POLICIES = policies.protect(
    "memory_lexeme_changes", read=policies.owned("owner"), write="false", insert="pg_trigger_depth() > 0"
)
# Archived memories are not counted. The update of another column writes nothing. The function compares the rows, because a
# trigger whose condition names the column `search` would be dropped when `rebuild_search` creates that column anew.
TRIGGERS = """
    CREATE FUNCTION note_lexeme_changes() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF (OLD.created_by, OLD.persona, OLD.visibility, OLD.status = 'archived', OLD.search)
                IS NOT DISTINCT FROM (NEW.created_by, NEW.persona, NEW.visibility, NEW.status = 'archived', NEW.search)
            THEN
                RETURN NULL;
            END IF;
        END IF;
        IF TG_OP <> 'INSERT' AND OLD.status <> 'archived' THEN
            INSERT INTO memory_lexeme_changes (owner, persona, visibility, search, documents)
            VALUES (OLD.created_by, OLD.persona, OLD.visibility, OLD.search, -1);
        END IF;
        IF TG_OP <> 'DELETE' AND NEW.status <> 'archived' THEN
            INSERT INTO memory_lexeme_changes (owner, persona, visibility, search, documents)
            VALUES (NEW.created_by, NEW.persona, NEW.visibility, NEW.search, 1);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_lexeme_changes AFTER INSERT OR UPDATE OR DELETE ON memory_records
        FOR EACH ROW EXECUTE FUNCTION note_lexeme_changes();
"""
NO_TRIGGERS = """
    DROP TRIGGER note_lexeme_changes ON memory_records;
    DROP FUNCTION note_lexeme_changes;
"""


class Migration(migrations.Migration):
    dependencies = [("memories", "0036_leases")]

    operations = [
        migrations.AddField(
            model_name="lexeme",
            name="people",
            field=models.PositiveIntegerField(
                help_text="Of a rough count: how many people use the term at least.", null=True
            ),
        ),
        migrations.CreateModel(
            name="LexemeChange",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("owner", models.CharField(max_length=254)),
                ("persona", models.CharField(max_length=60)),
                ("visibility", models.CharField(max_length=10)),
                ("search", django.contrib.postgres.search.SearchVectorField()),
                (
                    "documents",
                    models.SmallIntegerField(help_text="1 if the memory is added, -1 if it is removed."),
                ),
            ],
            options={"db_table": "memory_lexeme_changes"},
        ),
        migrations.RunSQL(POLICIES, policies.unprotect("memory_lexeme_changes")),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
        migrations.AddIndex(
            model_name="memoryrecord",
            index=models.Index(
                condition=models.Q(("tier", ""), _negated=True), fields=["-created_at"], name="memory_turns_newest"
            ),
        ),
    ]
