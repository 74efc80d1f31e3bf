"""Sockets, files, timers and the I/O thread."""
