"""Parquet files as batches of columns: no object is made for a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.records.column_batch import without_dictionaries
from flinkbuf.streaming.sources.file_format import ColumnFormat
from flinkbuf.streaming.sources.file_split import FileSplit
from flinkbuf.streaming.sources.wanted_columns import batch_in

if TYPE_CHECKING:
    import pyarrow as pa

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

    def _rows_at_once(self, metadata: Any, groups: Sequence[int], names: Sequence[str]) -> int:
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


def groups_in(metadata: Any, split: FileSplit) -> list[int]:
    """Return the row groups that begin in a range."""
    starts = []
    for index in range(metadata.num_row_groups):
        column = metadata.row_group(index).column(0)
        dictionary = column.dictionary_page_offset
        starts.append(column.data_page_offset if dictionary is None else min(dictionary, column.data_page_offset))
    return [index for index, start in enumerate(starts) if split.start <= start < split.end]


def _behind(metadata: Any, groups: list[int], split: FileSplit) -> tuple[list[int], int]:
    """Return the row groups with rows that were not read before, and how many rows of the first were."""
    skipped = split.skipped
    for position, index in enumerate(groups):
        row_count = metadata.row_group(index).num_rows
        if skipped < row_count:
            return groups[position:], skipped
        skipped -= row_count
    if skipped:
        raise CorruptDataError(
            f"{split.path}: {split.skipped} rows were read of it before the job began again, and now there are "
            f"{split.skipped - skipped}: another file is in its place"
        )
    return [], 0
