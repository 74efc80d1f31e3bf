"""Which columns a source gives that gives batches, and how what it has found becomes these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import arrow_schema
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class MessageColumns:
    """Reads messages as batches of columns; a subclass says how in `read`.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of all batches.
    """

    schema: pa.Schema

    def read(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, list[int] | None]:
        """Return the rows of messages, in their order, and the numbers of those that have one; None: each has."""
        raise NotImplementedError(f"{type(self).__name__}.read")


def kept_description(description: Any, row_type: RowTypeInfo) -> RowTypeInfo | pa.Schema:
    """Return what a source keeps of what it was told of its rows; a schema knows the digits of decimals."""
    if isinstance(description, TypeInformation):
        return row_type
    try:
        return arrow_schema(description)
    except TypeError:  # a type that Arrow has not
        return row_type


def wanted_schema(wanted: Any, row_type: RowTypeInfo, description: RowTypeInfo | pa.Schema) -> pa.Schema:
    """Return the schema of the batches that are made of rows.

    Parameters
    ----------
    wanted : type, optional
        What ``DataStream.as_columns`` was told; None, or the type of the rows: all columns as they are described.
    row_type : RowTypeInfo
        Of the rows.
    description : RowTypeInfo or pyarrow.Schema
        What `kept_description` has kept of them.

    Raises
    ------
    ValueError
        If the rows have no column of a name.
    TypeError
        If a type has no column of Arrow, or values of the rows could never be of it.
    """
    if wanted is None or (isinstance(wanted, TypeInformation) and wanted == row_type):
        return arrow_schema(description)
    schema, names = arrow_schema(wanted), row_type.field_names
    missing = [name for name in schema.names if name not in names]
    if missing:
        raise ValueError(
            f"as_columns() was told of the column {missing[0]!r}, and the source has {', '.join(names)}: name "
            f"some of these or all, and call them otherwise by rename({names[0]}='another')"
        )
    _check_types(schema, description)
    return schema


def _check_types(schema: pa.Schema, description: RowTypeInfo | pa.Schema) -> None:
    """Refuse a type that values of the source are not of, whatever they are."""
    import pyarrow as pa

    try:
        found = arrow_schema(description)
    except TypeError:  # a type that Arrow has not, perhaps of a column that nobody wants
        return
    for field in schema:
        none = pa.array([], found.field(field.name).type)
        column_as(
            none, field.type, field.name, f"is {field.type} to as_columns()", "cast it in select() or with_columns()"
        )


def batch_in(place: str, columns: Iterable[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return columns that were found as a batch of a schema.

    Parameters
    ----------
    place : str
        Where they were found, for whoever reads the error.
    columns : iterable of pyarrow.Array
        In the order of the schema.
    schema : pyarrow.Schema

    Raises
    ------
    CorruptDataError
        If values do not fit the type of their column, or are null where none may be.
    """
    import pyarrow as pa

    made = []
    for field, column in zip(schema, columns, strict=True):
        try:
            made.append(column_as(column, field.type, field.name, f"is {field.type} to as_columns()", _ADVICE))
        except TypeError as error:
            raise CorruptDataError(f"{place}: {error}") from None
        if column.null_count and not field.nullable:
            raise CorruptDataError(f"{place}: column {field.name!r} has a null, and may have none to as_columns()")
    return pa.record_batch(made, schema=schema)


_ADVICE = "tell as_columns() of the type that it has there, and cast it in select() or with_columns()"
