"""ResultPartition: what one task writes for its readers, and ResultPartitionID: how they name it."""

from __future__ import annotations

import operator
import os

from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.output_flusher import add_partition, remove_partition
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf._core.partition.result_partition import ResultPartition as _ResultPartition
from flinkbuf.network import blocking_storage as blocking
from flinkbuf.network.compression import BufferDecompressor
from flinkbuf.network.events import Event
from flinkbuf.network.io_manager import IOManager

PIPELINED_TYPES = ("PIPELINED", "PIPELINED_BOUNDED", "PIPELINED_APPROXIMATE")
PARTITION_TYPES = (*PIPELINED_TYPES, *blocking.BLOCKING_TYPES)  # by their numbers in the core


def buffer_limits(
    type: str, subpartition_count: int, buffers_per_channel: int, floating_buffers: int
) -> tuple[int, int | None]:
    """How many buffers a partition's pool has at least and at most (None: no limit).

    One more than there are subpartitions, since each may hold a partly filled buffer and the task goes on only
    while there is another. Flink: ``NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition``.

    Examples
    --------
    >>> buffer_limits("PIPELINED_BOUNDED", 100, buffers_per_channel=2, floating_buffers=8)
    (101, 208)
    >>> buffer_limits("PIPELINED", 100, buffers_per_channel=2, floating_buffers=8)
    (101, None)
    """
    minimum = subpartition_count + 1
    if type == "PIPELINED":
        return minimum, None
    return minimum, max(minimum, subpartition_count * max(1, buffers_per_channel) + floating_buffers)


class ResultPartitionID(bytes):
    """The name of a result partition: 60 bytes, in the order in which they stand in a PartitionRequest.

    First the partition (data set 16 bytes, number 4), then the producer's execution attempt (graph 16, job vertex 16,
    subtask 4, attempt 4): a task that is started again writes under another name, so readers of the old attempt
    are refused. It is a `bytes`: hashable, comparable, picklable.

    Parameters
    ----------
    data : bytes
        60 bytes.

    References
    ----------
    Flink ``ResultPartitionID``; bytes in tests/golden/netty_frames.

    Examples
    --------
    >>> partition_id = ResultPartitionID.random()
    >>> ResultPartitionID.from_hex(partition_id.hex()) == partition_id, len(partition_id)
    (True, 60)
    >>> ResultPartitionID.of(bytes(16), 3, bytes(16), bytes(16), subtask_index=7, attempt_number=1).hex()[32:40]
    '00000003'
    """

    __slots__ = ()
    SIZE = 60  # bytes

    def __new__(cls, data: object) -> ResultPartitionID:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"a result partition id is made of bytes, or by from_hex() of their digits, got {data!r:.80}"
            )
        self = super().__new__(cls, data)
        if len(self) != cls.SIZE:
            raise ValueError(f"a result partition id has {cls.SIZE} bytes, got {len(self)}")
        return self

    @classmethod
    def random(cls) -> ResultPartitionID:
        """A new one: random ids, partition 0, subtask 0, attempt 0."""
        return cls.of(os.urandom(16), 0, os.urandom(16), os.urandom(16))

    @classmethod
    def of(
        cls,
        data_set_id: bytes,
        partition_number: int,
        execution_graph_id: bytes,
        job_vertex_id: bytes,
        subtask_index: int = 0,
        attempt_number: int = 0,
    ) -> ResultPartitionID:
        """Put one together from its parts: ids of 16 bytes, numbers of 0 to 2**31 - 1."""
        for name, part in (
            ("data_set_id", data_set_id),
            ("execution_graph_id", execution_graph_id),
            ("job_vertex_id", job_vertex_id),
        ):
            if len(part) != 16:
                raise ValueError(f"{name} has 16 bytes, got {len(part)}")
        numbers = [
            number.to_bytes(4, "big", signed=True) for number in (partition_number, subtask_index, attempt_number)
        ]
        return cls(data_set_id + numbers[0] + execution_graph_id + job_vertex_id + numbers[1] + numbers[2])

    @classmethod
    def from_hex(cls, text: str) -> ResultPartitionID:
        """Read what `hex` gives: 120 digits."""
        return cls(bytes.fromhex(text))

    @classmethod
    def fromhex(cls, text: str, /) -> ResultPartitionID:
        """The same; the name that `bytes` has for it."""
        return cls.from_hex(text)

    def __repr__(self) -> str:
        return f"ResultPartitionID.from_hex({self.hex()!r})"


class ResultPartition(_ResultPartition):
    """What one task writes for its readers.

    Pipelined, it is a queue of buffers for each of them, read while it is written. Blocking, it is a set of files: read
    when it is finished, by any number of readers, at once and one after the other, also over the network.

    Parameters
    ----------
    pool : NetworkBufferPool
        Where its local pool borrows its buffers.
    subpartition_count : int
        How many streams it has: one for each reader that reads at the same time.
    type : {"PIPELINED_BOUNDED", "PIPELINED", "PIPELINED_APPROXIMATE", "BLOCKING", "BLOCKING_PERSISTENT"}
        BOUNDED limits the buffers in flight; APPROXIMATE lets a reader that was lost be replaced: the new one goes
        on with the next whole record. The files of a BLOCKING partition are deleted when it is released, or when nobody
        has it any more; those of a BLOCKING_PERSISTENT one that was finished and closed stay, for `PartitionFile`.
    path : path, optional
        Blocking only: what the names of its files begin with, such as ``"/data/result"``, which gives
        ``/data/result.shuffle.data`` and ``/data/result.shuffle.index``. Left out, they are temporary files of
        `io_manager`; a BLOCKING_PERSISTENT partition needs one.
    buffers_per_channel : int, default 2
        Pipelined only: buffers for each subpartition that the limit counts; ``network.memory.buffers-per-channel``.
    floating_buffers : int, default 8
        Pipelined only: buffers shared by all that the limit adds; ``network.memory.floating-buffers-per-gate``.
    max_buffers_per_channel : int, default 10
        Pipelined only: from so many buffers of one subpartition on, the partition reports itself unavailable;
        ``network.memory.max-buffers-per-channel``.
    max_overdraft : int, default 5
        Pipelined only: buffers above the limit that one record may still take;
        ``network.memory.max-overdraft-buffers-per-gate``. None with PIPELINED_APPROXIMATE.
    io_manager : IOManager, optional
        Blocking only: where temporary files go, and the threads that read; the process's own if left out.
    compression : {None, "LZ4", "ZSTD"}
        Blocking only: each buffer is compressed if that makes it smaller.
    storage : {"sort-merge", "file", "mmap", "auto"}
        Blocking only: one pair of files for all subpartitions, or one file for each, which is read from the file, from
        memory that it is mapped to, or as suits the machine; ``network.blocking-shuffle.type``.
    sort_buffers : int, default 512
        Blocking only: how many buffers it collects before it writes them, at most;
        ``network.sort-shuffle.min-buffers``. Memory does not grow with `subpartition_count` in a sort-merge partition.
    read_pool : ReadBufferPool, optional
        Blocking only: the memory that its readers read into; the process's own (64 MiB) if left out.

    Raises
    ------
    InsufficientBuffersError
        The network pool cannot guarantee ``subpartition_count + 1`` buffers; of a sort-merge partition, two.
    OSError
        Its files cannot be made, or (from what writes later) written; the message has path and byte offset. What was
        written of them is removed.
    ValueError
        For a combination that has no meaning.

    Notes
    -----
    One thread writes: `emit`, `broadcast`, events, `finish`, `close`. Each subpartition of a pipelined partition has
    one reader, in any thread. `release`, `fail` and `abort` may come from anywhere. Written bytes become readable when
    their buffer is full, at `flush` and `flush_all`, at an event, or by `start_flushing`; those of a blocking partition
    at `finish`. After the producer's `close` a pipelined partition lives on until its readers are done, a blocking one
    until it is released. As a context manager it closes at the end, or fails first if the block raised.

    References
    ----------
    Flink ``PipelinedResultPartition``, ``BufferWritingResultPartition``, ``SortMergeResultPartition``,
    ``BoundedBlockingResultPartition``; bytes in tests/golden/spanning and tests/golden/partition_file.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> pool = fb.NetworkBufferPool(16, segment_size=4096)
    >>> with ResultPartition(pool, 2) as partition:
    ...     partition.emit(b"\\0\\0\\0\\5hello", 1)
    ...     partition.finish()
    >>> with partition.create_view(1) as view:
    ...     buffer, backlog, next_data_type, sequence_number = view.poll()
    >>> bytes(buffer), backlog, next_data_type, sequence_number
    (b'\\x00\\x00\\x00\\x05hello', 0, 10, 0)

    Written once, read twice:

    >>> partition = ResultPartition(pool, 2, "BLOCKING", compression="LZ4")
    >>> with fb.RecordWriter(partition, fb.Types.INT(), fb.by_key("*")) as writer:
    ...     writer.emit_all(range(100))
    100
    >>> for _ in range(2):
    ...     with fb.InputGate([(partition, 0), (partition, 1)]) as gate:
    ...         print(sum(fb.RecordReader(gate, fb.Types.INT())))
    4950
    4950
    >>> partition.release()
    """

    _type: str
    path: str | None
    """What the names of its files begin with; None: it has none."""

    def __new__(
        cls,
        pool: NetworkBufferPool,
        subpartition_count: int,
        type: str = "PIPELINED_BOUNDED",
        path: str | os.PathLike[str] | None = None,
        *,
        buffers_per_channel: int = 2,
        floating_buffers: int = 8,
        max_buffers_per_channel: int = 10,
        max_overdraft: int = 5,
        io_manager: IOManager | None = None,
        compression: str | None = None,
        storage: str = "sort-merge",
        sort_buffers: int = blocking.SORT_BUFFERS,
        read_pool: ReadBufferPool | None = None,
    ) -> ResultPartition:
        if type not in PARTITION_TYPES:
            raise ValueError(f"type must be one of {', '.join(PARTITION_TYPES)}, got {type!r}")
        subpartition_count = operator.index(subpartition_count)
        if subpartition_count < 1:
            raise ValueError(f"subpartition_count must be at least 1, got {subpartition_count}")
        if type in blocking.BLOCKING_TYPES:
            _check_blocking(type, path, storage, sort_buffers)
            base = blocking.base_path(path, io_manager)
            opened = blocking.open_storage(
                storage, base, io_manager=io_manager, read_pool=read_pool, compression=compression
            )
            local_pool = blocking.create_pool(pool, subpartition_count, storage, sort_buffers)
            self = super().__new__(cls, local_pool, PARTITION_TYPES.index(type), subpartition_count, opened)
            if compression is not None:
                self.decompressor = BufferDecompressor(compression, pool.segment_size)
            self.path = base
        else:
            if path is not None or compression is not None or storage != "sort-merge":
                raise ValueError(f"path, compression and storage are for blocking partitions; this one is {type}")
            _check_limits(buffers_per_channel, floating_buffers, max_overdraft)
            minimum, maximum = buffer_limits(type, subpartition_count, buffers_per_channel, floating_buffers)
            local_pool = pool.create_buffer_pool(
                minimum,
                maximum,
                channel_count=subpartition_count,
                max_buffers_per_channel=max_buffers_per_channel,
                max_overdraft_buffers=0 if type == "PIPELINED_APPROXIMATE" else max_overdraft,
            )
            self = super().__new__(cls, local_pool, PARTITION_TYPES.index(type), subpartition_count)
            self.path = None
        self._type = type
        return self

    def __enter__(self) -> ResultPartition:
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        try:
            if exc is not None:
                self.fail(exc)
        finally:
            self.close()

    def __del__(self) -> None:
        # The flusher of this process would keep a forgotten partition for ever.
        if hasattr(self, "_type"):
            self.stop_flushing()

    def __repr__(self) -> str:
        states = [name for name in ("finished", "closed", "released") if getattr(self, f"is_{name}")]
        state = f" {', '.join(states)}" if states else ""
        return f"<ResultPartition {self._type}, {self.subpartition_count} subpartitions{state}>"

    def broadcast_event(self, event: Event, is_priority: bool = False) -> None:
        """Add an event to every subpartition; all open buffers end here.

        Parameters
        ----------
        event : Event
        is_priority : bool, default False
            Whether it overtakes what is queued.
        """
        self.broadcast_event_bytes(event.to_buffer_bytes(), event.data_type(is_priority))

    def emit_event(self, event: Event, subpartition: int, is_priority: bool = False) -> None:
        """Add an event to one subpartition; only its open buffer ends."""
        self.emit_event_bytes(event.to_buffer_bytes(), event.data_type(is_priority), subpartition)

    def start_flushing(self, timeout_ms: int) -> None:
        """Make what is written readable within `timeout_ms` milliseconds, until `stop_flushing` or `close`.

        One thread serves all partitions of the process, and sleeps while nothing was written.

        Raises
        ------
        RuntimeError
            The partition is flushed by a timeout already.
        """
        add_partition(self, timeout_ms)

    def stop_flushing(self) -> None:
        """Flush by time no more. Idempotent."""
        remove_partition(self)

    @property
    def partition_type(self) -> str:
        """Its type, as given."""
        return self._type


def _check_limits(buffers_per_channel: int, floating_buffers: int, max_overdraft: int) -> None:
    for name, value in (
        ("buffers_per_channel", buffers_per_channel),
        ("floating_buffers", floating_buffers),
        ("max_overdraft", max_overdraft),
    ):
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value}")


def _check_blocking(type: str, path: str | os.PathLike[str] | None, storage: str, sort_buffers: int) -> None:
    if storage not in blocking.STORAGES:
        raise ValueError(f"storage must be one of {', '.join(blocking.STORAGES)}, got {storage!r}")
    if sort_buffers < 2:
        raise ValueError(f"sort_buffers must be at least 2, got {sort_buffers}")
    if type == "BLOCKING_PERSISTENT" and path is None:
        raise ValueError("a BLOCKING_PERSISTENT partition needs a path: its files outlive this process")
