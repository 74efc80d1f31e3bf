"""Data sets of partition files: what outlives its writers, for any number of readers of any process.

A data set is a directory. Files of data lie in ``data``, and a manifest says which of them are the data set.
"""
