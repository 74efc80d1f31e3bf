"""The ends of 64-bit numbers, and the name of the main output."""

MAX_LONG_VALUE = 2**63 - 1
MIN_LONG_VALUE = -(2**63)
DEFAULT_OUTPUT_TAG = ""
