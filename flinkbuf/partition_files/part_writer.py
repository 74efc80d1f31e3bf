"""What one task of a write does: batches of columns into a partition file, each row to its key's subpartition."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from flinkbuf._core.partition.sort_merge_partition import written_file
from flinkbuf.config import NetworkConfig
from flinkbuf.network.partition import NetworkBufferPool, ResultPartition
from flinkbuf.partition_files.data_set import DATA_SUFFIX
from flinkbuf.partition_files.manifest import DataFile, Layout
from flinkbuf.partition_files.pruning import null_subpartition
from flinkbuf.records.partitioner import by_key
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.types.types import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

_LEAST_SEGMENTS = 2  # what a sort-merge partition can do with


def write_part(
    batches: Iterable[pa.RecordBatch],
    layout: Layout,
    record_type: TypeInformation,
    begin: Callable[[], str],
    check: Callable[[], None] = lambda: None,
    *,
    memory: int,
    compression: str | None = None,
) -> list[DataFile]:
    """Write the rows of one task.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Pulled one by one.
    layout : Layout
        Of the data set.
    record_type : TypeInformation
        Of the rows.
    begin : callable
        Gives the base path of a new file; not called where there are no rows.
    check : callable, optional
        Called when the file is whole; what it raises removes the file again.
    memory : int
        Bytes of buffers that may wait to be written.
    compression : {None, "LZ4", "ZSTD"}

    Returns
    -------
    list of DataFile
        None for no rows, else one, finished and synced. After an error there is no file.
    """
    rows = ((None, batch) for batch in batches if batch.num_rows)
    return _write(rows, layout, record_type, begin, check, memory, compression)


def rewrite_part(
    subpartitions: Iterable[tuple[int, Iterable[pa.RecordBatch]]],
    layout: Layout,
    record_type: TypeInformation,
    begin: Callable[[], str],
    *,
    memory: int,
    compression: str | None = None,
) -> list[DataFile]:
    """Write rows that have found their subpartitions before, each of them in the given order; see `write_part`."""
    rows = ((index, batch) for index, batches in subpartitions for batch in batches if batch.num_rows)
    return _write(rows, layout, record_type, begin, lambda: None, memory, compression)


def _write(
    rows: Iterator[tuple[int | None, pa.RecordBatch]],
    layout: Layout,
    record_type: TypeInformation,
    begin: Callable[[], str],
    check: Callable[[], None],
    memory: int,
    compression: str | None,
) -> list[DataFile]:
    first = next(rows, None)
    if first is None:
        return []
    count, segment_size = layout.subpartition_count, NetworkConfig().segment_size
    segments = max(_LEAST_SEGMENTS, memory // segment_size)
    pool = NetworkBufferPool(segments + 1, segment_size)
    try:
        with ResultPartition(
            pool, count, "BLOCKING_PERSISTENT", begin(), compression=compression, sort_buffers=segments
        ) as partition:
            writer = _PartWriter(partition, layout, record_type)
            for place, batch in itertools.chain((first,), rows):
                writer.write(batch) if place is None else writer.write_to(place, batch)
            found = writer.finish(segment_size, compression)
            check()
            _check_kept(partition)
    finally:
        pool.close()
    return [found]


def _check_kept(partition: ResultPartition) -> None:
    """See whether the job was aborted while this task went on.

    This is looked at last: whoever aborts from now on finds both files.
    """
    path = f"{partition.path}{DATA_SUFFIX}"
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "this file was removed while it was written: its job was aborted", path)


class _PartWriter:
    """The rows of one task on their way into a partition.

    A key of one column that is null has no hash: such rows go where the hash code 0 leads.
    """

    def __init__(self, partition: ResultPartition, layout: Layout, record_type: TypeInformation) -> None:
        key: object = layout.key if len(layout.key) > 1 else "".join(layout.key)
        partitioner = by_key(key, max_parallelism=layout.max_parallelism) if key else "rebalance"
        self._partition = partition
        self._writer = RecordWriter(partition, record_type, partitioner, -1)
        self._key = layout.key[0] if len(layout.key) == 1 else None
        self._null_place = null_subpartition(layout.subpartition_count, layout.max_parallelism)
        self._bounds = _KeyBounds(self._key)

    def write(self, batch: pa.RecordBatch) -> None:
        found = batch
        if self._key is not None:
            column = batch.column(self._key)
            if column.null_count:
                nulls = batch.filter(column.is_null())
                self._writer.emit_batch(nulls, [self._null_place] * nulls.num_rows)
                found = batch.filter(column.is_valid())
        if found.num_rows:
            self._bounds.note(found)
            self._writer.emit_batch(found)

    def write_to(self, place: int, batch: pa.RecordBatch) -> None:
        """Write rows that all belong to one subpartition."""
        if self._key is not None:
            self._bounds.note(batch)
        self._writer.emit_batch(batch, np.full(batch.num_rows, place))

    def finish(self, segment_size: int, compression: str | None) -> DataFile:
        """Write what is left, and tell what is in the file."""
        self._writer.stop()
        self._partition.finish()
        records = tuple(each["records"] for each in self._partition.subpartition_usage())
        file = written_file(self._partition)
        assert file is not None and file.sums is not None, "a persistent partition is summed"
        return DataFile(
            os.path.basename(file.path),
            file.data_size,
            file.index_size,
            file.index_crc32,
            records,
            tuple(size for size, _ in file.sums),
            tuple(checksum for _, checksum in file.sums),
            segment_size,
            compression,
            *self._bounds.texts(),
        )


class _KeyBounds:
    """The smallest and the largest value of a key of one column, where that is cheap to know."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._bounds: tuple[object, object] | None = None

    def note(self, batch: pa.RecordBatch) -> None:
        """Look at the rows of a batch."""
        if self._name is None:
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        column = batch.column(self._name)
        simple = (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_date,
            pa.types.is_timestamp,
            pa.types.is_decimal,
        )
        if not (any(fits(column.type) for fits in simple) or pa.types.is_string(column.type)):
            self._name = None
            return
        found = pc.min_max(column).as_py()
        if found["min"] is None:
            return
        before = self._bounds or (found["min"], found["max"])
        self._bounds = (min(before[0], found["min"]), max(before[1], found["max"]))

    def texts(self) -> tuple[str | None, str | None]:
        """Both as text."""
        if self._bounds is None or self._name is None:
            return None, None
        return str(self._bounds[0]), str(self._bounds[1])
