-- name: count_day
INSERT INTO graph_access_days (entity_id, day, count) SELECT id, %s, 1 FROM unnest(%s::uuid[]) AS id
ON CONFLICT (entity_id, day) DO UPDATE SET count = graph_access_days.count + 1

-- name: count_pairs
INSERT INTO graph_co_occurrences (first_id, second_id, count, last_at)
SELECT a, b, 1, %s FROM unnest(%s::uuid[], %s::uuid[]) AS pair(a, b)
ON CONFLICT (first_id, second_id)
DO UPDATE SET count = graph_co_occurrences.count + 1, last_at = EXCLUDED.last_at
