WITH question AS MATERIALIZED (SELECT %(vector)s::vector AS vector),
searched AS MATERIALIZED (SELECT id, (CASE WHEN search @@ %(term0)s::tsquery THEN 1 ELSE 0 END + CASE WHEN search @@ %(term1)s::tsquery THEN 2 ELSE 0 END)::bigint AS mask FROM (SELECT * FROM memory_records WHERE search @@ %(selective)s::tsquery OFFSET 0) AS memory_records WHERE (("memory_records"."created_by" = %(searched0)s OR ("memory_records"."persona" IN (%(searched1)s) AND "memory_records"."visibility" = %(searched2)s) OR "memory_records"."visibility" = %(searched3)s) AND "memory_records"."status" IN (%(searched4)s) AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = %(searched5)s)) AND search @@ %(selective)s::tsquery LIMIT 2000),
masks AS MATERIALIZED (SELECT mask, count(*) AS rows FROM searched GROUP BY mask),
counts AS (SELECT greatest(%(rows)s, sum(rows))::float8 AS total, coalesce(sum(rows) FILTER (WHERE mask & 1 <> 0), 0) AS n0, %(rows)s * (coalesce(sum(rows) FILTER (WHERE mask & 2 <> 0), 0) + 1) / (coalesce(sum(rows), 0) + 2) AS n1 FROM masks),
weights AS (SELECT ln(1 + (total - n0 + 0.5) / (n0 + 0.5)) AS i0, ln(1 + (total - n1 + 0.5) / (n1 + 0.5)) AS i1 FROM counts),
shares AS MATERIALIZED (SELECT *, i0 / (i0 + i1) AS s0, i1 / (i0 + i1) AS s1 FROM weights),
coverages AS MATERIALIZED (SELECT mask, rows, (CASE WHEN mask & 1 <> 0 THEN s0 ELSE 0 END + CASE WHEN mask & 2 <> 0 THEN s1 ELSE 0 END)::float8 AS coverage FROM masks, shares),
candidates AS MATERIALIZED (SELECT DISTINCT record_id AS id FROM ((SELECT record_id FROM (
    SELECT p.record_id, p.vector::halfvec(384) <=> (SELECT vector FROM question)::halfvec(384) AS distance
    FROM memory_passages p WHERE NOT p.short_term AND EXISTS (
        SELECT FROM memory_records WHERE memory_records.id = p.record_id AND (("memory_records"."created_by" = %(searched0)s OR ("memory_records"."persona" IN (%(searched1)s) AND "memory_records"."visibility" = %(searched2)s) OR "memory_records"."visibility" = %(searched3)s) AND "memory_records"."status" IN (%(searched4)s) AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = %(searched5)s)) OFFSET 0
    ) ORDER BY distance LIMIT %(passages)s
) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s) UNION ALL (SELECT id FROM (
    SELECT id FROM searched JOIN coverages USING (mask) WHERE mask = ANY(ARRAY(
        SELECT mask FROM (
            SELECT mask, coalesce(sum(rows) OVER (
                ORDER BY coverage DESC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
            ), 0) AS rows_before FROM coverages WHERE mask <> 0
        ) best WHERE rows_before < %(candidates)s
    )) ORDER BY coverage DESC, id LIMIT %(candidates)s
) covering) UNION ALL (SELECT id FROM (
    SELECT id FROM memory_records
    WHERE (("memory_records"."created_by" = %(searched0)s OR ("memory_records"."persona" IN (%(searched1)s) AND "memory_records"."visibility" = %(searched2)s) OR "memory_records"."visibility" = %(searched3)s) AND "memory_records"."status" IN (%(searched4)s) AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = %(searched5)s)) AND (entity_urns && %(urns)s::varchar[] OR detected_urns && %(urns)s::varchar[])
    ORDER BY created_at DESC, id LIMIT %(candidates)s
) near)) arms(record_id)),
scored AS MATERIALIZED (
    SELECT id, created_at, conversation_id, thread_position,
           (SELECT %(question_slope)s * (1 - min(p.vector <=> (SELECT vector FROM question))) FROM memory_passages p
    WHERE p.record_id = memory_records.id AND (%(model)s::text = '' OR memory_records.embedding_model = %(model)s)) AS cosine, (CASE WHEN entity_urns && %(urns0)s::varchar[] OR detected_urns && %(urns0)s::varchar[]
    THEN %(bonus0)s ELSE CASE WHEN entity_urns && %(urns1)s::varchar[] OR detected_urns && %(urns1)s::varchar[]
    THEN %(bonus1)s ELSE 0 END END)::float8 AS bonus,
    CASE WHEN lower(author) = ANY(%(names)s) THEN lower(author) END AS speaker,
    CASE WHEN thread_position IS NULL THEN 0 ELSE CASE WHEN extract(month FROM created_at AT TIME ZONE 'UTC') = %(cue_month)s THEN %(share_month)s ELSE 0 END END AS date_share, CASE WHEN search @@ %(words)s::tsquery THEN CASE WHEN search @@ %(term0)s::tsquery THEN 1 ELSE 0 END + CASE WHEN search @@ %(term1)s::tsquery THEN 2 ELSE 0 END ELSE 0::bigint END AS mask
    FROM memory_records WHERE id = ANY(ARRAY(SELECT id FROM candidates))
)
SELECT scored.id, scored.created_at, conversation_id, thread_position, cosine, (CASE WHEN mask & 1 <> 0 THEN s0 ELSE 0 END + CASE WHEN mask & 2 <> 0 THEN s1 ELSE 0 END)::float8 AS coverage, bonus,
       %(w_semantic)s * coalesce(cosine, 0) + %(w_lexical)s * (CASE WHEN mask & 1 <> 0 THEN s0 ELSE 0 END + CASE WHEN mask & 2 <> 0 THEN s1 ELSE 0 END)::float8 + bonus + (
    %(w_speaker)s * CASE WHEN speaker IS NOT NULL AND (SELECT count(DISTINCT speaker) FROM scored) = 1 THEN 1 ELSE 0 END
    + %(w_date)s * date_share)::float8 AS score, ARRAY[i0, i1]::float8[]
FROM scored CROSS JOIN shares ORDER BY score DESC, created_at DESC, scored.id LIMIT %(limit)s
