"""Records in order, in memory and in files."""
