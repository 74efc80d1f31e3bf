"""The queries, q0 to q23: each a module with a function ``query(events)`` that returns the stream of its results."""
