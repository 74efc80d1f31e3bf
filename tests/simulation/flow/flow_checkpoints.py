"""The surroundings of a made-up task's part of checkpoints: `SubtaskCheckpoints` and `CheckpointedInputs` are the real
ones; channels, timers and operators are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simulation.flow.flow_records import FlowChannel, Records
from simulation.flow.flow_state import Snapshot

from flinkbuf.network.events import NO_TIMEOUT, AlignmentType, CheckpointBarrier

if TYPE_CHECKING:
    from simulation.flow.flow_task import FlowTask

Kept = dict[tuple[int, int], list[Records]]  # by gate or partition, and channel


class FlowTimers:
    """A task's `TaskTimerService`."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task

    def now_ms(self) -> int:
        """Virtual time."""
        return self._task.world.now_ms

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], Any]) -> FlowTimer:
        """Call back once the clock is past that time, if the task still runs."""
        timer = FlowTimer(self._task, timestamp_ms, callback)
        self._task.world.agenda.at(timestamp_ms + 1, timer.fire)
        return timer


class FlowTimer:
    """One callback."""

    def __init__(self, task: FlowTask, timestamp_ms: int, callback: Callable[[int], Any]) -> None:
        self._task, self._timestamp_ms, self._callback = task, timestamp_ms, callback
        self._is_over = False

    def cancel(self) -> None:
        """Do not call it any more."""
        self._is_over = True

    def fire(self) -> None:
        """It is due."""
        if not self._is_over and self._task.is_working():
            self._is_over = True
            self._task.guarded(self._callback, self._timestamp_ms)


@dataclass(frozen=True)
class FlowOperator:
    """What a chain says of one of its operators."""

    operator_id: str
    name: str


class FlowChain:
    """The task's `OperatorChain`: one operator that has all of its state."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task
        self._operator = FlowOperator(task.writer.head, "all")

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Nothing is held back."""

    def snapshot_state(self, checkpoint_id: int) -> Iterator[tuple[FlowOperator, Snapshot]]:
        """Copies of all state."""
        yield self._operator, self._task.copy(checkpoint_id)

    def notify(self, method: str, checkpoint_id: int) -> None:
        """The sink commits what counts."""
        task = self._task
        if method == "notify_checkpoint_complete" and task.is_working():
            task.memory_is_safe(checkpoint_id)
            if task.sink is not None:
                task.committing_id = checkpoint_id
                task.sink.operator.notify_checkpoint_complete(checkpoint_id)


class FlowStorage:
    """The task's `TaskStorage`: makes handles of a snapshot."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task

    def write(self, snapshot: Any, options: Any, is_cancelled: Callable[[], bool]) -> Any:
        """Write all of it."""
        task = self._task
        (state,) = snapshot.operators.values()
        inputs, outputs = snapshot.input_channels or {}, snapshot.output_channels or {}
        state = replace(state, is_finished=snapshot.is_finished, input_state=inputs, output_state=outputs)
        written = task.writer.write(snapshot.checkpoint_id, state, options)
        task.world.invariants.part_written(task, snapshot.checkpoint_id, written, state)
        return written

    def discard(self, state: Any) -> None:
        """What is cancelled was not written."""


class FlowGate:
    """All inputs of a task, as the real barrier handling sees a gate."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task
        self.channel_count = len(task.inputs)
        self._figures = {"channels": [{"bytes": 0, "source": ""}] * self.channel_count}

    def resume_consumption(self, index: int) -> None:
        """Read on; what is there is read before anything else is done."""
        self._task.resume(index)

    def convert_to_priority(self, index: int, checkpoint_id: int) -> None:
        """A barrier whose news was heard overtakes what stands in front of it, if it was not read meanwhile."""
        self._task.convert(index, checkpoint_id)

    def figures(self) -> dict[str, Any]:
        """Nothing is counted."""
        return self._figures


class FlowInFlight:
    """What is under way between tasks: the `InFlight` of the real `SubtaskCheckpoints`, over made-up channels."""

    def __init__(self, task: FlowTask) -> None:
        self._task = task
        self._id = 0  # of the checkpoint whose input is kept
        self._inputs: Kept | None = None
        self._late: set[int] = set()  # channels whose barrier has not come
        self._outputs: dict[int, Kept] = {}
        self._newest = [0] * len(task.inputs)  # checkpoint of the last barrier of each channel
        self._in_front: tuple[int, list[Records]] = (0, [])  # of the barrier that is being read, and its channel

    # ---- what is read

    def barrier_read(self, index: int, barrier: CheckpointBarrier, in_front: list[Records]) -> None:
        """A barrier has come; `in_front` was overtaken by it."""
        checkpoint_id = barrier.checkpoint_id
        self._newest[index] = max(self._newest[index], checkpoint_id)
        if index in self._late and checkpoint_id == self._id:
            self._keep(index, in_front)
            in_front = []
        if checkpoint_id >= self._id:
            self._late.discard(index)
        self._in_front = index, in_front

    def barrier_handled(self) -> None:
        """What it has overtaken belongs to nothing else."""
        self._in_front = 0, []

    def records_read(self, index: int, records: Records) -> None:
        """Before its barrier, or behind it."""
        if index in self._late:
            self._keep(index, [records])

    def ended(self, index: int) -> None:
        """Nothing comes from this channel any more."""
        self._late.discard(index)

    def _keep(self, index: int, records: list[Records]) -> None:
        if self._inputs is not None and records:
            self._inputs.setdefault(self._task.gate_of(index), []).extend(records)

    # ---- InFlight

    def broadcast(self, barrier: CheckpointBarrier) -> None:
        """Send it on; an unaligned one overtakes what is queued."""
        if barrier.alignment is not AlignmentType.UNALIGNED:
            self._task.broadcast(barrier)
            return
        overtaken = self._outputs.setdefault(barrier.checkpoint_id, {})
        forced = replace(barrier, alignment=AlignmentType.FORCED_ALIGNED, aligned_timeout_ms=NO_TIMEOUT)
        for is_pointwise, key, channel in self._task.output_channels():
            if is_pointwise:  # as in Flink: after a rescale nobody could say whose records they are
                self._task.put(channel, forced)
            else:
                overtaken[key] = channel.overtake(barrier, self._task.world.now_ms)

    def convert_output(self, checkpoint_id: int) -> bool:
        """Let it overtake where it has not arrived."""
        overtaken = self._outputs.setdefault(checkpoint_id, {})
        is_anywhere = False
        for key, channel in self._convertible(checkpoint_id):
            overtaken[key] = channel.convert(checkpoint_id, self._task.world.now_ms)
            is_anywhere = True
        return is_anywhere

    def is_output_settled(self, checkpoint_id: int) -> bool:
        """Whether it has arrived everywhere."""
        return next(self._convertible(checkpoint_id), None) is None

    def _convertible(self, checkpoint_id: int) -> Iterator[tuple[tuple[int, int], FlowChannel]]:
        for is_pointwise, key, channel in self._task.output_channels():
            if not is_pointwise and channel.has_queued(checkpoint_id, self._task.world.now_ms):
                yield key, channel

    def start_input(self, checkpoint_id: int) -> bool:
        """What the other channels bring before their barrier is part of it, and what this barrier has overtaken."""
        open_ones = self._task.checkpointed_inputs.handler.open_channels
        if any(self._newest[index] > checkpoint_id for index in open_ones):
            return False
        self._id, self._inputs = checkpoint_id, {}
        self._late = {index for index in open_ones if self._newest[index] < checkpoint_id}
        self._keep(*self._in_front)
        return True

    def stop_input(self, checkpoint_id: int) -> None:
        """All barriers are here."""
        if checkpoint_id == self._id:
            self._late = set()

    def take(self, checkpoint_id: int) -> tuple[Any, Any]:
        """What belongs to it, of inputs and of outputs."""
        inputs: Kept = {}
        if checkpoint_id == self._id and self._inputs is not None:
            inputs, self._inputs = self._inputs, None
        outputs = self._outputs.pop(checkpoint_id, {})
        return inputs, outputs

    def size(self, checkpoint_id: int) -> int:
        """It is not counted."""
        return 0

    def abort(self, checkpoint_id: int) -> None:
        """Forget it, and older ones."""
        if checkpoint_id >= self._id:
            self._inputs, self._late = None, set()
        self._outputs = {each: kept for each, kept in self._outputs.items() if each > checkpoint_id}
