"""Row groups of a Parquet file as batches, behind the rows that were read before a restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from flinkbuf.records.column_batch import without_dictionaries
from flinkbuf.streaming.sources.split_reader import rows_missing

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet


class ReadBefore(Protocol):
    """A split that knows how many of its rows were read before a restore."""

    @property
    def path(self) -> str:
        """Return where its file is."""
        ...

    @property
    def skipped(self) -> int:
        """Return how many of its rows were read."""
        ...


def batches_behind(
    file: pyarrow.parquet.ParquetFile,
    groups: list[int],
    names: Sequence[str],
    split: ReadBefore,
    max_rows: int,
    max_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of row groups behind those that were skipped: whole row groups of these are not read."""
    groups, left = _behind(file.metadata, groups, split)
    if not groups:
        return
    row_count = _rows_at_once(file.metadata, groups, names, max_rows, max_bytes)
    for batch in file.iter_batches(row_count, groups, list(names), use_threads=False):
        rest = batch.slice(left)
        left -= batch.num_rows - rest.num_rows
        if rest.num_rows:
            yield without_dictionaries(rest)


def _rows_at_once(
    metadata: pyarrow.parquet.FileMetaData, groups: Sequence[int], names: Sequence[str], max_rows: int, max_bytes: int
) -> int:
    """Return how many rows a batch has: few where they are wide."""
    widest = 1.0
    for index in groups:
        group = metadata.row_group(index)
        columns = map(group.column, range(group.num_columns))
        size = sum(each.total_uncompressed_size for each in columns if _top(each.path_in_schema, names))
        widest = max(widest, size / group.num_rows if group.num_rows else 0)
    return max(1, min(max_rows, int(max_bytes / widest)))


def _top(path: str, names: Sequence[str]) -> bool:
    return path in names or path.partition(".")[0] in names


def _behind(metadata: pyarrow.parquet.FileMetaData, groups: list[int], split: ReadBefore) -> tuple[list[int], int]:
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
