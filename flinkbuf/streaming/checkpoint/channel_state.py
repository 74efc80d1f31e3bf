"""What is under way between a task and others: barriers that overtake it, and where it goes when they do.

Flink: ChannelStateWriter, SubtaskCheckpointCoordinatorImpl (its part for channel state), SequentialChannelStateReader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from flinkbuf._core.flow.channel_state import InputChannelState, OutputChannelState
from flinkbuf.network.events import NO_TIMEOUT, AlignmentType, CheckpointBarrier
from flinkbuf.network.partition import ResultPartition
from flinkbuf.records.record_reader import RecordReader

MAX_BYTES = 1 << 30

# (index of the gate or partition among the task's, channel or subpartition, its bytes)
ChannelBytes = tuple[int, int, bytes]


@dataclass
class _Collected:
    """What is known of one checkpoint."""

    inputs: list[ChannelBytes] = field(default_factory=list)
    outputs: list[ChannelBytes] = field(default_factory=list)
    is_collecting: bool = False


class TaskChannelState:
    """The channels of a task, as its checkpoints see them. On the task's thread, between two records.

    The state of a channel is a stream of bytes, parts of which may come from several places; where a record begins
    in it is not known before the other side of the edge is restored, too, so it can only be restored at the same
    parallelism.

    Parameters
    ----------
    inputs : sequence of (RecordReader, sequence of int)
        Each reader with the indexes of its gates among those of the task.
    partitions : sequence of ResultPartition
    forced_aligned : collection of int
        Indexes of partitions whose readers must align: an edge that is broadcast, or joins subtasks one by one. Flink:
        ``CheckpointOptions.AlignmentType.FORCED_ALIGNED``.
    max_bytes : int
        Data that arrive in one gate before the last barrier, of which one checkpoint keeps at most so much.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[RecordReader, Sequence[int]]],
        partitions: Sequence[ResultPartition],
        *,
        forced_aligned: Iterable[int] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._inputs = [InputChannelState(reader) for reader, _ in inputs]
        self._places = [_places(reader, gate_indexes) for reader, gate_indexes in inputs]
        self._partitions = list(partitions)
        self._outputs = [OutputChannelState(partition) for partition in partitions]
        self._forced_aligned = frozenset(forced_aligned)
        self._max_bytes = max_bytes
        self._checkpoints: dict[int, _Collected] = {}

    # ---- barriers ---------------------------------------------------------------------------------------

    def broadcast(self, barrier: CheckpointBarrier) -> None:
        """Send a barrier to all partitions; an unaligned one overtakes what is queued, which then belongs to it."""
        if barrier.alignment is not AlignmentType.UNALIGNED:
            for partition in self._partitions:
                partition.broadcast_event(barrier)
            return
        outputs = self._collected(barrier.checkpoint_id).outputs
        forced = replace(barrier, alignment=AlignmentType.FORCED_ALIGNED, aligned_timeout_ms=NO_TIMEOUT)
        for index, output in enumerate(self._outputs):
            if index in self._forced_aligned:
                self._partitions[index].broadcast_event(forced)
            else:
                overtaken = output.broadcast_barrier(barrier.to_buffer_bytes())
                self._partitions[index].flush_all()  # the buffers that were open end here: only this thread may say so
                outputs += [(index, subpartition, data) for subpartition, data in overtaken]

    def convert_output(self, checkpoint_id: int) -> bool:
        """Let a barrier that was sent with a timeout overtake where it is queued, but for readers that must align.

        Returns
        -------
        bool
            Whether it was queued anywhere.

        References
        ----------
        Flink ``ResultPartition.alignedBarrierTimeout``.
        """
        is_anywhere = False
        for index, output in self._converting():
            is_here, overtaken = output.convert_barrier(checkpoint_id)
            if overtaken:
                self._collected(checkpoint_id).outputs += [(index, each, data) for each, data in overtaken]
            is_anywhere |= is_here
        return is_anywhere

    def is_output_settled(self, checkpoint_id: int) -> bool:
        """Return whether `convert_output` would change nothing. The task's bell rings when that may be so."""
        return not any(output.has_barrier(checkpoint_id) for _, output in self._converting())

    def _converting(self) -> list[tuple[int, OutputChannelState]]:
        return [each for each in enumerate(self._outputs) if each[0] not in self._forced_aligned]

    # ---- input ------------------------------------------------------------------------------------------

    def start_input(self, checkpoint_id: int) -> bool:
        """Begin to keep what has come, or comes, in front of the barriers of all channels.

        Returns
        -------
        bool
            False: one of them has brought the barrier of a newer checkpoint, and nothing is kept.

        References
        ----------
        Flink ``CheckpointableInput.checkpointStarted``.
        """
        for each in self._checkpoints.values():
            each.is_collecting = False  # the older one's end with this
        for number, part in enumerate(self._inputs):
            if not part.start(checkpoint_id, self._max_bytes):
                for begun in self._inputs[:number]:
                    begun.abort()
                return False
        self._collected(checkpoint_id).is_collecting = True
        return True

    def stop_input(self, checkpoint_id: int) -> None:
        """End keeping records: all barriers are here, and the kept records belong to the checkpoint.

        Raises
        ------
        MemoryError
            More came than may be kept. The checkpoint is forgotten.
        """
        collected = self._checkpoints.get(checkpoint_id)
        if collected is None or not collected.is_collecting:
            return
        try:
            for part, places in zip(self._inputs, self._places, strict=True):
                for channel, data in part.stop().items():
                    collected.inputs.append((*places[channel], b"".join(data)))
        except BaseException:
            self.abort(checkpoint_id)
            raise
        collected.is_collecting = False

    # ---- what a checkpoint gets -------------------------------------------------------------------------

    def take(self, checkpoint_id: int) -> tuple[tuple[ChannelBytes, ...], tuple[ChannelBytes, ...]]:
        """Hand over what was collected of inputs and outputs, in the order of their channels, and forget it."""
        collected = self._checkpoints.get(checkpoint_id, _Collected())
        if collected.is_collecting:
            raise RuntimeError(f"checkpoint {checkpoint_id} still waits for barriers")
        self._checkpoints.pop(checkpoint_id, None)
        return tuple(sorted(collected.inputs)), tuple(sorted(collected.outputs))

    def size(self, checkpoint_id: int) -> int:
        """Bytes that the checkpoint has got so far; those that arrive are counted when they are all there."""
        collected = self._checkpoints.get(checkpoint_id, _Collected())
        waiting = sum(part.size for part in self._inputs) if collected.is_collecting else 0
        return waiting + sum(len(data) for _, _, data in (*collected.inputs, *collected.outputs))

    def abort(self, checkpoint_id: int) -> None:
        """Forget all that was collected for this checkpoint and for older ones."""
        for each in [each for each in self._checkpoints if each <= checkpoint_id]:
            if self._checkpoints.pop(each).is_collecting:
                for part in self._inputs:
                    part.abort()

    # ---- restore ----------------------------------------------------------------------------------------

    def restore(self, inputs: Iterable[ChannelBytes], outputs: Iterable[ChannelBytes]) -> None:
        """Give back what `take` gave: before the first read and the first write.

        It comes before all else on the same channel, whatever has arrived there meanwhile.
        """
        numbers = {
            place: (part, channel)
            for part, places in zip(self._inputs, self._places, strict=True)
            for channel, place in enumerate(places)
        }
        for index, channel, data in inputs:
            if (index, channel) not in numbers:
                raise ValueError(
                    f"there is state of channel {channel} of input gate {index}, which the task does not "
                    "have: in-flight data can only be restored at the same parallelism"
                )
            part, number = numbers[index, channel]
            part.restore(number, data)
        for index, subpartition, data in outputs:
            if index >= len(self._outputs) or subpartition >= self._partitions[index].subpartition_count:
                raise ValueError(
                    f"there is state of subpartition {subpartition} of result partition {index}, which the "
                    "task does not have: in-flight data can only be restored at the same parallelism"
                )
            self._outputs[index].restore(subpartition, data)

    @property
    def is_restored(self) -> bool:
        """Return whether all restored input has been read."""
        return all(part.is_restored for part in self._inputs)

    def _collected(self, checkpoint_id: int) -> _Collected:
        return self._checkpoints.setdefault(checkpoint_id, _Collected())


def _places(reader: RecordReader, gate_indexes: Sequence[int]) -> list[tuple[int, int]]:
    """By channel of the reader, which gate of the task it belongs to, and which channel of that it is."""
    gates = getattr(reader.gate, "gates", (reader.gate,))
    if len(gates) != len(gate_indexes):
        raise ValueError(f"{len(gate_indexes)} gate indexes for an input that reads {len(gates)}")
    return [
        (index, channel)
        for index, gate in zip(gate_indexes, gates, strict=True)
        for channel in range(gate.channel_count)
    ]
