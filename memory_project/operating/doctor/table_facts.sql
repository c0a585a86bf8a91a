-- name: tables
WITH late AS (
    SELECT count(*) AS schedules FROM django_q_schedule
    WHERE repeats <> %(paused)s AND next_run < now() - %(late)s
), sample AS MATERIALIZED (
    -- the rows that are read first are mostly the oldest ones, which a change of the model leaves behind
    SELECT embedding_model, language FROM memory_records LIMIT %(sample)s
), vectors AS (
    SELECT embedding_model AS model, count(*) AS number FROM sample WHERE embedding_model <> '' GROUP BY 1
), languages AS (
    SELECT count(*) AS known, count(*) FILTER (WHERE language <> 'en') AS others FROM sample WHERE language <> ''
), trial AS (
    SELECT path, verification_problem AS problem, extract(epoch FROM now() - verified_at)::float AS age_s
    FROM backups WHERE verified_at IS NOT NULL ORDER BY verified_at DESC LIMIT 1
)
SELECT
    (SELECT schedules FROM late) AS overdue,
    (SELECT extract(epoch FROM now() - max(stopped))::float FROM django_q_task) AS idle_s,
    (SELECT count(*) FROM django_q_ormq) AS queued,
    (SELECT extract(epoch FROM now() - min(lock))::float FROM django_q_ormq WHERE lock < now()) AS waiting_s,
    (SELECT count(*) FROM unreadable_tasks mark JOIN django_q_ormq task ON task.id = mark.task) AS unreadable,
    (SELECT count(*) FROM django_q_task WHERE NOT success AND stopped > now() - interval '1 day') AS failed,
    (SELECT count(*) FROM index_jobs WHERE status = 'failed' AND resolved_at IS NULL) AS failed_jobs,
    (SELECT count(*) FROM index_jobs
        WHERE status = 'pending' AND next_run_at < now() - interval '30 minutes') AS late_jobs,
    (SELECT count(*) FROM jobs WHERE ended_at IS NULL) AS jobs,
    (SELECT extract(epoch FROM now() - min(coalesce(turn_at, due_at)))::float FROM jobs
        WHERE ended_at IS NULL AND due_at < now()) AS job_wait_s,
    (SELECT count(*) FROM jobs WHERE ended_at IS NULL AND defects > 0) AS defective_jobs,
    (SELECT coalesce(jsonb_object_agg(model, number), '{}') FROM vectors) AS vectors,
    (SELECT known FROM languages) AS known_languages,
    (SELECT others FROM languages) AS other_languages,
    (SELECT value FROM catalog_cursors WHERE name = %(watcher)s) AS catalog_problem,
    (SELECT value FROM installation_facts WHERE name = %(key)s) AS key_fingerprint,
    ARRAY(SELECT substr(name, 1 + length(%(files)s)) FROM installation_facts
        WHERE starts_with(name, %(files)s) AND changed_at >= now() - %(files_known)s AND %(folder)s <> '' AND value <> %(folder)s
        ORDER BY 1) AS other_folders,
    ARRAY(SELECT substr(name, 1 + length(%(model)s)) FROM installation_facts
        WHERE starts_with(name, %(model)s) AND changed_at >= now() - %(machines_known)s
            AND %(own_model)s <> '' AND value <> %(own_model)s
        ORDER BY 1) AS other_models,
    (SELECT coalesce(jsonb_object_agg(substr(name, 1 + length(%(clock)s)), value::float), '{}')
        FROM installation_facts
        WHERE starts_with(name, %(clock)s) AND changed_at >= now() - %(machines_known)s) AS clocks,
    coalesce((SELECT value::jsonb FROM installation_facts WHERE name = %(disk)s), '[]') AS disk_readings,
    coalesce((SELECT value::jsonb FROM installation_facts WHERE name = %(queue)s), '[]') AS queue_readings,
    ARRAY(SELECT name FROM gateway_status
        -- one that was taken out of the declarations is asked no more
        WHERE failed_at > now() - %(failures_known)s AND (reached_at IS NULL OR failed_at > reached_at)
        ORDER BY 1) AS failing_upstreams,
    ARRAY(SELECT name FROM analysis_source_checks
        WHERE error <> '' AND failed_at > now() - %(failures_known)s ORDER BY 1) AS failing_sources,
    (SELECT extract(epoch FROM now() - max(created_at))::float FROM backups
        WHERE problem = '' AND deleted_at IS NULL) AS backup_age_s,
    coalesce((SELECT problem FROM backups WHERE is_scheduled ORDER BY created_at DESC LIMIT 1), '') AS backup_problem,
    ARRAY(SELECT DISTINCT path FROM backups
        WHERE problem = '' AND deleted_at IS NULL AND host = %(host)s) AS backups_here,
    coalesce((SELECT path FROM trial), '') AS tried_backup,
    coalesce((SELECT problem FROM trial), '') AS trial_problem,
    (SELECT age_s FROM trial) AS trial_age_s,
    (SELECT jsonb_object_agg(name, current_setting(name, true))
        FROM unnest(%(search)s::text[]) name) AS search_settings
