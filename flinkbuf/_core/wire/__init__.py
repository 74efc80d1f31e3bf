"""Partitions over a connection."""
