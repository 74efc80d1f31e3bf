"""Segments, buffers, pools: who owns which block."""
