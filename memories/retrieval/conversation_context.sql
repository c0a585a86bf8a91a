-- name: around
-- Selects the seeds and their neighbors. The ids of the neighbors are collected in an array, and OFFSET 0 makes
-- PostgreSQL look them up separately for each seed, because with a join the planner would scan the whole table.
SELECT memory_records.id, CASE WHEN conversation_id <> '' THEN created_by || ' ' || conversation_id ELSE '' END,
       thread_position, created_at, lower(author), content,
       {cosine}, ARRAY[{hits}]::boolean[],
       ARRAY(SELECT token_bits FROM memory_passages p
             WHERE p.record_id = memory_records.id AND memory_records.embedding_model = %(model)s ORDER BY start)
FROM memory_records
WHERE id = ANY(%(seeds)s) OR (id = ANY(ARRAY(
    SELECT near.id FROM unnest(%(threads)s::varchar[], %(positions)s::int[]) AS seed(thread, position)
    CROSS JOIN LATERAL (
        SELECT turn.id FROM memory_records turn
        WHERE turn.conversation_id = seed.thread AND turn.conversation_id <> ''
          AND turn.thread_position BETWEEN seed.position - %(reach)s AND seed.position + %(reach)s OFFSET 0
    ) near
)) AND {searched})

-- name: cosine
(SELECT 1 - min(p.vector <=> %(vector)s::vector) FROM memory_passages p
    WHERE p.record_id = memory_records.id AND memory_records.embedding_model = %(model)s)
