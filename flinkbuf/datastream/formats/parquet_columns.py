"""Parquet files as batches of columns, in and out: no object is made for a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.file_place import source_for_libraries
from flinkbuf.streaming.lakes.parquet_batches import batches_behind
from flinkbuf.streaming.lakes.parquet_writer import ParquetColumnWriter, batch_as
from flinkbuf.streaming.sources.file_format import ColumnFormat
from flinkbuf.streaming.sources.file_split import FileSplit
from flinkbuf.streaming.sources.wanted_columns import batch_in

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet

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
            with ParquetFile(source_for_libraries(split.path), buffer_size=_READ_BUFFER) as file:
                names = names_in(file.schema_arrow.names, self.schema.names, self.fold, split.path)
                groups = groups_in(file.metadata, split)
                for batch in batches_behind(file, groups, names, split, self.max_rows, self.max_bytes):
                    yield batch_in(split.path, [batch.column(name) for name in names], self.schema)
        except ArrowException as error:
            raise CorruptDataError(f"{split.path}: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise CorruptDataError(f"{split.path}: {error}") from error  # so says Arrow of pages that it cannot read


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
