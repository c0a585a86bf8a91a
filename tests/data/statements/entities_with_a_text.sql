SELECT entity.id, entity.graph_id, entity.number, entity.name, entity.entity_type, entity.status, entity.urn, entity.is_placeholder, entity.created_at, entity.updated_at, entity.deleted_at FROM graph_entities entity
WHERE entity.graph_id = %(graph)s AND (%(placeholders)s OR NOT entity.is_placeholder)
  AND entity.number > %(after)s AND (%(as_of)s::timestamptz IS NULL AND entity.deleted_at IS NULL
 OR entity.created_at <= %(as_of)s AND (entity.deleted_at IS NULL OR entity.deleted_at > %(as_of)s)) AND entity.id = ANY (ARRAY(
    SELECT named.id FROM graph_entities named
    WHERE named.graph_id = %(graph)s AND strpos(named.folded, %(words)s) > 0
      AND (%(grams)s::varchar[] IS NULL OR named.grams @> %(grams)s::varchar[])
    UNION
    SELECT observation.entity_id FROM graph_observations observation
    WHERE observation.graph_id = %(graph)s AND observation.ended_at IS NULL
      AND strpos(observation.folded, %(words)s) > 0
      AND (%(grams)s::varchar[] IS NULL OR observation.grams @> %(grams)s::varchar[])))
ORDER BY entity.number LIMIT %(limit)s
