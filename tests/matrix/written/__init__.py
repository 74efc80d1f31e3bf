"""The written programs: importing this fills `matrix.program.PROGRAMS`."""

from matrix.written import columns, joins, keyed, transformations, windows  # noqa: F401
