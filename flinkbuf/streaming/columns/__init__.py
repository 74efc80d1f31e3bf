"""Streams of column batches: what an operator does with rows as Arrow columns."""
