"""Row-level security: a graph belongs to a person or to a persona."""

from __future__ import annotations

from django.db import migrations

from foundation.database import policies

# Readers of a shared graph may not change it. The graph of a persona has no owner.
WRITER = f"({policies.owned()} OR created_by = '' AND persona = ANY {policies.SHARED})"


class Migration(migrations.Migration):

    dependencies = [
        ('graph', '0008_flags_that_wait'),
    ]

    operations = [
        migrations.RunSQL(
            policies.protect("graphs", read=policies.readable(), write=WRITER),
            policies.unprotect("graphs"),
        ),
        migrations.RunSQL(
            policies.protect("graph_entities", read=policies.part_of("graphs", "graph_id")),
            policies.unprotect("graph_entities"),
        ),
        migrations.RunSQL(
            policies.protect("graph_observations", read=policies.part_of("graphs", "graph_id")),
            policies.unprotect("graph_observations"),
        ),
        migrations.RunSQL(
            policies.protect("graph_observation_moves", read=policies.part_of("graph_observations", "observation_id")),
            policies.unprotect("graph_observation_moves"),
        ),
        migrations.RunSQL(
            policies.protect("graph_passages", read=policies.part_of("graph_observations", "observation_id")),
            policies.unprotect("graph_passages"),
        ),
        migrations.RunSQL(
            policies.protect("graph_relations", read=policies.part_of("graphs", "graph_id")),
            policies.unprotect("graph_relations"),
        ),
        migrations.RunSQL(
            policies.protect("graph_reflections", read=policies.part_of("graphs", "graph_id")),
            policies.unprotect("graph_reflections"),
        ),
        migrations.RunSQL(
            policies.protect("graph_access_days", read=policies.part_of("graph_entities", "entity_id")),
            policies.unprotect("graph_access_days"),
        ),
        migrations.RunSQL(
            policies.protect("graph_co_occurrences", read=policies.part_of("graph_entities", "first_id")),
            policies.unprotect("graph_co_occurrences"),
        ),
        migrations.RunSQL(
            policies.protect("graph_upkeep_proposals", read=policies.part_of("graph_entities", "entity_id")),
            policies.unprotect("graph_upkeep_proposals"),
        ),
    ]
