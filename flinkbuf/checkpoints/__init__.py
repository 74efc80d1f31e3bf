"""Checkpoints on their way to storage and back: what they are made of, the bytes of it, and where the files lie.

Tasks write state and job masters write ``_metadata``; both read them again. When is decided elsewhere.
"""
