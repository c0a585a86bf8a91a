"""Triggers that note transactions which change or remove what people read."""

from __future__ import annotations

from django.db import migrations

# One row a transaction, however many rows it changes.
FUNCTION = """
    CREATE FUNCTION note_replica_barrier() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO replica_barriers (xact, at) VALUES (pg_current_xact_id()::text::bigint, now())
        ON CONFLICT (xact, at) DO NOTHING;
        RETURN NULL;
    END $$;
"""
# Other columns hold what is derived, or counted.
CHANGES = {
    "memory_records": (
        "created_by", "persona", "visibility", "status", "content", "summary", "valid_until", "superseded_by",
    ),
    "insights": ("state",),
    "graphs": ("created_by", "persona", "visibility"),
    "graph_entities": ("name", "status", "deleted_at"),
    "graph_observations": ("text", "ended_at", "superseded_at"),
    "analysis_memories": ("finding",),
}  # fmt: skip
DELETIONS = (
    "memory_records", "memory_revisions", "insights", "graphs", "graph_entities", "graph_observations",
    "graph_relations", "graph_reflections", "analysis_memories", "analysis_sessions", "conversation_decisions",
)  # fmt: skip


def trigger_on_change(table: str, columns: tuple[str, ...]) -> str:
    before, after = (", ".join(f"{row}.{column}" for column in columns) for row in ("OLD", "NEW"))
    return f"""
        CREATE TRIGGER replica_barrier_of_change AFTER UPDATE ON {table} FOR EACH ROW
        WHEN (({before}) IS DISTINCT FROM ({after})) EXECUTE FUNCTION note_replica_barrier();
    """


def trigger_on_deletion(table: str) -> str:
    return f"""
        CREATE TRIGGER replica_barrier_of_deletion AFTER DELETE ON {table} FOR EACH STATEMENT
        EXECUTE FUNCTION note_replica_barrier();
    """


CREATE = "".join(
    [
        FUNCTION,
        *(trigger_on_change(table, columns) for table, columns in CHANGES.items()),
        *(trigger_on_deletion(table) for table in DELETIONS),
    ]
)
DROP = "".join(
    [
        *(f"DROP TRIGGER replica_barrier_of_change ON {table};" for table in CHANGES),
        *(f"DROP TRIGGER replica_barrier_of_deletion ON {table};" for table in DELETIONS),
        "DROP FUNCTION note_replica_barrier;",
    ]
)


class Migration(migrations.Migration):
    dependencies = [
        ("replica", "0001_initial"),
        ("memories", "0035_unsettled_entities"),
        ("conversation", "0005_origins_of_merged_memories"),
        ("knowledge", "0021_contradictions"),
        ("graph", "0010_erasure_by_origin"),
        ("analysis", "0008_memory_checks"),
    ]

    operations = [migrations.RunSQL(CREATE, DROP)]
