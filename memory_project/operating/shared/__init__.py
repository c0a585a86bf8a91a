"""Several machines with one database: the secret key that they share, tasks, files, caches, and static files."""
