"""Changes of tables of PostgreSQL, read from the log of its server."""
