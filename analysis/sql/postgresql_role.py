"""Privileges of the role with which a PostgreSQL source connects. A role that may do more than read is refused.

A read-only transaction doesn't replace this check: it neither keeps a superuser from reading the server's files, nor
protects what a function of the server can be made to do.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

from analysis.sql.declaration import SqlSource
from foundation.operations.errors import Degraded

VALID_S = 60.0  # seconds for which a check is valid, since privileges can change
SHOWN = 4  # maximum number of privileges that a message names

# What the role, or a role that it can become, may do beside reading; and the statement that ends it. The most dangerous
# come first. An access-control list names 0 as the grantee of what everybody may do.
EXCESS = """
    WITH roles AS (SELECT * FROM pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER')),
    grantees AS (SELECT oid, quote_ident(rolname) AS name FROM roles UNION ALL SELECT 0, 'PUBLIC'),
    relations AS (
        SELECT c.oid, c.relacl, c.relowner, format('%I.%I', n.nspname, c.relname) AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    ),
    granted AS (
        SELECT r.name AS relation, a.grantee, a.privilege_type FROM relations r, aclexplode(r.relacl) a
        UNION ALL
        SELECT r.name, a.grantee, a.privilege_type
        FROM relations r JOIN pg_attribute t ON t.attrelid = r.oid, aclexplode(t.attacl) a
    ),
    excess (rank, what, remedy) AS (
        SELECT 1, 'is a superuser', '' FROM roles WHERE rolsuper
        UNION ALL
        SELECT 2, 'may create ' || what, ''
        FROM roles, LATERAL (VALUES (rolcreaterole, 'roles'), (rolcreatedb, 'databases'),
            (rolreplication, 'replication connections')) AS flags (is_set, what)
        WHERE is_set
        UNION ALL
        SELECT 3, 'is a member of ' || rolname, format('REVOKE %I FROM %I', rolname, session_user)
        FROM roles WHERE rolname IN (
            'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_write_all_data',
            'pg_maintain', 'pg_signal_backend', 'pg_checkpoint', 'pg_create_subscription', 'pg_read_all_settings'
        )
        UNION ALL
        SELECT 4, 'owns ' || r.name, format('ALTER TABLE %s OWNER TO another_role', r.name)
        FROM relations r JOIN roles ON roles.oid = r.relowner
        UNION ALL
        SELECT 5, format('may %s %s', string_agg(DISTINCT privilege_type, ', '), relation),
            format('REVOKE %s ON %s FROM %s', string_agg(DISTINCT privilege_type, ', '), relation, g.name)
        FROM granted JOIN grantees g ON g.oid = grantee
        WHERE privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') GROUP BY relation, g.name
        UNION ALL
        SELECT 6, format('may create tables in the schema %I', nspname),
            format('REVOKE CREATE ON SCHEMA %I FROM %s', nspname, g.name)
        FROM pg_namespace n, aclexplode(n.nspacl) a JOIN grantees g ON g.oid = a.grantee
        WHERE a.privilege_type = 'CREATE' AND nspname !~ '^pg_'
        UNION ALL
        SELECT 6, format('owns the schema %I', nspname), format('ALTER SCHEMA %I OWNER TO another_role', nspname)
        FROM pg_namespace n JOIN roles ON roles.oid = n.nspowner WHERE nspname !~ '^pg_'
        UNION ALL
        SELECT 7, format('may create schemas in the database %I', current_database()),
            format('REVOKE CREATE ON DATABASE %I FROM %I', current_database(), session_user)
        WHERE has_database_privilege(session_user, current_database(), 'CREATE')
    )
    SELECT session_user, current_database(), what, remedy FROM excess ORDER BY rank, what
"""
READER = (
    "CREATE ROLE {role} LOGIN PASSWORD '…'; GRANT CONNECT ON DATABASE {database} TO {role}; "
    "GRANT USAGE ON SCHEMA … TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA … TO {role}"
)

_checked: dict[str, float] = {}  # when a connection string was last checked, by its hash


class RoleRefused(Degraded):
    """The role of a source may do more than read."""


def check_role(source: SqlSource, connection: Any) -> None:
    """Raise RoleRefused if the connection's role, or a role that it can become, may do more than read."""
    key = hashlib.sha256(source.secret(source.dsn_env).encode()).hexdigest()
    if time.monotonic() - _checked.get(key, -VALID_S) < VALID_S:
        return
    rows = connection.execute(EXCESS).fetchall()
    connection.rollback()
    if rows:
        raise RoleRefused(_message(source, rows))
    _checked[key] = time.monotonic()


def _message(source: SqlSource, rows: list[tuple[str, str, str, str]]) -> str:
    role, database = rows[0][:2]
    faults = [what for _, _, what, _ in rows]
    remedies = list(dict.fromkeys(remedy for _, _, _, remedy in rows if remedy))
    # A role that has too much in many places is replaced, and one with a few privileges too many is corrected.
    is_correctable = len(remedies) == len(rows) <= SHOWN
    remedy = "; ".join(remedies) if is_correctable else READER.format(role="commonplace_reader", database=database)
    more = f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return (
        f"{source.name}.dsn_env: the role {role} may do more than read: it {', '.join(faults[:SHOWN])}{more}; "
        f"allowed: a role that may only SELECT. {'Run' if is_correctable else 'Create one with'}: {remedy}"
    )
