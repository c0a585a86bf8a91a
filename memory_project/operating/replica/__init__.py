"""Reads from a replica of the database: what it must have replayed, and the state that the System page shows."""
