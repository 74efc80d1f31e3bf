"""Parquet files as batches of columns, in and out: no object is made for a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from flinkbuf.errors import CorruptDataError
from flinkbuf.records.column_batch import without_dictionaries
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.sources.file_format import ColumnFormat
from flinkbuf.streaming.sources.file_split import FileSplit
from flinkbuf.streaming.sources.split_reader import rows_missing
from flinkbuf.streaming.sources.wanted_columns import batch_in

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet

ROWS_PER_GROUP = 65_536  # rows that are kept until they are written, as one row group
_BYTES_PER_GROUP = 64 << 20  # of which a row group has not many more
_READ_BUFFER = 1 << 20  # bytes of a column that are read at once; otherwise all that a row group has of it


@dataclass(frozen=True)
class ParquetColumns(ColumnFormat):
    """Reads the row groups that begin in a range, batch by batch.

    Parameters
    ----------
    schema : pyarrow.Schema
    fold : callable
        What names of columns are compared by.
    max_rows, max_bytes : int
        Of a batch; it has fewer rows where the file says that they are wide.
    """

    schema: pa.Schema
    fold: Callable[[str], str]
    max_rows: int
    max_bytes: int

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows behind those that were skipped: whole row groups of these are not read."""
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(split.path, buffer_size=_READ_BUFFER) as file:
                names = names_in(file.schema_arrow.names, self.schema.names, self.fold, split.path)
                groups, left = _behind(file.metadata, groups_in(file.metadata, split), split)
                if not groups:
                    return
                row_count = self._rows_at_once(file.metadata, groups, names)
                for batch in file.iter_batches(row_count, groups, names, use_threads=False):
                    rest = batch.slice(left)
                    left -= batch.num_rows - rest.num_rows
                    if rest.num_rows:
                        plain = without_dictionaries(rest)
                        yield batch_in(split.path, [plain.column(name) for name in names], self.schema)
        except ArrowException as error:
            raise CorruptDataError(f"{split.path}: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise CorruptDataError(f"{split.path}: {error}") from error  # so says Arrow of pages that it cannot read

    def _rows_at_once(self, metadata: pyarrow.parquet.FileMetaData, groups: Sequence[int], names: Sequence[str]) -> int:
        """Return how many rows a batch has: few where they are wide."""
        widest = 1.0
        for index in groups:
            group = metadata.row_group(index)
            columns = map(group.column, range(group.num_columns))
            size = sum(each.total_uncompressed_size for each in columns if _top(each.path_in_schema, names))
            widest = max(widest, size / group.num_rows if group.num_rows else 0)
        return max(1, min(self.max_rows, int(self.max_bytes / widest)))


def _top(path: str, names: Sequence[str]) -> bool:
    return path in names or path.partition(".")[0] in names


def names_in(found: Sequence[str], wanted: Sequence[str], fold: Callable[[str], str], path: str) -> list[str]:
    """Return how a file calls its columns.

    Raises
    ------
    CorruptDataError
        If one is missing, or it is not known which is meant.
    """
    folded = [fold(name) for name in found]
    by_name = dict(zip(folded, found, strict=True))
    missing = [name for name in wanted if fold(name) not in by_name]
    if missing:
        raise CorruptDataError(f"{path}: no column is called {', '.join(missing)}; there are {', '.join(found)}")
    for name in wanted:
        if folded.count(fold(name)) > 1:
            raise CorruptDataError(f"{path}: several columns are called {name}; there are {', '.join(found)}")
    return [by_name[fold(name)] for name in wanted]


def groups_in(metadata: pyarrow.parquet.FileMetaData, split: FileSplit) -> list[int]:
    """Return the row groups that begin in a range."""
    starts = []
    for index in range(metadata.num_row_groups):
        column = metadata.row_group(index).column(0)
        dictionary = column.dictionary_page_offset
        starts.append(column.data_page_offset if dictionary is None else min(dictionary, column.data_page_offset))
    return [index for index, start in enumerate(starts) if split.start <= start < split.end]


def _behind(metadata: pyarrow.parquet.FileMetaData, groups: list[int], split: FileSplit) -> tuple[list[int], int]:
    """Return the row groups with rows that were not read before, and how many rows of the first were."""
    skipped = split.skipped
    for position, index in enumerate(groups):
        row_count = metadata.row_group(index).num_rows
        if skipped < row_count:
            return groups[position:], skipped
        skipped -= row_count
    if skipped:
        raise rows_missing(split.path, split.skipped, skipped)
    return [], 0


@dataclass(frozen=True)
class ParquetColumnFiles:
    """Makes what writes the batches of a column stream into a file.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the files; columns are found by their names.
    """

    schema: pa.Schema

    def __call__(self, file: IO[bytes]) -> ParquetColumnWriter:
        return ParquetColumnWriter(self.schema, file)

    def check(self, schema: pa.Schema) -> None:
        """Refuse a stream with other columns, or with values that are never of the type that they have in the files.

        Raises
        ------
        ValueError, TypeError
            With the name of the column.
        """
        import pyarrow as pa

        batch_as(pa.RecordBatch.from_pylist([], schema), self.schema)


class ParquetColumnWriter:
    """Writes the batches of one file, put together to row groups."""

    def __init__(self, schema: pa.Schema, file: IO[bytes]) -> None:
        from pyarrow.parquet import ParquetWriter

        self._schema = schema
        self._writer = ParquetWriter(file, schema)
        self._kept: list[pa.RecordBatch] = []
        self._row_count = self._byte_count = 0  # of these

    def add_element(self, element: pa.RecordBatch) -> None:
        """Keep one batch; a full row group is written."""
        batch = batch_as(element, self._schema)
        self._kept.append(batch)
        self._row_count += batch.num_rows
        self._byte_count += batch.nbytes
        if self._row_count >= ROWS_PER_GROUP or self._byte_count >= _BYTES_PER_GROUP:
            self._write_groups()

    def flush(self) -> None:
        """Nothing: a row group that is begun cannot be read."""

    def finish(self) -> None:
        """Write the rest and the footer."""
        self._write_groups()
        self._writer.close()

    def abandon(self) -> None:
        """Let pyarrow end the file now; it would try to when the file is closed already."""
        self._writer.close()

    def _write_groups(self) -> None:
        import pyarrow as pa

        kept, self._kept, self._row_count, self._byte_count = self._kept, [], 0, 0
        if kept:
            self._writer.write_table(pa.Table.from_batches(kept, self._schema), 2 * ROWS_PER_GROUP)


def batch_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a stream as the files of a sink have it, whose columns it has in any order.

    Raises
    ------
    ValueError, TypeError
        If it has other columns, or values that do not fit.
    """
    import pyarrow as pa

    if batch.schema.equals(schema):
        return batch
    found = batch.schema.names
    if sorted(found) != sorted(schema.names):
        raise ValueError(
            f"the sink writes the columns {', '.join(schema.names)}, and the column stream has "
            f"{', '.join(found) or 'none'}: say select(...) before sink_to()"
        )
    columns = [
        column_as(batch.column(each.name), each.type, each.name, f"is {each.type} in the files") for each in schema
    ]
    return pa.record_batch(columns, schema=schema)
