"""What one task has written for others."""
