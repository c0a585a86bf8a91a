-- name: in_force
-- Condition for rows that exist now, or existed at a time.
(%(as_of)s::timestamptz IS NULL AND {end} IS NULL
 OR {row}.created_at <= %(as_of)s AND ({end} IS NULL OR {end} > %(as_of)s))

-- name: holding
-- Condition for entities whose name, type or observations contain a text.
AND entity.id = ANY (ARRAY(
    SELECT named.id FROM graph_entities named
    WHERE named.graph_id = {graph} AND strpos(named.folded, %(words)s) > 0
      AND (%(grams)s::varchar[] IS NULL OR named.grams @> %(grams)s::varchar[])
    UNION
    SELECT observation.entity_id FROM graph_observations observation
    WHERE observation.graph_id = {graph} AND observation.ended_at IS NULL
      AND strpos(observation.folded, %(words)s) > 0
      AND (%(grams)s::varchar[] IS NULL OR observation.grams @> %(grams)s::varchar[])))

-- name: named
-- Condition for entities by name. The index holds hashes, because it can't hold long names.
AND md5(normalize(entity.name)) = ANY (ARRAY(
    SELECT md5(normalize(wanted.name)) FROM unnest(%(names)s::text[]) AS wanted(name)))
AND (%(any_form)s OR entity.name = ANY(%(names)s::text[]))

-- name: entities
SELECT {columns} FROM graph_entities entity
WHERE entity.graph_id = {graph} AND (%(placeholders)s OR NOT entity.is_placeholder)
  AND entity.number > %(after)s AND {in_force} {rule}
ORDER BY entity.number LIMIT %(limit)s

-- name: observations
SELECT id, entity_id, graph_id, {columns}
FROM {rows} observation
WHERE entity_id = ANY(%(entities)s) AND (%(kinds)s::varchar[] = '{{}}' OR kind = ANY(%(kinds)s::varchar[]))
  AND ({in_force} OR %(superseded)s AND superseded_at IS NOT NULL)
ORDER BY number

-- name: observations_then
-- Observations with the entity that they belonged to at a time, which is the former one if a split moved them later.
(
    SELECT id, COALESCE(former.entity_id, row.entity_id) AS entity_id, graph_id, {columns}
    FROM graph_observations row
    LEFT JOIN LATERAL (
        SELECT move.entity_id FROM graph_observation_moves move
        WHERE move.observation_id = row.id AND move.moved_at > %(as_of)s ORDER BY move.moved_at, move.id LIMIT 1
    ) former ON true
    WHERE row.entity_id = ANY(%(entities)s) OR row.id = ANY (ARRAY(
        SELECT move.observation_id FROM graph_observation_moves move WHERE move.entity_id = ANY(%(entities)s))))

-- name: present
-- Query for the given texts that entities already have.
SELECT entity_id, text FROM graph_observations
WHERE entity_id = ANY(%(entities)s) AND ended_at IS NULL AND text = ANY(%(texts)s)

-- name: relations
SELECT relation.*, source.name AS source_name, target.name AS target_name
FROM graph_relations relation
JOIN graph_entities source ON source.id = relation.source_id
JOIN graph_entities target ON target.id = relation.target_id
WHERE (relation.source_id = ANY(%(entities)s) OR relation.target_id = ANY(%(entities)s))
  AND ({in_force} OR %(ended)s AND relation.deleted_at IS NULL
                     AND (%(as_of)s::timestamptz IS NULL OR relation.created_at <= %(as_of)s)
                     AND (source.deleted_at IS NULL OR source.deleted_at > %(as_of)s)
                     AND (target.deleted_at IS NULL OR target.deleted_at > %(as_of)s))
ORDER BY relation.number
