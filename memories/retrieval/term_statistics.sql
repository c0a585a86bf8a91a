-- name: phrases
SELECT name, phraseto_tsquery(config, words)::text, tsvector_to_array(to_tsvector(config, words))
FROM unnest(%s::text[]) AS name, regexp_replace(name, '[._]+', ' ', 'g') AS words,
(SELECT %s::regconfig AS config) AS installation

-- name: readable
-- The counts to add up: the rough ones, or those of the memories that a caller may read. Admins may read all.
rough = %(rough)s AND (
    %(all)s OR (owner = '' AND persona = '') OR owner = nullif(%(email)s, '') OR persona = ANY(%(personas)s::text[]))

-- name: known_lexemes
SELECT lexeme, sum(documents)::int FROM memory_lexemes
WHERE lexeme = ANY(string_to_array(%(lexemes)s, ' ')) AND {readable} GROUP BY lexeme

-- name: query_terms
-- The rows of the lexeme '' hold the numbers of all memories; no lexeme of a text is empty.
WITH total AS (SELECT sum(documents)::int AS documents FROM memory_lexemes WHERE lexeme = '' AND {readable})
SELECT term.lexeme, coalesce(known.documents, 0) + {documents}, coalesce(known.documents, 0), total.documents, likes
FROM (SELECT %(query)s::text AS words) AS query, unnest({vector}) AS term
CROSS JOIN LATERAL (SELECT {likes} AS likes) AS alike
CROSS JOIN LATERAL (
    SELECT sum(documents)::int AS documents FROM memory_lexemes WHERE lexeme = term.lexeme AND {readable}) AS known
CROSS JOIN total

-- name: same_place
-- Selects the other lexemes at the same position of the query: those by the installation's configuration and the
-- unstemmed words.
ARRAY(
    SELECT DISTINCT other.lexeme FROM (
        SELECT (unnest({installation})).* UNION ALL SELECT (unnest({simple})).*
    ) AS other WHERE other.positions && term.positions AND other.lexeme <> term.lexeme)

-- name: of_alternatives
coalesce((SELECT sum(documents) FROM memory_lexemes WHERE lexeme = ANY(likes) AND {readable}), 0)::int

-- name: refresh
-- counted: the new counts. Only rows whose counts have changed are written, because most stay as they are.
-- included: changes that wait to be counted. The new counts include those that the statement sees.
WITH memories AS (
    SELECT created_by, visibility, search,
           CASE visibility WHEN 'private' THEN created_by ELSE '' END AS owner,
           CASE visibility WHEN 'persona' THEN persona ELSE '' END AS persona
    FROM memory_records WHERE status <> 'archived'
), counted (lexeme, owner, persona, rough, documents, people) AS MATERIALIZED (
    SELECT lexeme, owner, persona, false, count(*), NULL::int
    FROM memories, unnest(tsvector_to_array(search)) AS lexeme GROUP BY lexeme, owner, persona
    UNION ALL
    SELECT lexeme, '', '', true, (2 ^ round(log(2.0, count(*)::numeric)))::int, count(DISTINCT created_by)
    FROM memories, unnest(tsvector_to_array(search)) AS lexeme WHERE visibility <> 'private'
    GROUP BY lexeme HAVING count(DISTINCT created_by) >= %s
    UNION ALL
    SELECT '', owner, persona, false, count(*), NULL FROM memories GROUP BY owner, persona
    UNION ALL
    SELECT '', '', '', true, count(*) FILTER (WHERE visibility <> 'private'), 0 FROM memories
), included AS (
    DELETE FROM memory_lexeme_changes
), gone AS (
    DELETE FROM memory_lexemes AS old WHERE NOT EXISTS (
        SELECT FROM counted WHERE counted.lexeme = old.lexeme AND counted.owner = old.owner
        AND counted.persona = old.persona AND counted.rough = old.rough)
)
INSERT INTO memory_lexemes AS old (lexeme, owner, persona, rough, documents, people)
SELECT * FROM counted ORDER BY lexeme, owner, persona, rough
ON CONFLICT (lexeme, owner, persona, rough) DO UPDATE SET documents = EXCLUDED.documents, people = EXCLUDED.people
WHERE (old.documents, old.people) IS DISTINCT FROM (EXCLUDED.documents, EXCLUDED.people)

-- name: word_lexemes
SELECT word, lexeme FROM unnest(%s::text[]) AS word, unnest(tsvector_to_array({vector})) AS lexeme
