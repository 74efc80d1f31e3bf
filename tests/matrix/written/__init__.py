"""The written programs: importing this fills `matrix.program.PROGRAMS`."""

from matrix.written import joins, keyed, transformations, windows  # noqa: F401
