"""Finite parts of a stream: which there are, when they are complete, and what is made of their records."""
