"""Loops over records: one for each kind of operator."""
