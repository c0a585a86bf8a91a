SELECT memory_records.id, CASE WHEN conversation_id <> '' THEN created_by || ' ' || conversation_id ELSE '' END,
       thread_position, created_at, lower(author), content,
       (SELECT 1 - min(p.vector <=> %(vector)s::vector) FROM memory_passages p
    WHERE p.record_id = memory_records.id AND memory_records.embedding_model = %(model)s), ARRAY[search @@ %(term0)s::tsquery, search @@ %(term1)s::tsquery]::boolean[],
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
)) AND (("memory_records"."created_by" = %(searched0)s OR ("memory_records"."persona" IN (%(searched1)s) AND "memory_records"."visibility" = %(searched2)s) OR "memory_records"."visibility" = %(searched3)s) AND "memory_records"."status" IN (%(searched4)s) AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = %(searched5)s)))
