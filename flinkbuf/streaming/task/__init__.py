"""The task that runs a chain."""
