WITH words AS MATERIALIZED (
    SELECT uses, documents, total, ln(1 + (greatest(total - documents, 0) + 0.5) / (documents + 0.5)) AS idf,
           plainto_tsquery('simple', array_to_string(stems, ' ')) || plainto_tsquery('simple', word) AS query
    FROM unnest(%(words)s::text[], %(uses)s::int[]) AS given(word, uses)
    CROSS JOIN LATERAL (SELECT tsvector_to_array((to_tsvector('english'::regconfig, regexp_replace(normalize(word, NFKC), '[々぀-ヿ㐀-䶿一-鿿가-힣]{3,}', ' ', 'g') || ' ' || regexp_replace(regexp_replace(normalize(word, NFKC), '[々぀-ヿ㐀-䶿一-鿿가-힣]{3,}', ' ', 'g'), '([a-z0-9])([A-Z])|[^[:alnum:]]+', '\1 \2', 'g') || ' ' || regexp_replace(regexp_replace(normalize(word, NFKC), '[^々぀-ヿ㐀-䶿一-鿿가-힣]+', ' ', 'g'), '([^ ]{2})|[^ ]', '\1 ', 'g') || ' ' || regexp_replace(regexp_replace(regexp_replace(normalize(word, NFKC), '[^々぀-ヿ㐀-䶿一-鿿가-힣]+', ' ', 'g'), '(^| )[^ ]', ' ', 'g'), '([^ ]{2})|[^ ]', '\1 ', 'g')) || array_to_tsvector(array_remove(regexp_split_to_array(normalize(word, NFKC), '[^¢-¥§±×÷₠-⃏←-⏿─-➿⤀-⧿⬀-⯿🀀-🫿]*'), '')))) AS stems) AS stemmed
    CROSS JOIN LATERAL (
        SELECT coalesce(min((
            SELECT coalesce(sum(documents), 0) FROM memory_lexemes WHERE lexeme = stem AND rough = %(rough)s AND (
    %(all)s OR (owner = '' AND persona = '') OR owner = nullif(%(email)s, '') OR persona = ANY(%(personas)s::text[]))
        )), 0)::float8 AS documents FROM unnest(stems) AS stem
    ) AS known
    CROSS JOIN (
        SELECT coalesce(sum(documents), 0)::float8 AS total FROM memory_lexemes WHERE lexeme = '' AND rough = %(rough)s AND (
    %(all)s OR (owner = '' AND persona = '') OR owner = nullif(%(email)s, '') OR persona = ANY(%(personas)s::text[]))
    ) AS totals
    WHERE stems <> '{}'
),

neighbors AS MATERIALIZED (
    SELECT coalesce(array_agg(urn), '{}')::varchar[] AS urns FROM (
        SELECT DISTINCT urn FROM (
            SELECT unnest(ARRAY[upstream, downstream]) AS urn FROM (
                SELECT upstream, downstream FROM catalog_lineage
                WHERE %(with_neighbors)s AND (upstream = ANY(%(urns)s) OR downstream = ANY(%(urns)s))
                LIMIT %(edges)s
            ) AS edges
            UNION ALL SELECT unnest(%(learned)s::text[])
        ) AS ends WHERE urn <> ALL(%(urns)s) LIMIT %(neighbors)s
    ) AS known
),
reached AS MATERIALIZED (SELECT urns || %(answered)s::varchar[] AS urns FROM neighbors),

of_requested AS MATERIALIZED (SELECT * FROM memory_records WHERE (("memory_records"."entity_urns" && (ARRAY[%(urns)s])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[%(urns)s])::varchar(500)[]))),
of_reached AS MATERIALIZED (SELECT * FROM memory_records WHERE (("memory_records"."entity_urns" && (ARRAY[(SELECT urns FROM reached)])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[(SELECT urns FROM reached)])::varchar(500)[]))),

about AS MATERIALIZED (
    SELECT id, created_at, search, ((("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" IN (SELECT unnest(%(personas)s::text[])) AND "memory_records"."visibility" = 'persona') OR "memory_records"."visibility" = 'everyone') AND "memory_records"."status" IN ('active') AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = 'stm') AND ("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" = %(persona)s AND "memory_records"."visibility" = 'persona') OR ("memory_records"."visibility" = 'everyone' AND (EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" = 'applied') LIMIT 1) OR EXISTS(SELECT 1 AS "a" FROM "memory_verifications" U0 INNER JOIN "memory_records" U1 ON (U0."record_id" = U1."id") WHERE (U0."record_id" = ("memory_records"."id") AND U0."version" = (encode(sha256(convert_to(jsonb_build_array(U1."content", U1."entity_urns", U1."related_columns", U1."visibility", CASE WHEN (U1."visibility" = 'persona') THEN U1."persona" ELSE '' END)::text, 'UTF8')), 'hex')) AND NOT U0."is_own" AND NOT (U0."by" = (U1."created_by")) AND (U1."entity_urns" && (ARRAY[%(urns)s])::varchar(500)[] OR U0."detected_urns" && (ARRAY[%(urns)s])::varchar(500)[])) LIMIT 1)))) AND NOT EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" IN ('pending', 'rejected')) LIMIT 1) AND NOT EXISTS(SELECT 1 AS "a" FROM "memory_feedback" U0 WHERE (U0."by" = %(email)s AND U0."record_id" = ("memory_records"."id") AND U0."verdict" = 'wrong') LIMIT 1))) AND (%(on_request)s OR (("memory_records"."attachment" = 'always' OR ("memory_records"."attachment" = 'automatic' AND "memory_records"."quiet_at" IS NULL)))) AS is_attachable,
           ("memory_records"."status" = 'stale') AS is_stale, ((EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" = 'pending') LIMIT 1) AND "memory_records"."status" = 'active')) AS is_waiting, (("memory_records"."status" = 'active' AND ("memory_records"."valid_from" > (STATEMENT_TIMESTAMP()) OR "memory_records"."valid_until" <= (STATEMENT_TIMESTAMP()) OR "memory_records"."condition_ended_at" IS NOT NULL))) AS is_not_valid, (("memory_records"."status" = 'active' AND NOT ("memory_records"."attachment" = 'always' OR ("memory_records"."attachment" = 'automatic' AND "memory_records"."quiet_at" IS NULL)))) AS is_quiet
    FROM of_requested AS memory_records WHERE ((("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" IN (SELECT unnest(%(personas)s::text[])) AND "memory_records"."visibility" = 'persona') OR "memory_records"."visibility" = 'everyone') AND NOT ("memory_records"."tier" = 'stm')))
),

nearby AS MATERIALIZED (
    SELECT id, created_at, search, (entity_urns || detected_urns) && (SELECT urns FROM neighbors) AS is_neighbor
    FROM of_reached AS memory_records WHERE ((("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" IN (SELECT unnest(%(personas)s::text[])) AND "memory_records"."visibility" = 'persona') OR "memory_records"."visibility" = 'everyone') AND "memory_records"."status" IN ('active') AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = 'stm') AND ("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" = %(persona)s AND "memory_records"."visibility" = 'persona') OR ("memory_records"."visibility" = 'everyone' AND (EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" = 'applied') LIMIT 1) OR EXISTS(SELECT 1 AS "a" FROM "memory_verifications" U0 INNER JOIN "memory_records" U1 ON (U0."record_id" = U1."id") WHERE (U0."record_id" = ("memory_records"."id") AND U0."version" = (encode(sha256(convert_to(jsonb_build_array(U1."content", U1."entity_urns", U1."related_columns", U1."visibility", CASE WHEN (U1."visibility" = 'persona') THEN U1."persona" ELSE '' END)::text, 'UTF8')), 'hex')) AND NOT U0."is_own" AND NOT (U0."by" = (U1."created_by")) AND (U1."entity_urns" && (ARRAY[(SELECT urns FROM reached)])::varchar(500)[] OR U0."detected_urns" && (ARRAY[(SELECT urns FROM reached)])::varchar(500)[])) LIMIT 1)))) AND NOT EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" IN ('pending', 'rejected')) LIMIT 1) AND NOT EXISTS(SELECT 1 AS "a" FROM "memory_feedback" U0 WHERE (U0."by" = %(email)s AND U0."record_id" = ("memory_records"."id") AND U0."verdict" = 'wrong') LIMIT 1))) AND (("memory_records"."attachment" = 'always' OR ("memory_records"."attachment" = 'automatic' AND "memory_records"."quiet_at" IS NULL))) AND NOT (("memory_records"."entity_urns" && (ARRAY[%(urns)s])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[%(urns)s])::varchar(500)[]))
),

by_rarity AS (
    SELECT query, sum(documents) OVER rarest AS rows_found, row_number() OVER rarest AS place,
           total * exp(sum(ln(greatest(documents, 1) / greatest(total, 1))) OVER rarest) AS rows_together
    FROM words WHERE uses & %(for_match)s <> 0
    WINDOW rarest AS (ORDER BY documents, query::text ROWS UNBOUNDED PRECEDING)
),
selective AS MATERIALIZED (
    SELECT coalesce(
        (SELECT string_agg('(' || query::text || ')', ' | ') FROM by_rarity WHERE rows_found <= %(rows_found)s),
        (SELECT string_agg('(' || query::text || ')', ' & ') FROM by_rarity WHERE place <= (
            SELECT min(place) FROM by_rarity WHERE rows_together <= %(rows_compared)s
        ))
    )::tsquery AS query
),
matching AS MATERIALIZED (
    SELECT id, search, embedding_model FROM memory_records
    WHERE search @@ (SELECT query FROM selective) AND ((("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" IN (SELECT unnest(%(personas)s::text[])) AND "memory_records"."visibility" = 'persona') OR "memory_records"."visibility" = 'everyone') AND "memory_records"."status" IN ('active', 'stale') AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = 'stm') AND ("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" = %(persona)s AND "memory_records"."visibility" = 'persona') OR ("memory_records"."visibility" = 'everyone' AND (EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" = 'applied') LIMIT 1) OR EXISTS(SELECT 1 AS "a" FROM "memory_verifications" U0 INNER JOIN "memory_records" U1 ON (U0."record_id" = U1."id") WHERE (U0."record_id" = ("memory_records"."id") AND U0."version" = (encode(sha256(convert_to(jsonb_build_array(U1."content", U1."entity_urns", U1."related_columns", U1."visibility", CASE WHEN (U1."visibility" = 'persona') THEN U1."persona" ELSE '' END)::text, 'UTF8')), 'hex')) AND NOT U0."is_own" AND NOT (U0."by" = (U1."created_by"))) LIMIT 1)))) AND NOT EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" IN ('pending', 'rejected')) LIMIT 1) AND NOT EXISTS(SELECT 1 AS "a" FROM "memory_feedback" U0 WHERE (U0."by" = %(email)s AND U0."record_id" = ("memory_records"."id") AND U0."verdict" = 'wrong') LIMIT 1))) AND (("memory_records"."attachment" = 'always' OR ("memory_records"."attachment" = 'automatic' AND "memory_records"."quiet_at" IS NULL)))
    AND NOT (("memory_records"."entity_urns" && (ARRAY[%(urns)s])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[%(urns)s])::varchar(500)[])) AND NOT (("memory_records"."entity_urns" && (ARRAY[(SELECT urns FROM reached)])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[(SELECT urns FROM reached)])::varchar(500)[]))
    LIMIT %(rows_compared)s
),

paths AS MATERIALIZED (SELECT * FROM (
    WITH RECURSIVE walk(urns, columns) AS (
        SELECT ARRAY[upstream, downstream]::text[], ARRAY[upstream_column, downstream_column]::text[]
        FROM catalog_column_lineage
        WHERE downstream = ANY(%(urns)s)
        AND (%(columns)s::text[] IS NULL OR lower(downstream_column) = ANY(%(columns)s))
        UNION
        SELECT edge.upstream::text || walk.urns, edge.upstream_column::text || walk.columns
        FROM walk JOIN catalog_column_lineage edge
            ON edge.downstream = walk.urns[1] AND edge.downstream_column = walk.columns[1]
        WHERE cardinality(walk.urns) <= %(steps)s AND edge.upstream <> ALL(walk.urns)
    ), of_tables(upstream, downstream) AS (
        SELECT edge.upstream, edge.downstream FROM catalog_lineage edge WHERE edge.downstream = ANY(%(urns)s)
        UNION
        SELECT before_job.upstream, edge.downstream
        FROM catalog_lineage edge JOIN catalog_lineage before_job ON before_job.downstream = edge.upstream
        WHERE edge.downstream = ANY(%(urns)s) AND edge.upstream LIKE 'urn:li:dataJob:%%'
    )
    (SELECT urns, columns FROM walk ORDER BY cardinality(urns) LIMIT %(limit)s)
    UNION ALL
    (SELECT ARRAY[upstream, downstream]::text[], ARRAY['', ''] FROM of_tables
    WHERE upstream <> downstream AND NOT EXISTS (
        SELECT 1 FROM catalog_column_lineage known
        WHERE known.downstream = of_tables.downstream AND known.upstream = of_tables.upstream
    )
    LIMIT %(limit)s)) AS path(urns, columns) WHERE %(with_neighbors)s),
sources AS MATERIALIZED (SELECT coalesce(array_agg(DISTINCT urns[1]), '{}')::varchar[] AS urns FROM paths),
of_sources AS MATERIALIZED (SELECT * FROM memory_records WHERE (("memory_records"."entity_urns" && (ARRAY[(SELECT urns FROM sources)])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[(SELECT urns FROM sources)])::varchar(500)[]))),
caveats AS MATERIALIZED (
    SELECT id, updated_at, entity_urns || detected_urns AS urns, (ARRAY(SELECT (COALESCE(U0."urn", '') || COALESCE((COALESCE('', '') || COALESCE(LOWER(U0."column"), '')), '')) AS "concat1" FROM "caveat_waivers" U0 INNER JOIN "memory_records" U1 ON (U0."record_id" = U1."id") WHERE (U0."content_key" = (U1."content_key") AND U0."withdrawn_at" IS NULL AND U0."record_id" = ("memory_records"."id")))) AS waived, ((SELECT array_agg(entity.urn || E'\x1f' || entity.columns) FROM catalog_entities entity WHERE entity.urn = ANY("memory_records"."entity_urns" || "memory_records"."detected_urns"))) AS catalog
    FROM of_sources AS memory_records WHERE (("memory_records"."category" IN ('data_quality', 'correction') OR "memory_records"."tags" @> (ARRAY['caveat'])::varchar(80)[])) AND ((("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" IN (SELECT unnest(%(personas)s::text[])) AND "memory_records"."visibility" = 'persona') OR "memory_records"."visibility" = 'everyone') AND "memory_records"."status" IN ('active') AND ("memory_records"."valid_from" IS NULL OR "memory_records"."valid_from" <= (STATEMENT_TIMESTAMP())) AND ("memory_records"."valid_until" IS NULL OR "memory_records"."valid_until" > (STATEMENT_TIMESTAMP())) AND "memory_records"."condition_ended_at" IS NULL AND ("memory_records"."expires_at" IS NULL OR "memory_records"."expires_at" > (STATEMENT_TIMESTAMP())) AND NOT ("memory_records"."tier" = 'stm') AND ("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" = %(persona)s AND "memory_records"."visibility" = 'persona') OR ("memory_records"."visibility" = 'everyone' AND (EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" = 'applied') LIMIT 1) OR EXISTS(SELECT 1 AS "a" FROM "memory_verifications" U0 INNER JOIN "memory_records" U1 ON (U0."record_id" = U1."id") WHERE (U0."record_id" = ("memory_records"."id") AND U0."version" = (encode(sha256(convert_to(jsonb_build_array(U1."content", U1."entity_urns", U1."related_columns", U1."visibility", CASE WHEN (U1."visibility" = 'persona') THEN U1."persona" ELSE '' END)::text, 'UTF8')), 'hex')) AND NOT U0."is_own" AND NOT (U0."by" = (U1."created_by")) AND (U1."entity_urns" && (ARRAY[(SELECT urns FROM sources)])::varchar(500)[] OR U0."detected_urns" && (ARRAY[(SELECT urns FROM sources)])::varchar(500)[])) LIMIT 1)))) AND NOT EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" IN ('pending', 'rejected')) LIMIT 1) AND NOT EXISTS(SELECT 1 AS "a" FROM "memory_feedback" U0 WHERE (U0."by" = %(email)s AND U0."record_id" = ("memory_records"."id") AND U0."verdict" = 'wrong') LIMIT 1))) AND (("memory_records"."attachment" = 'always' OR ("memory_records"."attachment" = 'automatic' AND "memory_records"."quiet_at" IS NULL))) AND NOT (("memory_records"."entity_urns" && (ARRAY[%(urns)s])::varchar(500)[] OR "memory_records"."detected_urns" && (ARRAY[%(urns)s])::varchar(500)[]))
    ORDER BY updated_at DESC, id LIMIT %(caveats)s
),

chosen (kind, place, id, detail) AS MATERIALIZED (
    (SELECT 'entity', row_number() OVER (ORDER BY coverage DESC, created_at DESC, about.id), about.id, NULL::jsonb
     FROM about CROSS JOIN LATERAL (
        SELECT coalesce(sum(idf), 0) AS coverage FROM words
        WHERE uses & %(for_entity)s <> 0 AND about.search @@ query
     ) AS covered WHERE is_attachable ORDER BY 2 LIMIT %(entity_rows)s)
    UNION ALL
    (SELECT 'match', row_number() OVER (ORDER BY coverage / total + coalesce(cosine, 0) DESC, id), id, NULL
     FROM (
        SELECT id, coverage, embedding_model FROM matching CROSS JOIN LATERAL (
            SELECT sum(idf) AS coverage FROM words WHERE uses & %(for_match)s <> 0 AND matching.search @@ query
        ) AS covered ORDER BY coverage DESC, id LIMIT %(rows_measured)s
     ) AS covering
     CROSS JOIN (SELECT sum(idf) AS total FROM words WHERE uses & %(for_match)s <> 0) AS totals
     CROSS JOIN LATERAL (
        SELECT %(question_slope)s * (1 - min(vector <=> %(vector)s::vector)) AS cosine FROM memory_passages
        WHERE record_id = covering.id AND embedding_model = %(model)s
     ) AS measured ORDER BY 2 LIMIT %(match_rows)s)
    UNION ALL
    (SELECT 'neighbor', row_number() OVER (ORDER BY coverage DESC, created_at DESC, nearby.id), nearby.id,
            to_jsonb(is_neighbor)
     FROM nearby CROSS JOIN LATERAL (
        SELECT sum(idf) AS coverage FROM words WHERE uses & %(for_neighbor)s <> 0 AND nearby.search @@ query
     ) AS covered WHERE coverage > 0 ORDER BY 2 LIMIT %(neighbor_rows)s)
    UNION ALL
    (SELECT 'caveat', row_number() OVER (ORDER BY updated_at DESC, id), id, jsonb_build_object(
        'waived', waived, 'catalog', catalog
     ) FROM caveats)
    UNION ALL
    (SELECT 'ended', row_number() OVER (ORDER BY id), id, NULL FROM memory_records
     WHERE id = ANY(%(shown)s) AND (("memory_records"."status" = 'stale' OR ("memory_records"."status" = 'active' AND ("memory_records"."valid_until" <= (STATEMENT_TIMESTAMP()) OR "memory_records"."condition_ended_at" IS NOT NULL)))) AND ((("memory_records"."created_by" = %(email)s OR ("memory_records"."persona" IN (SELECT unnest(%(personas)s::text[])) AND "memory_records"."visibility" = 'persona') OR "memory_records"."visibility" = 'everyone') AND NOT ("memory_records"."tier" = 'stm'))))
    UNION ALL
    SELECT 'left out', 1, NULL, (
        SELECT jsonb_build_object(
            'stale', count(*) FILTER (WHERE is_stale), 'waiting', count(*) FILTER (WHERE is_waiting),
            'not_valid', count(*) FILTER (WHERE is_not_valid), 'quiet', count(*) FILTER (WHERE is_quiet)
        ) FROM about
    )
    UNION ALL
    SELECT 'near', 1, NULL, (SELECT to_jsonb(urns) FROM neighbors)
    UNION ALL
    SELECT 'paths', 1, NULL, (
        SELECT jsonb_agg(jsonb_build_array(urns, columns)) FROM paths
        WHERE EXISTS (SELECT FROM caveats WHERE paths.urns[1] = ANY(caveats.urns))
    )
)

SELECT kind, detail, (EXISTS(SELECT 1 AS "a" FROM "insights" U0 WHERE (U0."record_id" = ("memory_records"."id") AND U0."state" = 'applied') LIMIT 1)) AS is_applied, ((EXISTS(SELECT 1 AS "a" FROM "entity_baselines" U0 WHERE (U0."record_id" = ("memory_records"."id") AND NOT (U0."hint" = '')) LIMIT 1)) OR EXISTS (
    SELECT FROM catalog_entities WHERE urn = ANY(memory_records.detected_urns) AND (removed OR deprecated))) AS has_hint,
       (SELECT %(question_slope)s * (1 - min(vector <=> %(vector)s::vector)) FROM memory_passages
        WHERE record_id = memory_records.id AND memory_records.embedding_model = %(model)s) AS cosine,
       "memory_records"."id", "memory_records"."created_at", "memory_records"."updated_at", "memory_records"."created_by", "memory_records"."persona", "memory_records"."visibility", "memory_records"."dimension", "memory_records"."category", "memory_records"."confidence", "memory_records"."source", "memory_records"."content", "memory_records"."language", "memory_records"."tags", "memory_records"."entity_urns", "memory_records"."related_columns", "memory_records"."detected_urns", "memory_records"."entities_detected_at", "memory_records"."unsettled", "memory_records"."metadata", "memory_records"."scope", "memory_records"."content_key", "memory_records"."status", "memory_records"."stale_reason", "memory_records"."stale_at", "memory_records"."last_verified_at", "memory_records"."valid_from", "memory_records"."valid_until", "memory_records"."valid_while", "memory_records"."condition_ended_at", "memory_records"."supersedes_id", "memory_records"."superseded_by", "memory_records"."superseded_at", "memory_records"."tier", "memory_records"."conversation_id", "memory_records"."role", "memory_records"."author", "memory_records"."thread_position", "memory_records"."derived_from", "memory_records"."importance", "memory_records"."last_accessed_at", "memory_records"."enrichment_status", "memory_records"."attachment", "memory_records"."quiet_at", "memory_records"."counted_from", "memory_records"."expires_at", "memory_records"."purge_after"
FROM chosen LEFT JOIN memory_records USING (id)
ORDER BY kind, place
