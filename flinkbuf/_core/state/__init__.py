"""Keyed state and timers."""
