"""Records to buffers and back: partitioners, writer and reader."""
