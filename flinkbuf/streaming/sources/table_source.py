"""A source of a table in memory: Arrow columns, as pyarrow, polars and pandas have them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import plain_type, record_type, records_of
from flinkbuf.streaming.columns.column_functions import check_differ
from flinkbuf.streaming.sources.source import EnumeratorContext, ReaderContext, Source, SourceReader, SplitEnumerator
from flinkbuf.streaming.sources.split_reader import BatchReader, QueueEnumerator, SplitReader
from flinkbuf.streaming.sources.wanted_columns import batch_in, wanted_schema
from flinkbuf.types.type_information import RowTypeInfo

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_OF_RECORDS = 1024  # rows that are looked at at once where records are made of them


def is_table(value: object) -> bool:
    """Whether a value is a table by the Arrow PyCapsule interface, rather than one column, or a list of values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> [is_table(value) for value in (pa.table({"n": [1]}), pa.array([1]), [pa.table({"n": [1]})])]
    [True, False, False]
    """
    is_arrow = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return is_arrow and not isinstance(value, type) and (hasattr(value, "columns") or hasattr(value, "read_all"))


def plain_table(data: object) -> pa.Table:
    """Return a table of plain columns, which does not change when what it is made of does.

    Dictionaries, views, run ends and extension types become the type that their values have. An index of pandas is a
    column if it has a name.

    Raises
    ------
    TypeError
        If Arrow cannot give a column as a plain one.
    ValueError
        If there is no column, or several have one name.
    """
    import pyarrow as pa

    table = pa.table(data)
    is_own = not isinstance(data, (pa.Table, pa.RecordBatch))
    if is_own:
        unnamed = [name for name in table.column_names if name.startswith("__index_level_")]
        table = table.drop_columns(unnamed)
    if not table.num_columns:
        raise ValueError("a table without columns has no rows that a stream could be made of")
    check_differ(table.column_names, "the table of from_collection()")
    columns = {name: _plain_column(table.column(name), name) for name in table.column_names}
    fields = [field.with_type(columns[field.name].type).remove_metadata() for field in table.schema]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    return _of_bytes(_bytes_of(table)) if is_own else table  # a frame may be over memory that its owner writes to


def _plain_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    import pyarrow as pa

    type_ = plain_type(column.type)
    if type_ == column.type:
        return column
    try:
        return pa.chunked_array([_plain_array(chunk) for chunk in column.chunks], type_)
    except pa.ArrowException as error:
        raise TypeError(f"column {name!r} is {column.type}, which Arrow does not give as {type_}: {error}") from None


def _plain_array(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        return _plain_array(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        return _plain_array(pc.run_end_decode(array))
    if isinstance(array.type, pa.BaseExtensionType):
        return _plain_array(array.storage)
    return array.cast(plain_type(array.type))


def _bytes_of(table: pa.Table) -> bytes:
    import pyarrow as pa

    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    data: bytes = target.getvalue().to_pybytes()
    return data


def _of_bytes(data: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


@dataclass(frozen=True)
class TableSplit:
    """The rows from `start` on and before `end`."""

    split_id: str
    start: int
    end: int


class TableSource(Source):
    """Reads the rows of a table, in as many parts as there are subtasks; each in its order.

    Parameters
    ----------
    table : pyarrow.Table
        As `plain_table` gives it.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        row_type = record_type(table.schema)
        assert isinstance(row_type, RowTypeInfo), "of a schema"
        self._row_type = row_type

    def __getstate__(self) -> bytes:
        return _bytes_of(self._table)  # of a part of larger arrays, that part alone

    def __setstate__(self, state: bytes) -> None:
        TableSource.__init__(self, _of_bytes(state))

    def get_produced_type(self) -> RowTypeInfo:
        """Return the type of its rows."""
        return self._row_type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """One part for each subtask."""
        count, parts = self._table.num_rows, context.parallelism
        ends = [count * part // parts for part in range(parts + 1)]
        ranges = enumerate(itertools.pairwise(ends), 1)
        return QueueEnumerator(context, [TableSplit(str(part), *range_) for part, range_ in ranges])

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Sequence[TableSplit]) -> SplitEnumerator:
        """The parts that nobody had."""
        return QueueEnumerator(context, checkpoint)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as records."""
        return TableReader(context, self._table, self._row_type)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[TableColumnSource, pa.Schema]:
        """Return a source of the same rows as batches of columns, and their schema."""
        schema = wanted_schema(wanted, self._row_type, self._table.schema)
        return TableColumnSource(self._table, schema, max_rows, max_bytes), schema


class TableColumnSource(TableSource):
    """Reads the rows of a table as batches of columns. Its checkpoints are those of a source of the same rows."""

    def __init__(self, table: pa.Table, schema: pa.Schema, max_rows: int, max_bytes: int) -> None:
        super().__init__(table.select(schema.names))
        self._schema, self._max_rows, self._max_bytes = schema, max_rows, max_bytes

    def __getstate__(self) -> Any:
        return super().__getstate__(), self._schema, self._max_rows, self._max_bytes

    def __setstate__(self, state: Any) -> None:
        TableColumnSource.__init__(self, _of_bytes(state[0]), *state[1:])

    def get_produced_type(self) -> None:  # type: ignore[override]
        """Return None: the records are batches."""

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read rows as batches."""
        table = self._table
        width = table.nbytes / table.num_rows if table.num_rows else 1
        row_count = max(1, min(self._max_rows, int(self._max_bytes / max(width, 1))))
        return TableColumnReader(context, table, self._schema, row_count)


class TableReader(SplitReader):
    """Reads parts of a table as records."""

    def __init__(self, context: ReaderContext, table: pa.Table, row_type: RowTypeInfo) -> None:
        super().__init__(context)
        self._table, self._row_type = table, row_type

    def open_split(self, split: TableSplit) -> Iterator[Any]:
        """Return the rows of a part."""
        batches = _rows_of(self._table, split).to_batches(_ROWS_OF_RECORDS)
        return records_of(batches, self._row_type.codec)

    def split_after(self, split: TableSplit, record_count: int) -> TableSplit:
        """Return the rest."""
        return replace(split, start=split.start + record_count)


class TableColumnReader(BatchReader):
    """Reads parts of a table as batches."""

    def __init__(self, context: ReaderContext, table: pa.Table, schema: pa.Schema, row_count: int) -> None:
        super().__init__(context)
        self._table, self._schema, self._row_count_wanted = table, schema, row_count

    def read_batches(self, split: TableSplit) -> Iterator[pa.RecordBatch]:
        """Return the rows of a part, over the memory of the table."""
        for batch in _rows_of(self._table, split).to_batches(self._row_count_wanted):
            yield batch_in("the table of from_collection()", batch.columns, self._schema)

    def split_behind(self, split: TableSplit, row_count: int) -> TableSplit:
        """Return the rest."""
        return replace(split, start=split.start + row_count)


def _rows_of(table: pa.Table, split: TableSplit) -> pa.Table:
    if split.end > table.num_rows:
        raise CorruptDataError(
            f"the job goes on behind row {split.start} of {split.end} that the table of from_collection() had, and "
            f"now it has {table.num_rows}: give the table that was read before"
        )
    return table.slice(split.start, split.end - split.start)
