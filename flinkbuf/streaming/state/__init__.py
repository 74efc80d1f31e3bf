"""State of operators and of keys, its backends and snapshots."""
