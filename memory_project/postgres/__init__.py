"""The embedded PostgreSQL that serves when DATABASE_URL is unset.

`base` is the Django database engine: it starts the server when nobody has, at the first connection.
`server` runs the bundled binaries: initialise, start, stop, status, repair.
"""
