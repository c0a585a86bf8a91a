"""The embedded PostgreSQL, used when DATABASE_URL is unset.

`base` is the Django database engine, which starts the server at the first connection if it is not running.
`server` initializes, starts, repairs and stops the server with the bundled binaries.
"""
