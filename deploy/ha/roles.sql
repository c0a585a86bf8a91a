-- Run once on the primary as its superuser, with both passwords in the environment (docs/ha.md).
\getenv owner_password OWNER_PASSWORD
\getenv app_password APP_PASSWORD
CREATE ROLE commonplace_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE commonplace_app LOGIN PASSWORD :'app_password';
CREATE DATABASE commonplace OWNER commonplace_owner;
\connect commonplace
ALTER SCHEMA public OWNER TO commonplace_owner;
CREATE EXTENSION vector;
-- Row-level security permits an index only for functions that are known to reveal nothing about other rows.
ALTER FUNCTION pg_catalog.ts_match_vq(tsvector, tsquery) LEAKPROOF;
ALTER FUNCTION pg_catalog.arrayoverlap(anyarray, anyarray) LEAKPROOF;
ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF;
ALTER FUNCTION pg_catalog.jsonb_contains(jsonb, jsonb) LEAKPROOF;
