"""Arrow columns to records and back."""
