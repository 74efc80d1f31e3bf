"""Records and batches into partitions, and out of gates."""
