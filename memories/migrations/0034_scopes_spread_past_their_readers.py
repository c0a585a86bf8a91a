from django.db import migrations

# A curator may make a memory private, which takes the rows that belong to it out of their own sight. The trigger that
# copies the memory's owner, persona and visibility to these rows must reach them all the same. It writes nothing else.
# The setting is changed in the body: only a superuser may attach a setting of our own to a function.
PAST_READERS = """
    CREATE OR REPLACE FUNCTION spread_scope() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE before text := coalesce(current_setting('commonplace.sees_all', true), '');
    BEGIN
        PERFORM set_config('commonplace.sees_all', 'on', true);
        EXECUTE format('UPDATE %I SET owner = $1, persona = $2, visibility = $3 WHERE record_id = $4', TG_ARGV[0])
        USING NEW.created_by, NEW.persona, NEW.visibility, NEW.id;
        PERFORM set_config('commonplace.sees_all', before, true);
        RETURN NULL;
    END $$;
"""
TO_READERS = """
    CREATE OR REPLACE FUNCTION spread_scope() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('UPDATE %I SET owner = $1, persona = $2, visibility = $3 WHERE record_id = $4', TG_ARGV[0])
        USING NEW.created_by, NEW.persona, NEW.visibility, NEW.id;
        RETURN NULL;
    END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("memories", "0033_citations")]

    operations = [migrations.RunSQL(PAST_READERS, TO_READERS)]
