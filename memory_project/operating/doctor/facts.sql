-- name: facts
WITH ours AS (
    SELECT oid, relname::text AS name FROM pg_class
    WHERE relnamespace = to_regnamespace('public') AND relkind IN ('r', 'p') AND relname = ANY(%(tables)s)
), missing AS (
    SELECT name || ' (' || concat_ws(', ',
        CASE WHEN NOT has_table_privilege(oid, 'SELECT') THEN 'SELECT' END,
        CASE WHEN NOT has_table_privilege(oid, 'INSERT') THEN 'INSERT' END,
        CASE WHEN NOT has_table_privilege(oid, 'UPDATE') THEN 'UPDATE' END,
        CASE WHEN NOT has_table_privilege(oid, 'DELETE') THEN 'DELETE' END) || ')' AS name
    FROM ours
    WHERE NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
    UNION ALL
    -- the planner may ask for the privilege before it has dropped other kinds of relations
    SELECT relname || ' (USAGE)' FROM pg_class
    WHERE relnamespace = to_regnamespace('public')
        AND CASE WHEN relkind = 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') ELSE false END
), extension AS (
    SELECT default_version, installed_version FROM pg_available_extensions WHERE name = 'vector'
), role AS (
    SELECT rolname, rolsuper, rolbypassrls, rolconnlimit FROM pg_roles WHERE rolname = current_user
)
SELECT
    current_setting('server_version_num')::int AS server_version,
    current_user::text AS role,
    (SELECT default_version FROM extension) AS vector_available,
    (SELECT installed_version FROM extension) AS vector_installed,
    has_database_privilege(current_database(), 'CREATE') AS may_create,
    (SELECT rolsuper FROM role) AS is_superuser,
    (SELECT rolsuper OR rolbypassrls FROM role) AS bypasses_policies,
    EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = 'public' AND tableowner = current_user) AS owns_tables,
    ARRAY(SELECT DISTINCT relname::text FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
        WHERE NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1) AS unprotected,
    ARRAY(SELECT name FROM missing ORDER BY name) AS missing_grants,
    ARRAY(SELECT cfgname::text FROM pg_ts_config) AS search_configurations,
    ARRAY(SELECT relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = to_regnamespace('public') AND NOT (indisvalid AND indisready)
        AND NOT EXISTS (SELECT 1 FROM pg_locks
            WHERE relation = indrelid AND mode = 'ShareUpdateExclusiveLock' AND granted)
        ORDER BY 1) AS invalid_indexes,
    pg_is_in_recovery() AS is_replica,
    current_setting('transaction_read_only') = 'on' AS is_read_only,
    pg_backend_pid() AS backend,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) AS connections,
    (SELECT rolconnlimit FROM role) AS role_limit,
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database_limit,
    (SELECT coalesce(sum(numbackends), 0)::int FROM pg_stat_database)
        - (SELECT count(*)::int FROM pg_stat_activity WHERE usename = current_user) AS used_by_others,
    clock_timestamp() AS clock
