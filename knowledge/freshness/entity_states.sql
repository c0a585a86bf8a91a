-- name: save
-- A check that began while another one wrote a state does not know whose comparison came last: the state is emptied.
INSERT INTO entity_states AS state (catalog, urn, fingerprint, checked_at)
SELECT %(catalog)s, urn, fingerprint, clock_timestamp()
FROM unnest(%(urns)s::text[], %(fingerprints)s::text[]) AS entity(urn, fingerprint) ORDER BY urn
ON CONFLICT (catalog, urn) DO UPDATE SET
    fingerprint = CASE WHEN state.checked_at <= %(began)s THEN EXCLUDED.fingerprint ELSE '' END,
    checked_at = EXCLUDED.checked_at

-- name: empty_others
UPDATE entity_states SET fingerprint = '', checked_at = greatest(checked_at, coalesce(%(at)s, clock_timestamp()))
WHERE id IN (
    SELECT state.id
    FROM unnest(%(urns)s::text[], %(fingerprints)s::text[]) AS entity(urn, fingerprint)
    JOIN entity_states state ON state.catalog = %(catalog)s AND state.urn = entity.urn
    WHERE state.fingerprint <> entity.fingerprint ORDER BY state.urn FOR UPDATE OF state)
