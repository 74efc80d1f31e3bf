"""The channels of one consumer: `InputGate` over partitions of this process."""

from __future__ import annotations

from flinkbuf._core.input_gate import InputGate as _InputGate


class InputGate(_InputGate):
    """Read subpartitions of result partitions, fairly and in each channel's order.

    Parameters
    ----------
    channels : iterable of (ResultPartition, int)
        One pair a channel: a partition of this process and the index of the subpartition to read (0-based). A
        subpartition can be read once.

    Raises
    ------
    ValueError
        Without any channel.
    IndexError
        If a partition has no such subpartition.

    Notes
    -----
    A channel holds the producer's buffers, not copies of them: the producer's pool is the only bound. A gate is used
    by one thread. It is a context manager; leaving it gives all channels up.

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

    def __enter__(self) -> InputGate:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
