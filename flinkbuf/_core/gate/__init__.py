"""What one task reads."""
