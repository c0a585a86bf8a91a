"""Messages about changes of the rows that callers are built from (memory_project/mcp/caller_cache.py).

Triggers send them, so that a change by hand in SQL is noticed like one by a service.
"""

from __future__ import annotations

from django.db import migrations

TABLES = {  # table → columns whose changes do not matter, because they are written all the time
    "memory_project_user": "last_login",
    "memory_project_user_groups": "",
    "memory_project_user_user_permissions": "",
    "memory_project_apitoken": "last_used_at",
    "connected_apps": "last_used_at",
    "oauth2_provider_accesstoken": "",
    "oauth2_provider_refreshtoken": "",
    "auth_permission": "",
    "auth_group_permissions": "",
    "memories_persona": "",
    "memories_personamembership": "",
}
FUNCTION = """
    CREATE FUNCTION tell_access_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF to_jsonb(OLD) - TG_ARGV[0] = to_jsonb(NEW) - TG_ARGV[0] THEN
                RETURN NULL;
            END IF;
        END IF;
        PERFORM pg_notify('caller_access', '');
        RETURN NULL;
    END $$;"""
TRIGGERS = "".join(
    f"""
    CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION tell_access_changed('{column}');
    CREATE TRIGGER access_emptied AFTER TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION tell_access_changed();"""
    for table, column in TABLES.items()
)
DROPPED = "".join(
    f"DROP TRIGGER access_changed ON {table}; DROP TRIGGER access_emptied ON {table};" for table in TABLES
)


class Migration(migrations.Migration):

    dependencies = [
        ("memory_project", "0017_machines"),
        ('memories', '0035_unsettled_entities'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('oauth2_provider', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(FUNCTION + TRIGGERS, DROPPED + "DROP FUNCTION tell_access_changed();"),
    ]
