"""Row-level security: conversations belong to one owner."""

from __future__ import annotations

from django.db import migrations

from foundation.database import policies


class Migration(migrations.Migration):

    dependencies = [
        ('conversation', '0002_reworded_help_texts'),
        ('memories', '0021_row_level_security'),
    ]

    operations = [
        migrations.RunSQL(
            policies.protect("conversation_cache", read=policies.owned()),
            policies.unprotect("conversation_cache"),
        ),
        migrations.RunSQL(
            policies.protect("conversation_cache_use", read=policies.owned()),
            policies.unprotect("conversation_cache_use"),
        ),
        migrations.RunSQL(
            policies.protect("conversation_decisions", read=policies.owned()),
            policies.unprotect("conversation_decisions"),
        ),
        migrations.RunSQL(
            policies.protect("conversation_decision_changes", read=policies.part_of("conversation_decisions", "decision_id")),
            policies.unprotect("conversation_decision_changes"),
        ),
        migrations.RunSQL(
            policies.protect("conversation_merges", read=policies.part_of("memory_records", "record_id")),
            policies.unprotect("conversation_merges"),
        ),
        migrations.RunSQL(
            policies.protect("conversation_wipe_requests", read=policies.owned()),
            policies.unprotect("conversation_wipe_requests"),
        ),
    ]
