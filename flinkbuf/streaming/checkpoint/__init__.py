"""Barriers, and how the state of a task is stored."""
