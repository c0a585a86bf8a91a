"""Row-level security: an analysis belongs to one owner."""

from __future__ import annotations

from django.db import migrations

from foundation.database import policies


class Migration(migrations.Migration):

    dependencies = [
        ('analysis', '0005_page_contents'),
    ]

    operations = [
        migrations.RunSQL(
            policies.protect("analysis_sessions", read=policies.owned("owner")),
            policies.unprotect("analysis_sessions"),
        ),
        migrations.RunSQL(
            policies.protect("ingested_records", read=policies.part_of("analysis_sessions", "session_id")),
            policies.unprotect("ingested_records"),
        ),
        migrations.RunSQL(
            policies.protect("analysis_memories", read=policies.part_of("analysis_sessions", "session_id")),
            policies.unprotect("analysis_memories"),
        ),
        migrations.RunSQL(
            policies.protect("analysis_passages", read=policies.part_of("analysis_memories", "finding_id")),
            policies.unprotect("analysis_passages"),
        ),
        migrations.RunSQL(
            policies.protect("analysis_ingests", read=policies.part_of("analysis_sessions", "session_id")),
            policies.unprotect("analysis_ingests"),
        ),
        migrations.RunSQL(
            policies.protect("analysis_actions", read=policies.owned("owner")),
            policies.unprotect("analysis_actions"),
        ),
        migrations.RunSQL(
            policies.protect("analysis_action_items", read=policies.part_of("analysis_actions", "action_id")),
            policies.unprotect("analysis_action_items"),
        ),
    ]
