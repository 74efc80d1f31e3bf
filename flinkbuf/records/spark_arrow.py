"""Spark's types in Arrow, by PySpark's own functions, which take more arguments from version to version."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructType


def arrow_type_of(data_type: DataType, time_zone: str = "UTC", prefers_large_types: bool = False) -> pyarrow.DataType:
    """Return the type that Spark exchanges such values in.

    Raises
    ------
    PySparkTypeError
        If Arrow has none.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(data_type, **_options(to_arrow_type, time_zone, prefers_large_types))


def arrow_schema_of(schema: StructType, time_zone: str = "UTC", prefers_large_types: bool = False) -> pyarrow.Schema:
    """Return the schema of the batches that Spark exchanges such rows in; errors as for `arrow_type_of`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, **_options(to_arrow_schema, time_zone, prefers_large_types))


def knows_large_types() -> bool:
    """Whether this PySpark can be asked for texts with offsets of 8 bytes."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return "prefers_large_types" in inspect.signature(to_arrow_schema).parameters


def _options(function: Any, time_zone: str, prefers_large_types: bool) -> dict[str, Any]:
    """Return the options that the function has; without a time zone some versions would ask a session for it."""
    wanted = {"timezone": time_zone, "prefers_large_types": prefers_large_types}
    known = inspect.signature(function).parameters
    return {name: value for name, value in wanted.items() if name in known}
