"""Queries as column programs: each a module with a function ``query(events)`` that takes blocks of events.

It returns the column stream of its results, which are those of the query of the same name over records.
"""
