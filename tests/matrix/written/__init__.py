"""The written programs: importing this fills `matrix.program.PROGRAMS`."""

from matrix.written import column_joins, column_keys, columns, joins, keyed, transformations, windows  # noqa: F401
