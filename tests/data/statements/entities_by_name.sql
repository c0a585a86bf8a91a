SELECT entity.id, entity.graph_id, entity.number, entity.name, entity.entity_type, entity.status, entity.urn, entity.is_placeholder, entity.created_at, entity.updated_at, entity.deleted_at FROM graph_entities entity
WHERE entity.graph_id = %(graph)s AND (%(placeholders)s OR NOT entity.is_placeholder)
  AND entity.number > %(after)s AND (%(as_of)s::timestamptz IS NULL AND entity.deleted_at IS NULL
 OR entity.created_at <= %(as_of)s AND (entity.deleted_at IS NULL OR entity.deleted_at > %(as_of)s)) AND md5(normalize(entity.name)) = ANY (ARRAY(
    SELECT md5(normalize(wanted.name)) FROM unnest(%(names)s::text[]) AS wanted(name)))
AND (%(any_form)s OR entity.name = ANY(%(names)s::text[]))
ORDER BY entity.number LIMIT %(limit)s
