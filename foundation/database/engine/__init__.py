"""Django's PostgreSQL engine, with statements that run under the identity of `foundation.database.identity`."""
