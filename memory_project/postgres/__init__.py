"""The embedded PostgreSQL, used when DATABASE_URL is unset.

`base` is the Django database engine, which starts the server at the first connection if it is not running.
`server` runs the bundled binaries: initdb, start, stop, status, repair.
"""
