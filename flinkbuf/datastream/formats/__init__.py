"""Formats of files and messages. PyFlink: pyflink.datastream.formats."""
