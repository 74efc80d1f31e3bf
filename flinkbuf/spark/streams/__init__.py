"""State of keys inside Structured Streaming."""
