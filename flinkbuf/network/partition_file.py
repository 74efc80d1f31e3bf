"""PartitionFile: a finished blocking partition on disk, written by this process or another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from flinkbuf._core.partition.partition_file import PartitionFile as _PartitionFile
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf._core.partition.result_partition import ResultPartition as _ResultPartition
from flinkbuf._core.partition.sort_merge_partition import open_partition_file
from flinkbuf._core.partition.subpartition import AvailabilityListener, SubpartitionView
from flinkbuf.network.blocking_storage import default_read_pool
from flinkbuf.network.buffer import Buffer
from flinkbuf.network.compression import BufferDecompressor
from flinkbuf.network.io_manager import IOManager, default_io_manager

_MAX_BUFFER_SIZE = 2**24  # bytes; nobody has larger segments, and a file may claim anything


class PartitionRegion(NamedTuple):
    """What was written in one go: the blocks of each subpartition, one behind the other."""

    number: int
    is_broadcast: bool
    """The blocks are there once, for all subpartitions."""
    entries: tuple[tuple[int, int], ...]
    """Of each subpartition, where its blocks begin in the data file, and how many bytes they have."""


def regions_of(file: _PartitionFile) -> Iterator[PartitionRegion]:
    """The regions of a file, in their order."""
    for index in range(file.region_count):
        entries = tuple(file.entry(index, number) for number in range(file.subpartition_count))
        is_broadcast = len(entries) > 1 and entries[0][1] > 0 and len(set(entries)) == 1
        yield PartitionRegion(index, is_broadcast, entries)


class PartitionFile:
    """Read the files that a sort-merge partition has left: ``BLOCKING_PERSISTENT``, finished and closed.

    Made by `open`. It is a source of channels for `InputGate`, any number of times and of readers, and a context
    manager.

    Attributes
    ----------
    path : str
        What the names of the files begin with.

    Raises
    ------
    FileNotFoundError
        One of the files is not there, or the partition was never finished.
    CorruptDataError
        From `open` and from whoever reads: the files are cut off, damaged or something else; the message has file and
        byte offset.

    References
    ----------
    Flink ``PartitionedFile``, ``PartitionedFileReader``; bytes in tests/golden/partition_file.

    Examples
    --------
    >>> import flinkbuf as fb, tempfile
    >>> pool = fb.NetworkBufferPool(16, segment_size=4096)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     partition = fb.ResultPartition(pool, 3, "BLOCKING_PERSISTENT", f"{folder}/squares")
    ...     with fb.RecordWriter(partition, fb.Types.INT(), lambda number, count: number % count) as writer:
    ...         _ = writer.emit_all(number * number for number in range(6))
    ...     partition.close()
    ...     with fb.network.PartitionFile.open(f"{folder}/squares") as file:
    ...         file.subpartition_count
    ...         with fb.InputGate([(file, 1)]) as gate:
    ...             list(fb.RecordReader(gate, fb.Types.INT()))
    3
    [1, 4, 16, 25]
    """

    path: str

    def __init__(self) -> None:
        raise TypeError("partition files are opened with PartitionFile.open(path)")

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        subpartition_count: int = 0,
        compression: str = "LZ4",
        max_buffer_size: int = _MAX_BUFFER_SIZE,
        io_manager: IOManager | None = None,
        read_pool: ReadBufferPool | None = None,
    ) -> PartitionFile:
        """Open a finished partition.

        Parameters
        ----------
        path : path
            As `ResultPartition` had it, without ``.shuffle.data``.
        subpartition_count : int, optional
            How many it has; found out from the index if left out, and checked otherwise.
        compression : {"LZ4", "ZSTD"}
            What restores buffers that are compressed, if there are any; the files do not say.
        max_buffer_size : int, default 16777216
            Bytes of the largest restored buffer that is accepted.
        io_manager : IOManager, optional
            Whose threads read; the process's own if left out.
        read_pool : ReadBufferPool, optional
            The memory that is read into; the process's own (64 MiB) if left out.
        """
        self = object.__new__(cls)
        self.path = os.fspath(path)
        self._file = _PartitionFile(self.path, subpartition_count)
        self._partition = open_partition_file(
            self._file,
            read_pool=read_pool or default_read_pool(),
            executor=(io_manager or default_io_manager()).reader_executor(self.path),
        )
        self._partition.decompressor = BufferDecompressor(compression, max_buffer_size)
        self._is_closed = False
        return self

    _file: _PartitionFile
    _partition: _ResultPartition
    _is_closed: bool

    def __enter__(self) -> PartitionFile:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._is_closed else f", {self.subpartition_count} subpartitions"
        return f"<PartitionFile {self.path!r}{state}>"

    @property
    def subpartition_count(self) -> int:
        """How many streams it holds."""
        return self._file.subpartition_count

    @property
    def region_count(self) -> int:
        """How many regions it was written in; reading a subpartition jumps as often."""
        return self._file.region_count

    @property
    def data_size(self) -> int:
        """Bytes of the data file."""
        return self._file.data_size

    @property
    def regions(self) -> Iterator[PartitionRegion]:
        """Its regions, in the order of the file."""
        return regions_of(self._file)

    def subpartition_size(self, subpartition: int) -> int:
        """Bytes that the reader of a subpartition reads, headers of blocks and broadcast regions included."""
        self._check_index(subpartition)
        return sum(self._file.entry(index, subpartition)[1] for index in range(self.region_count))

    def buffers(self, subpartition: int) -> Iterator[Buffer]:
        """Read a subpartition from beginning to end, in the calling thread.

        Yields
        ------
        Buffer
            Data and events, in order, restored if they were compressed; the last one is the end of the partition.
        """
        self._check_open()
        self._check_index(subpartition)
        for data_type, is_compressed, data in self._file.buffers(subpartition):
            original = self._partition.decompressor.decompress(data) if is_compressed else data
            yield Buffer.copy_of(original, data_type)

    def create_view(self, subpartition: int, listener: AvailabilityListener | None = None) -> SubpartitionView:
        """Attach a reader that is read ahead for, as `ResultPartition.create_view`. Its buffers are as in the file."""
        self._check_open()
        return self._partition.create_view(subpartition, listener)

    def close(self) -> None:
        """Let go of the files, which stay. Who is reading them goes on. Idempotent."""
        self._is_closed = True

    @property
    def source(self) -> _ResultPartition:
        """What an `InputGate` reads."""
        self._check_open()
        return self._partition

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"the partition file {self.path} is closed")

    def _check_index(self, subpartition: int) -> None:
        if not 0 <= subpartition < self.subpartition_count:
            raise IndexError(f"subpartition {subpartition} of {self.path}, which has {self.subpartition_count}")
