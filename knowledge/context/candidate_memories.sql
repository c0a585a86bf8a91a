-- The memories for one call, in one statement: about its entities, matching its words, about neighboring entities, and
-- caveats from upstream. candidate_memories.py fills in the fragments in braces, most of them compiled by the ORM from
-- the rules in attachable.py, and sends the parameters.

-- name: candidate_memories
-- The words of the call, each with a query for the memories that have it, and its inverse document frequency among the
-- memories that the caller may read. A word may be a name of several parts, which a memory must have all.
-- `uses` is a sum of FOR_ENTITY, FOR_MATCH and FOR_NEIGHBOR.
WITH words AS MATERIALIZED (
    SELECT uses, documents, total, ln(1 + (greatest(total - documents, 0) + 0.5) / (documents + 0.5)) AS idf,
           plainto_tsquery('simple', array_to_string(stems, ' ')) || plainto_tsquery('simple', word) AS query
    FROM unnest(%(words)s::text[], %(uses)s::int[]) AS given(word, uses)
    CROSS JOIN LATERAL (SELECT tsvector_to_array({stems}) AS stems) AS stemmed
    CROSS JOIN LATERAL (
        SELECT coalesce(min((
            SELECT coalesce(sum(documents), 0) FROM memory_lexemes WHERE lexeme = stem AND {counted}
        )), 0)::float8 AS documents FROM unnest(stems) AS stem
    ) AS known
    CROSS JOIN (
        SELECT coalesce(sum(documents), 0)::float8 AS total FROM memory_lexemes WHERE lexeme = '' AND {counted}
    ) AS totals
    WHERE stems <> '{{}}'
),

-- Entities one step of lineage away. Of a DataHub without a copy, they were learned before.
neighbors AS MATERIALIZED (
    SELECT coalesce(array_agg(urn), '{{}}')::varchar[] AS urns FROM (
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

-- Rows are found by their entities first. Otherwise PostgreSQL, which does not know how few they are, would combine that
-- index with the one of everything that a persona may read. The rules are conditions on rows named memory_records.
of_requested AS MATERIALIZED (SELECT * FROM memory_records WHERE {about}),
of_reached AS MATERIALIZED (SELECT * FROM memory_records WHERE {about_reached}),

-- Memories about the requested entities, readable ones that are only counted among them.
about AS MATERIALIZED (
    SELECT id, created_at, search, {attachable} AND (%(on_request)s OR {attached}) AS is_attachable,
           {stale} AS is_stale, {waiting} AS is_waiting, {not_valid} AS is_not_valid, {quiet} AS is_quiet
    FROM of_requested AS memory_records WHERE {readable}
),

-- Memories about entities within reach.
nearby AS MATERIALIZED (
    SELECT id, created_at, search, (entity_urns || detected_urns) && (SELECT urns FROM neighbors) AS is_neighbor
    FROM of_reached AS memory_records WHERE {attachable_from_reached} AND {attached} AND NOT {about}
),

-- The query for memories that match: the rarest words, or if even the rarest is frequent, as many of the rarest together
-- as find few rows, if words were independent. If all together still find many, they say nothing about the call: only a
-- part of the rows could be compared, and the index would be read for all of them.
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
    WHERE search @@ (SELECT query FROM selective) AND {attachable_by_words} AND {attached}
    AND NOT {about} AND NOT {about_reached}
    LIMIT %(rows_compared)s
),

-- Paths of lineage that lead to the requested entities, and the caveats about their sources.
paths AS MATERIALIZED (SELECT * FROM ({paths}) AS path(urns, columns) WHERE %(with_neighbors)s),
sources AS MATERIALIZED (SELECT coalesce(array_agg(DISTINCT urns[1]), '{{}}')::varchar[] AS urns FROM paths),
of_sources AS MATERIALIZED (SELECT * FROM memory_records WHERE {about_sources}),
caveats AS MATERIALIZED (
    SELECT id, updated_at, entity_urns || detected_urns AS urns, {waived} AS waived, {catalog} AS catalog
    FROM of_sources AS memory_records WHERE {caveat} AND {attachable_from_sources} AND {attached} AND NOT {about}
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
     WHERE id = ANY(%(shown)s) AND {ended} AND {readable})
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

SELECT kind, detail, {applied} AS is_applied, {hinted} AS has_hint,
       (SELECT %(question_slope)s * (1 - min(vector <=> %(vector)s::vector)) FROM memory_passages
        WHERE record_id = memory_records.id AND memory_records.embedding_model = %(model)s) AS cosine,
       {columns}
FROM chosen LEFT JOIN memory_records USING (id)
ORDER BY kind, place
