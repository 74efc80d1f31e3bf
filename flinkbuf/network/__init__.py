"""What moves: buffers, partitions, gates, events, compression, and the network of a process."""
