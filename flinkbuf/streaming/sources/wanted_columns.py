"""Which columns a source gives that gives batches, and how what it has found becomes these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import arrow_schema, batch_builder
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


_ALL: Final = 2**31 - 1  # rows, and bytes: a batch is not cut


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


@dataclass(frozen=True)
class MessageRows:
    """Reads messages one by one, as for records, where they cannot be read at once.

    Parameters
    ----------
    place : str
        What a message is, for whoever reads an error.
    row_type : RowTypeInfo
        Of the rows.
    found : pyarrow.Schema
        The same in Arrow.
    deserialize : callable
        Makes a row of a message; None: there is none in it.
    """

    place: str
    row_type: RowTypeInfo
    found: pa.Schema
    deserialize: Callable[[bytes], object]

    def read(self, messages: Sequence[bytes], schema: pa.Schema) -> tuple[pa.RecordBatch, list[int]]:
        """Return the rows of messages as a batch of a schema, and the numbers of the messages that have one."""
        import pyarrow as pa

        codec = self.row_type.codec
        gathered = RecordsToBatch(codec, batch_builder(codec, self.found, _ALL, _ALL))
        kept = []
        for index, message in enumerate(messages):
            row = self.deserialize(message)
            if row is not None:
                gathered.add_record(row)
                kept.append(index)
        batch = gathered.finish() if kept else pa.RecordBatch.from_pylist([], self.found)
        return batch_in(self.place, [batch.column(name) for name in schema.names], schema), kept


def kept_description(description: object, row_type: RowTypeInfo) -> RowTypeInfo | pa.Schema:
    """Return what a source keeps of what it was told of its rows; a schema knows the digits of decimals."""
    if isinstance(description, TypeInformation):
        return row_type
    try:
        return arrow_schema(description)
    except TypeError:  # a type that Arrow has not
        return row_type


def wanted_schema(wanted: object, row_type: RowTypeInfo, description: RowTypeInfo | pa.Schema) -> pa.Schema:
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


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


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
