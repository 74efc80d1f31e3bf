"""Tests that fail by chance now and then, each with the reason and what was done to find its cause.

Only these have a second try, and the summary of a run shows what failed at the first. A test comes here when its
failure was read to its cause, and the cause is neither in the package nor in the test; else it is repaired.
"""

# "tests/folder/test_file.py::test_name": "why it fails now and then; what was done to find out"
KNOWN_FLAKES: dict[str, str] = {}
