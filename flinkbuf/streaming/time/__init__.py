"""Clocks, watermarks and timers by processing time."""
