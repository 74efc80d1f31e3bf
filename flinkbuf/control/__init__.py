"""The control plane: authenticated messages between a driver and its workers."""
