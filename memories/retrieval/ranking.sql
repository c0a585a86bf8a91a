-- The parts of the statement that ranking.py assembles. `searched` stands for the condition of the rows to search.

-- name: tables
-- searched: the rows to search, with a bit mask of the question's words in each row. If they are few, these are all of
-- them. Otherwise they are those that the index finds by the rarest words.
-- masks: the number of rows with each combination of words.
-- counts: the number of all rows, and the number of rows with each word.
-- weights: the idf of each word.
-- shares: the idf of each word, divided by the sum of all.
-- coverages: the sum of the shares of the words in each combination.
searched AS MATERIALIZED (SELECT id, {mask} AS mask FROM {rows} WHERE {searched} {found}),
masks AS MATERIALIZED (SELECT mask, count(*) AS rows FROM searched GROUP BY mask),
counts AS (SELECT {total}::float8 AS total, {counts} FROM masks),
weights AS (SELECT {idfs} FROM counts),
shares AS MATERIALIZED (SELECT *, {shares} FROM weights),
coverages AS MATERIALIZED (SELECT mask, rows, {coverage} AS coverage FROM masks, shares),

-- name: mask
-- The words of the question in a row, as bits.
CASE WHEN search @@ %(words)s::tsquery THEN {bits} ELSE 0::bigint END

-- name: coverage
-- The share of a word, if the row has it.
CASE WHEN mask & {bit} <> 0 THEN s{n} ELSE 0 END

-- name: count
-- The number of rows with a word.
coalesce(sum(rows) FILTER (WHERE mask & {bit} <> 0), 0)

-- name: rows_with_words
-- The rows that the index finds by few words, before the other conditions: otherwise PostgreSQL would combine that index
-- with those of everything that the person may read.
(SELECT * FROM memory_records WHERE search @@ %(selective)s::tsquery OFFSET 0) AS memory_records

-- name: found
-- The limit matters if all words of a question are frequent: then many rows match, and any 2,000 of them are enough.
AND search @@ %(selective)s::tsquery LIMIT 2000

-- name: found_total
greatest(%(rows)s, sum(rows))

-- name: found_count
-- The number of rows with a word that was not used to find rows: its share of the rows found, by Laplace's rule of
-- succession, of the estimated rows.
%(rows)s * (coalesce(sum(rows) FILTER (WHERE mask & {bit} <> 0), 0) + 1) / (coalesce(sum(rows), 0) + 2)

-- name: given_idf
%(idf{n})s::float8 AS i{n}

-- name: idf
-- the formula of term_statistics.idf
ln(1 + (total - n{n} + 0.5) / (n{n} + 0.5)) AS i{n}

-- name: semantic_scanned
-- Arm: the records with the nearest vectors, if all rows are scanned.
SELECT record_id FROM (
    SELECT p.record_id, p.vector <=> (SELECT vector FROM question) AS distance
    FROM memory_passages p JOIN searched ON searched.id = p.record_id ORDER BY distance LIMIT %(passages)s
) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s

-- name: lexical
-- Arm: the records with the highest coverage.
-- Takes combinations of words in order of falling coverage until they have enough rows, so that few rows are sorted.
SELECT id FROM (
    SELECT id FROM searched JOIN coverages USING (mask) WHERE mask = ANY(ARRAY(
        SELECT mask FROM (
            SELECT mask, coalesce(sum(rows) OVER (
                ORDER BY coverage DESC RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
            ), 0) AS rows_before FROM coverages WHERE mask <> 0
        ) best WHERE rows_before < %(candidates)s
    )) ORDER BY coverage DESC, id LIMIT %(candidates)s
) covering

-- name: semantic_indexed
-- Arm: the records with the nearest vectors, found by the index.
-- With a join in place of EXISTS, or without OFFSET 0, the planner would read all rows and then their vectors. It takes
-- them for few, because the policies of row-level security repeat their conditions.
SELECT record_id FROM (
    SELECT p.record_id, {distance} AS distance
    FROM memory_passages p WHERE NOT p.short_term AND EXISTS (
        SELECT FROM memory_records WHERE memory_records.id = p.record_id AND {searched} OFFSET 0
    ) ORDER BY distance LIMIT %(passages)s
) nearest GROUP BY record_id ORDER BY min(distance) LIMIT %(candidates)s

-- name: near
-- Arm: the newest records about the named and related entities.
SELECT id FROM (
    SELECT id FROM memory_records
    WHERE {searched} AND (entity_urns && %(urns)s::varchar[] OR detected_urns && %(urns)s::varchar[])
    ORDER BY created_at DESC, id LIMIT %(candidates)s
) near

-- name: cosine
-- NULL for a memory whose vectors another model has computed: while all are computed anew, its words find it.
(SELECT %(question_slope)s * (1 - min(p.vector <=> (SELECT vector FROM question))) FROM memory_passages p
    WHERE p.record_id = memory_records.id AND (%(model)s::text = '' OR memory_records.embedding_model = %(model)s))

-- name: ranked
-- Scores the candidates of all arms. Their ids are an array, because with a join the planner would scan the whole table.
WITH question AS MATERIALIZED (SELECT %(vector)s::vector AS vector),
{tables}
candidates AS MATERIALIZED (SELECT DISTINCT record_id AS id FROM ({arms}) arms(record_id)),
scored AS MATERIALIZED (
    SELECT id, created_at, conversation_id, thread_position,
           {cosine} AS cosine, {bonus} AS bonus{cues}{mask}
    FROM memory_records WHERE id = ANY(ARRAY(SELECT id FROM candidates))
)
SELECT scored.id, scored.created_at, conversation_id, thread_position, cosine, {coverage} AS coverage, bonus,
       %(w_semantic)s * coalesce(cosine, 0) + %(w_lexical)s * {coverage} + bonus + {cue} AS score, {idf_list}
FROM scored {joins} ORDER BY score DESC, created_at DESC, scored.id LIMIT %(limit)s

-- name: rows_up_to
SELECT count(*) FROM (SELECT FROM memory_records WHERE {searched} LIMIT %(limit)s) AS counted

-- name: bonus
-- The bonus of a record about an entity at this distance. The next distance follows, and at last 0.
CASE WHEN entity_urns && %(urns{0})s::varchar[] OR detected_urns && %(urns{0})s::varchar[]
    THEN %(bonus{0})s ELSE 
