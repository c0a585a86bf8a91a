-- name: vectors_of
-- The vectors in pgvector's binary format, because reading them as text takes five times as long.
SELECT record_id, vector_send(vector) FROM memory_passages
WHERE record_id = ANY(%s::uuid[]) ORDER BY record_id, start

-- name: nearest
-- Selects the records nearest to any of the vectors, nearest first.
SELECT record_id, distance FROM (
    SELECT p.record_id, min(p.vector <=> wanted.vector) AS distance
    FROM unnest(%(vectors)s::text[]::vector[]) AS wanted(vector) CROSS JOIN LATERAL (
        SELECT passage.record_id, passage.vector FROM memory_passages passage {join}
        WHERE NOT passage.short_term AND passage.record_id <> ALL(%(besides)s) AND {searched}
        ORDER BY {distance} LIMIT {looked_at}
    ) p GROUP BY p.record_id
) nearest ORDER BY distance, record_id LIMIT {looked_at}

-- name: nearest_of
-- Selects, for each passage of the given records, the records of the two nearest passages among the searched rows.
SELECT subject.record_id, near.record_id
FROM memory_passages subject CROSS JOIN LATERAL (
    SELECT p.record_id FROM memory_passages p {join}
    WHERE NOT p.short_term AND {searched} AND p.record_id <> subject.record_id
    ORDER BY {distance} LIMIT 2
) near
WHERE subject.record_id = ANY(%(ids)s)

-- name: nearest_about_the_same
-- The same, among the passages of records that share an entity: the MAX_RELATED newest ones about each entity.
WITH subject AS MATERIALIZED (
    SELECT p.id, p.record_id, p.vector, memory_records.entity_urns
    FROM memory_passages p JOIN memory_records ON memory_records.id = p.record_id
    WHERE p.record_id = ANY(%(ids)s)
), about AS MATERIALIZED (
    SELECT id, record_id, unnest(entity_urns) AS urn FROM subject
), related AS MATERIALIZED (
    SELECT wanted.urn, newest.id FROM (SELECT DISTINCT urn FROM about) AS wanted CROSS JOIN LATERAL (
        SELECT id FROM memory_records WHERE {searched} AND entity_urns @> ARRAY[wanted.urn]::varchar[]
        ORDER BY created_at DESC, id LIMIT {most}
    ) AS newest
), ranked AS (
    SELECT subject.record_id AS subject_id, p.record_id,
           row_number() OVER (PARTITION BY subject.id ORDER BY p.vector <=> subject.vector) AS place
    FROM (
        SELECT DISTINCT about.id AS passage_id, related.id AS other_id
        FROM about JOIN related USING (urn) WHERE related.id <> about.record_id
    ) AS pair JOIN subject ON subject.id = pair.passage_id
    JOIN memory_passages p ON p.record_id = pair.other_id AND NOT p.short_term
)
SELECT subject_id, record_id FROM ranked WHERE place <= 2
