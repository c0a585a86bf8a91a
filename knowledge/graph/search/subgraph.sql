-- name: subgraph
WITH mine AS MATERIALIZED ({lookup}), page AS MATERIALIZED ({page})
SELECT (SELECT json_agg(json_build_object('name', name, 'entityType', entity_type, 'observations', ARRAY(
            SELECT text FROM graph_observations observation
            WHERE observation.entity_id = page.id AND observation.ended_at IS NULL ORDER BY observation.number
        )) ORDER BY number) FROM page)::text,
       (SELECT json_agg(json_build_object(
            'from', source.name, 'to', target.name, 'relationType', relation.relation_type
        ) ORDER BY relation.number)
        FROM graph_relations relation
        JOIN graph_entities source ON source.id = relation.source_id
        JOIN graph_entities target ON target.id = relation.target_id
        WHERE relation.ended_at IS NULL AND ({rule}))::text

-- name: all_relations
relation.graph_id = (SELECT id FROM mine)

-- name: relations_of_page
relation.source_id = ANY(ARRAY(SELECT id FROM page)) OR relation.target_id = ANY(ARRAY(SELECT id FROM page))
