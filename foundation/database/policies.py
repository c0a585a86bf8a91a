"""SQL of row-level security, for migrations: policies that compare a row with the identity of the transaction.

The parameters are read in subqueries, so PostgreSQL evaluates each once per statement and not once per row. Each
subquery takes some time of the planner, so there are few.
"""

from __future__ import annotations

SEES_ALL = "(SELECT current_setting('commonplace.sees_all', true) = 'on')"
EMAIL = "(SELECT nullif(current_setting('commonplace.email', true), ''))"
SHARED = "((SELECT string_to_array(current_setting('commonplace.shared', true), chr(31)))::text[])"
CURATES = "((SELECT string_to_array(current_setting('commonplace.curates', true), chr(31)))::text[])"

# FORCE: the owner of the table is subject to the policies, too.
ENABLE = """
    ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
"""
POLICY = "CREATE POLICY {name} ON {table} FOR {command} {clauses};\n"
DISABLE = """
    ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;
    ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;
"""


def readable(owner: str = "created_by", persona: str = "persona", visibility: str = "visibility") -> str:
    """Return the condition of `readable_by` for people other than admins. The arguments are the names of columns."""
    shared_with = f"CASE {visibility} WHEN 'persona' THEN {persona} WHEN 'everyone' THEN '*' END"
    return f"({owner} = {EMAIL} OR {shared_with} = ANY {SHARED})"


def owned(column: str = "created_by") -> str:
    return f"({column} = {EMAIL})"


def part_of(table: str, column: str, key: str = "id") -> str:
    """Return the condition that the identity may read the row of another table that this row belongs to."""
    return f"(EXISTS (SELECT 1 FROM {table} whole WHERE whole.{key} = {column}))"  # noqa: S608 - names in migrations


def readable_state() -> str:
    """Return the condition that the identity may read the memory of a revision now and could read it in its state."""
    rule = readable("whole.created_by", "whole.persona", "memory_revisions.visibility")
    rule = f"({rule} OR whole.persona = ANY {CURATES})"
    return f"(EXISTS (SELECT 1 FROM memory_records whole WHERE whole.id = record_id AND {rule}))"  # noqa: S608


def protect(table: str, *, read: str, write: str = "", insert: str = "", delete: str = "") -> str:
    """Return SQL that restricts a table to the rows that the identity may read, update, insert and delete.

    `write` is the condition for all changes if no other is given; it defaults to `read`.
    """
    write = write or read
    return ENABLE.format(table=table) + "".join(
        POLICY.format(name=name, table=table, command=command, clauses=clauses)
        for name, command, clauses in (
            ("reading", "SELECT", f"USING ({SEES_ALL} OR {read})"),
            ("changing", "UPDATE", f"USING ({SEES_ALL} OR {write})"),
            ("inserting", "INSERT", f"WITH CHECK ({SEES_ALL} OR {insert or write})"),
            ("deleting", "DELETE", f"USING ({SEES_ALL} OR {delete or write})"),
        )
    )


def unprotect(table: str) -> str:
    drops = "".join(f"DROP POLICY {name} ON {table};\n" for name in ("reading", "changing", "inserting", "deleting"))
    return drops + DISABLE.format(table=table)


# Copies of a memory's owner, persona and visibility in the rows of a table that belong to it. They are set when a row
# is inserted, and when the memory changes.
SCOPE_FUNCTIONS = """
    CREATE FUNCTION copy_scope() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        SELECT created_by, persona, visibility INTO NEW.owner, NEW.persona, NEW.visibility
        FROM memory_records WHERE id = NEW.record_id;
        RETURN NEW;
    END $$;
    CREATE FUNCTION spread_scope() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('UPDATE %I SET owner = $1, persona = $2, visibility = $3 WHERE record_id = $4', TG_ARGV[0])
        USING NEW.created_by, NEW.persona, NEW.visibility, NEW.id;
        RETURN NULL;
    END $$;
"""
NO_SCOPE_FUNCTIONS = "DROP FUNCTION spread_scope; DROP FUNCTION copy_scope;"


def copy_scope(table: str) -> str:
    return f"""
        CREATE TRIGGER copy_scope BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION copy_scope();
        CREATE TRIGGER spread_scope_to_{table} AFTER UPDATE ON memory_records FOR EACH ROW
            WHEN ((OLD.created_by, OLD.persona, OLD.visibility)
                IS DISTINCT FROM (NEW.created_by, NEW.persona, NEW.visibility))
            EXECUTE FUNCTION spread_scope('{table}');
    """


def no_copy_scope(table: str) -> str:
    return f"""
        DROP TRIGGER copy_scope ON {table};
        DROP TRIGGER spread_scope_to_{table} ON memory_records;
    """


def fill_scope(table: str) -> str:
    return f"""
        UPDATE {table} SET owner = memory.created_by, persona = memory.persona, visibility = memory.visibility
        FROM memory_records memory WHERE memory.id = {table}.record_id;
    """  # noqa: S608 - names in migrations
