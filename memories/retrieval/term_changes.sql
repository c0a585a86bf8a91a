-- name: update
-- taken: the changes of this batch, which are deleted. delta: by how much each exact count changes.
-- by_person: whose shared memories have gained or lost a lexeme. An edit that keeps a lexeme cancels out.
-- exact: the new exact counts. shared: the changed lexemes with the number of shared memories that contain them.
-- rough: the new rough counts, with a new bound of their people. Those of the lexeme '' are exact.
WITH taken AS (
    DELETE FROM memory_lexeme_changes WHERE id = ANY(ARRAY(
        SELECT id FROM memory_lexeme_changes ORDER BY id LIMIT %(batch)s))
    RETURNING owner AS person, visibility, search, documents,
        CASE visibility WHEN 'private' THEN owner ELSE '' END AS owner,
        CASE visibility WHEN 'persona' THEN persona ELSE '' END AS persona
), words AS MATERIALIZED (
    SELECT lexeme, person, visibility, owner, persona, documents
    FROM taken, unnest(tsvector_to_array(search) || ''::text) AS lexeme
), delta AS MATERIALIZED (
    SELECT lexeme, owner, persona, sum(documents) AS documents FROM words GROUP BY lexeme, owner, persona
    HAVING sum(documents) <> 0
), by_person AS (
    SELECT lexeme, person, sum(documents) AS documents FROM words WHERE visibility <> 'private' AND lexeme <> ''
    GROUP BY lexeme, person HAVING sum(documents) <> 0
), people AS (
    SELECT lexeme, count(*) FILTER (WHERE documents < 0) AS fewer, bool_or(documents > 0) AS more
    FROM by_person GROUP BY lexeme
), exact AS MATERIALIZED (
    SELECT old.id, lexeme, owner, persona, coalesce(old.documents, 0) + delta.documents AS documents
    FROM delta LEFT JOIN LATERAL (
        SELECT id, documents FROM memory_lexemes AS old WHERE old.lexeme = delta.lexeme
        AND old.owner = delta.owner AND old.persona = delta.persona AND NOT old.rough LIMIT 1) AS old ON true
), shared AS (
    SELECT lexeme, sum(change) + coalesce((
        SELECT sum(documents) FROM memory_lexemes AS old
        WHERE old.lexeme = changed.lexeme AND old.owner = '' AND NOT old.rough), 0) AS documents
    FROM (
        SELECT lexeme, documents AS change FROM delta WHERE owner = '' UNION ALL SELECT lexeme, 0 FROM people
    ) AS changed GROUP BY lexeme
), bounded AS (
    SELECT known.id, lexeme, shared.documents, known.people - coalesce(people.fewer, 0) AS bound,
           CASE WHEN known.id IS NULL THEN coalesce(people.more, false)
                ELSE known.people - coalesce(people.fewer, 0) < %(people)s END AS is_doubtful
    FROM shared LEFT JOIN people USING (lexeme) LEFT JOIN LATERAL (
        SELECT id, people FROM memory_lexemes AS old WHERE old.lexeme = shared.lexeme
        AND old.owner = '' AND old.persona = '' AND old.rough LIMIT 1) AS known ON true
), rough AS MATERIALIZED (
    SELECT id, lexeme, documents, CASE WHEN lexeme = '' THEN 0 WHEN NOT is_doubtful THEN bound ELSE (
        SELECT count(DISTINCT created_by) FROM memory_records WHERE search @@
        -- the lexeme as a tsquery, with its backslashes and quotes doubled
        (chr(39) || replace(replace(lexeme, '\', '\\'), chr(39), repeat(chr(39), 2)) || chr(39))::tsquery
        AND visibility <> 'private' AND status <> 'archived') END AS people
    FROM bounded
), counted AS MATERIALIZED (
    SELECT id, lexeme, owner, persona, false AS rough, documents, NULL::int AS people FROM exact
    UNION ALL
    SELECT id, lexeme, '', '', true,
           CASE WHEN lexeme = '' THEN documents
                WHEN people >= %(people)s AND documents > 0 THEN 2 ^ round(log(2.0, documents)) ELSE 0 END,
           people
    FROM rough
), gone AS (
    DELETE FROM memory_lexemes WHERE id = ANY(ARRAY(
        SELECT id FROM counted WHERE documents <= 0 AND NOT (lexeme = '' AND rough)))
), kept AS (
    INSERT INTO memory_lexemes AS old (lexeme, owner, persona, rough, documents, people)
    SELECT lexeme, owner, persona, rough, documents, people FROM counted
    WHERE documents > 0 OR lexeme = '' AND rough
    ORDER BY lexeme, owner, persona, rough
    ON CONFLICT (lexeme, owner, persona, rough)
    DO UPDATE SET documents = EXCLUDED.documents, people = EXCLUDED.people
    WHERE (old.documents, old.people) IS DISTINCT FROM (EXCLUDED.documents, EXCLUDED.people)
)
SELECT count(*) FROM taken
