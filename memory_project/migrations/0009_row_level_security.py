"""Row-level security: notices and saved views belong to one person."""

from __future__ import annotations

from django.db import migrations

from foundation.database import policies

MINE = f"(person_id = (SELECT id FROM memory_project_user WHERE email = {policies.EMAIL}))"


class Migration(migrations.Migration):

    dependencies = [
        ('memory_project', '0008_reworded_help_texts'),
    ]

    operations = [
        migrations.RunSQL(policies.protect("notifications", read=MINE), policies.unprotect("notifications")),
        migrations.RunSQL(policies.protect("saved_views", read=MINE), policies.unprotect("saved_views")),
    ]
