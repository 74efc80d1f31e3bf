"""Codes, bytes, the bell, compression."""
