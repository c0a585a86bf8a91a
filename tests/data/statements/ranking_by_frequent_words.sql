WITH question AS MATERIALIZED (SELECT %(vector)s::vector AS vector),
searched AS MATERIALIZED (SELECT id, (CASE WHEN search @@ %(term0)s::tsquery THEN 1 ELSE 0 END + CASE WHEN search @@ %(term1)s::tsquery THEN 2 ELSE 0 END)::bigint AS mask FROM memory_records WHERE (("memory_records"."created_by" = %(searched0)s OR ("memory_records"."persona" IN (%(searched1)s) AND "memory_records"."visibility" = %(searched2)s) OR "memory_records"."visibility" = %(searched3)s) AND "memory_records"."status" IN (%(searched4)s) AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = %(searched5)s)) AND search @@ %(selective)s::tsquery LIMIT 2000),
masks AS MATERIALIZED (SELECT mask, count(*) AS rows FROM searched GROUP BY mask),
counts AS (SELECT greatest(%(rows)s, sum(rows))::float8 AS total, %(rows)s * (coalesce(sum(rows) FILTER (WHERE mask & 1 <> 0), 0) + 1) / (coalesce(sum(rows), 0) + 2) AS n0, %(rows)s * (coalesce(sum(rows) FILTER (WHERE mask & 2 <> 0), 0) + 1) / (coalesce(sum(rows), 0) + 2) AS n1 FROM masks),
weights AS (SELECT %(idf0)s::float8 AS i0, %(idf1)s::float8 AS i1 FROM counts),
shares AS MATERIALIZED (SELECT *, i0 / (i0 + i1) AS s0, i1 / (i0 + i1) AS s1 FROM weights),
coverages AS MATERIALIZED (SELECT mask, rows, (CASE WHEN mask & 1 <> 0 THEN s0 ELSE 0 END + CASE WHEN mask & 2 <> 0 THEN s1 ELSE 0 END)::float8 AS coverage FROM masks, shares),
candidates AS MATERIALIZED (SELECT DISTINCT record_id AS id FROM ((SELECT id FROM (
    SELECT id FROM searched JOIN coverages USING (mask) WHERE mask = ANY(ARRAY(
        SELECT mask FROM (
            SELECT mask, coalesce(sum(rows) OVER (
                ORDER BY coverage DESC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
            ), 0) AS rows_before FROM coverages WHERE mask <> 0
        ) best WHERE rows_before < %(candidates)s
    )) ORDER BY coverage DESC, id LIMIT %(candidates)s
) covering)) arms(record_id)),
scored AS MATERIALIZED (
    SELECT id, created_at, conversation_id, thread_position,
           NULL::float8 AS cosine, ( 0)::float8 AS bonus, CASE WHEN search @@ %(words)s::tsquery THEN CASE WHEN search @@ %(term0)s::tsquery THEN 1 ELSE 0 END + CASE WHEN search @@ %(term1)s::tsquery THEN 2 ELSE 0 END ELSE 0::bigint END AS mask
    FROM memory_records WHERE id = ANY(ARRAY(SELECT id FROM candidates))
)
SELECT scored.id, scored.created_at, conversation_id, thread_position, cosine, (CASE WHEN mask & 1 <> 0 THEN s0 ELSE 0 END + CASE WHEN mask & 2 <> 0 THEN s1 ELSE 0 END)::float8 AS coverage, bonus,
       %(w_semantic)s * coalesce(cosine, 0) + %(w_lexical)s * (CASE WHEN mask & 1 <> 0 THEN s0 ELSE 0 END + CASE WHEN mask & 2 <> 0 THEN s1 ELSE 0 END)::float8 + bonus + 0::float8 AS score, ARRAY[i0, i1]::float8[]
FROM scored CROSS JOIN shares ORDER BY score DESC, created_at DESC, scored.id LIMIT %(limit)s
