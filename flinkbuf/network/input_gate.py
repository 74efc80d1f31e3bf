"""The channels of one consumer: `InputGate` over partitions, `UnionInputGate` over several gates."""

from __future__ import annotations

from collections.abc import Iterable

from flinkbuf._core.gate.input_gate import InputGate as _InputGate
from flinkbuf._core.gate.union_input_gate import UnionInputGate as _UnionInputGate
from flinkbuf.network.partition_file import PartitionFile


class InputGate(_InputGate):
    """Read subpartitions of result partitions, fairly and in each channel's order.

    Parameters
    ----------
    channels : iterable of (ResultPartition or PartitionFile, int)
        One pair a channel: a partition of this process, or a finished one on disk, and the index of the subpartition to
        read (0-based). A subpartition of a pipelined partition can be read once, of a blocking one any number of times.
    decompressor : BufferDecompressor, optional
        Restores what a producer of another process compressed; compressed buffers are an error without it. What a
        partition of this process has compressed is restored by itself.

    Raises
    ------
    ValueError
        Without any channel.
    IndexError
        If a partition has no such subpartition.

    Notes
    -----
    A channel of a pipelined partition holds the producer's buffers, not copies of them: the producer's pool is the only
    bound. A blocking partition must be finished before it is read. A gate is used by one thread; any other may close
    it, and the one that reads gets a `CancelTaskError`. It is a context manager; leaving it gives all channels up.

    References
    ----------
    Flink ``SingleInputGate``, ``LocalInputChannel``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> pool = fb.NetworkBufferPool(8, segment_size=4096)
    >>> partition = fb.ResultPartition(pool, 1)
    >>> with fb.RecordWriter(partition, fb.Types.INT()) as writer:
    ...     writer.emit_all([1, 2, 3])
    3
    >>> with fb.InputGate([(partition, 0)]) as gate:
    ...     list(fb.RecordReader(gate, fb.Types.INT()))
    [1, 2, 3]
    """

    def __new__(cls, channels: Iterable[tuple[object, int]] = (), **options: object) -> InputGate:
        pairs = [(each.source if isinstance(each, PartitionFile) else each, index) for each, index in channels]
        return super().__new__(cls, pairs, **options)  # type: ignore[call-arg]

    def __enter__(self) -> InputGate:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class UnionInputGate(_UnionInputGate):
    """Read several input gates as one: the inputs of a task that wants them all.

    Channels are numbered through: those of the first gate, then those of the second, and so on. Gates take turns as
    channels do within each of them; priority events go first.

    Parameters
    ----------
    gates : iterable of InputGate
        Two or more, of which nothing was read yet. They belong to the union from now on: they are read through it
        only, and closed with it.

    Attributes
    ----------
    gates : tuple of InputGate
        As given.

    Raises
    ------
    ValueError
        For fewer than two gates, or one of them twice.
    RuntimeError
        If a gate is closed, was read already, or belongs to another union.

    Notes
    -----
    One thread uses it; any other may close it. It is a context manager; leaving it gives all channels of all gates up.

    References
    ----------
    Flink ``UnionInputGate``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> pool = fb.NetworkBufferPool(8, segment_size=4096)
    >>> partitions = [fb.ResultPartition(pool, 1) for _ in range(2)]
    >>> for number, partition in enumerate(partitions):
    ...     with fb.RecordWriter(partition, fb.Types.INT()) as writer:
    ...         writer.emit_all([number, number + 10])
    2
    2
    >>> with fb.network.UnionInputGate([fb.InputGate([(partition, 0)]) for partition in partitions]) as gate:
    ...     reader = fb.RecordReader(gate, fb.Types.INT())
    ...     [(reader.channel_index, record) for record in reader]
    [(0, 0), (0, 10), (1, 1), (1, 11)]
    """

    def __enter__(self) -> UnionInputGate:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
