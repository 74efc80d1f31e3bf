"""What `python -m flinkbuf` does, a file a command."""
