"""A task that reads numbered records, counts them by key and passes them on, and takes part in checkpoints.

The barrier handler is the real one; all around it (channels, state, transactions, threads) is made up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.jobs.deployment import TaskDeploymentDescriptor
from flinkbuf.jobs.manager import task_actions as tm
from flinkbuf.network.events import (
    AlignmentType,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    StopMode,
)
from flinkbuf.streaming import barrier_actions as ba
from flinkbuf.streaming.barrier_handler import SingleCheckpointBarrierHandler
from flinkbuf.streaming.barrier_tracker import CheckpointBarrierTracker
from flinkbuf.streaming.barriers import barrier_of, blocks_channel, kind_of, options_of, overtaking
from flinkbuf.streaming.source_events import NoMoreSplits, SplitRequested, SplitsAssigned
from flinkbuf.streaming.task_state import TaskState, TaskStep
from simulation.async_part import AsyncPart
from simulation.flow_records import FlowChannel, Records
from simulation.flow_state import Count, FlowState, Snapshot, StateWriter, Transaction
from simulation.invariants import Violation
from simulation.tasks import Fate, SimTask

if TYPE_CHECKING:
    from simulation.managers import SimManager

CROWDED = 12  # things in a channel: a source waits


class FlowTask(SimTask):
    """One attempt of a subtask of a job that takes checkpoints.

    Attributes
    ----------
    state : TaskState
        As of any task; what it knows is `memory`.
    """

    def __init__(self, manager: SimManager, descriptor: TaskDeploymentDescriptor, fate: Fate) -> None:
        world = manager.world
        self.routes = world.routes
        self.flow = world.flow
        self.vertex = self.routes.index_of[descriptor.attempt.vertex_id]
        super().__init__(manager, descriptor, fate)
        self.memory = FlowState()
        self.writer = StateWriter(self)
        self.async_part = AsyncPart(self)
        self.inputs: list[FlowChannel] = []
        self.outputs: list[list[FlowChannel]] = []  # by partition and subpartition
        self._handler: Any = None
        self._planned_ms: int | None = None
        self._alarm_ms: int | None = None
        self._ended_inputs: set[int] = set()  # whose data has ended
        self._is_drained = True
        self._has_no_more_splits = False
        self._has_asked = False  # for a split
        self._has_ended = False  # its data
        self._is_over = False  # it only waits for what is being written
        self._is_restored_as_finished = False
        self._sync_id: int | None = None  # of the savepoint that it ends with
        self._final_id: int | None = None  # the first checkpoint after the end of its data
        self._last_id = 0  # that was taken
        self._last_complete_id = 0
        self._aborted: set[int] = set()
        self._kept: dict[tuple[int, int], list[Records]] | None = None  # what came before barriers that are late
        self._kept_channels: set[int] = set()
        self._kept_id = 0
        self._in_front: tuple[int, list[Records]] = (0, [])  # of the barrier that is being read, and its channel
        self._waiting: tuple[CheckpointBarrier, Snapshot] | None = None  # for the input's part of it
        self._transaction_count = 0

    # ---- its beginning

    def _run(self) -> None:
        restore = self.descriptor.restore
        if self.state is TaskState.CANCELING:
            return
        self._connect_channels()
        if restore is not None:
            self._restore(restore)
        elif self.writer.is_source and self.coordinated is None:
            self._take_first_splits()
        if self.is_gone or not self._reach(TaskStep.RUN):
            return
        if self.fate.fails_in is TaskState.RUNNING and self.fate.work_ms is not None:
            self._later(self.fate.work_ms, self._fail_at_work)
        self.world.data.connect(self)
        if self.writer.is_source:
            self._later(self.world.between(self.flow.emit_ms), self._emit)
        self.look_at(self.world.now_ms)

    def _fail_at_work(self) -> None:
        if self.world.is_wanted(self.attempt):
            self.fail(self.world.failure(f"{self.attempt} in RUNNING"))

    def _connect_channels(self) -> None:
        data = self.world.data
        for partition in self.descriptor.partitions:
            self.outputs.append([data.channel(partition.partition_id, i) for i in range(partition.subpartition_count)])
        for gate in self.descriptor.gates:
            self.inputs += [data.channel(each.partition_id, each.subpartition_index) for each in gate.channels]
        for channel in self.inputs:
            channel.reader = self
        for channel in (channel for channels in self.outputs for channel in channels):
            channel.writer = self
        config = self.world.checkpointing
        if not config.is_exactly_once:
            self._handler = CheckpointBarrierTracker(len(self.inputs), takes_after_end=config.after_tasks_finish)
        else:
            self._handler = SingleCheckpointBarrierHandler(
                len(self.inputs), can_overtake=config.is_unaligned, takes_after_end=config.after_tasks_finish
            )

    def _restore(self, restore: Any) -> None:
        self._is_restored_as_finished = restore.is_finished
        self._last_id = self._last_complete_id = restore.checkpoint_id
        try:
            self.memory = self.writer.read(restore, self.world.owns(restore.checkpoint_id))
        except Violation:
            if self.world.has_job_for(self.attempt):
                raise
            self.fail(self.world.failure(f"{self.attempt} comes too late"))
            return
        for _, transaction in self.memory.pending:
            self.world.invariants.commits(self, restore.checkpoint_id, transaction)
            self.world.ledger.commit(transaction, self, is_restored=True)
        self.memory.pending.clear()
        for index, subpartition, records in self.writer.read_channels(restore.output_channels):
            for each in records:
                self._put(self.outputs[index][subpartition], each)
        for index, channel_index, records in self.writer.read_channels(restore.input_channels):
            channel = self.inputs[self._channel_number(index, channel_index)]
            channel.items.extendleft((1, each) for each in reversed(records))

    def _channel_number(self, gate: int, channel: int) -> int:
        return sum(len(each.subpartition_indexes) for each in self.descriptor.gates[:gate]) + channel

    def _gate_of(self, number: int) -> tuple[int, int]:
        for index, gate in enumerate(self.descriptor.gates):
            if number < len(gate.subpartition_indexes):
                return index, number
            number -= len(gate.subpartition_indexes)
        raise IndexError(number)

    def _take_first_splits(self) -> None:
        parallelism, subtask = self.descriptor.parallelism, self.attempt.subtask_index
        for split in self.routes.splits_of(self.vertex):
            if split % parallelism == subtask:
                self.memory.positions[split] = 0

    # ---- a source

    def deliver(self, payload: Any) -> None:
        """An event of its coordinator."""
        if self.is_gone or self.state is not TaskState.RUNNING:
            return
        if isinstance(payload, SplitsAssigned):
            for split in payload.splits:
                self.world.invariants.split_given(self, split)
                self.memory.positions[split] = 0
            self._has_asked = False
        elif isinstance(payload, NoMoreSplits):
            self._has_no_more_splits = True

    def _emit(self) -> None:
        """Some records of one split."""
        if not self._is_working() or self._has_ended:
            return
        size = self.routes.split_size
        unread = [split for split, position in self.memory.positions.items() if position < size]
        if unread and not self._is_crowded():
            split = self.world.rng.choice(unread)
            first = self.memory.positions[split]
            end = min(size, first + self.world.rng.randint(1, self.flow.run_length))
            self.memory.positions[split] = end
            self._pass_on(Records((self.vertex,), split, first, end))
        elif not unread and (self.coordinated is None or self._has_no_more_splits or self._is_restored_as_finished):
            self._end_data(StopMode.DRAIN)
            return
        elif not unread and not self._has_asked:
            self._has_asked = True
            self.manager.task_said(self.attempt, self.coordinated, SplitRequested())
        span_ms = (1, 20) if self.world.is_healed else self.flow.emit_ms
        self._later(self.world.between(span_ms), self._emit)

    def _is_crowded(self) -> bool:
        return any(len(channel.items) > CROWDED for channels in self.outputs for channel in channels)

    # ---- records

    def _is_working(self) -> bool:
        return self.state is TaskState.RUNNING and not self.is_gone

    def _pass_on(self, records: Records) -> None:
        if self.writer.is_sink:
            transaction = self.memory.transaction
            if transaction is None:
                self._transaction_count += 1
                name = f"{self.world.name}{self.attempt}:{self._transaction_count}"
                transaction = self.memory.transaction = Transaction(name)
            transaction.records.append(records)
        for edge, channels in zip(self.routes.outputs[self.vertex], self.outputs, strict=True):
            self._put(channels[self.routes.subpartition(edge, records.split, len(channels))], records)

    def _put(self, channel: FlowChannel, item: Any) -> None:
        span_ms = (0, 1) if self.world.is_healed else self.flow.channel_ms
        channel.put(item, self.world.now_ms + self.world.between(span_ms))

    def _broadcast(self, event: Any) -> None:
        for channels in self.outputs:
            for channel in channels:
                self._put(channel, event)

    def look_at(self, time_ms: int) -> None:
        """Something can be read then."""
        if self._planned_ms is None or time_ms < self._planned_ms:
            self._planned_ms = max(time_ms, self.world.now_ms)
            self.world.agenda.at(self._planned_ms, self._step, self._planned_ms)

    def _step(self, planned_ms: int) -> None:
        if planned_ms != self._planned_ms:
            return
        self._planned_ms = None
        if not self._is_working():
            return
        now_ms = self.world.now_ms
        if self.world.checkpointing.is_unaligned:
            self._hear_urgent(now_ms)
        ready = [index for index, channel in enumerate(self.inputs) if channel.is_ready(now_ms)]
        if ready and self._is_working():
            index = self.world.rng.choice(ready)
            self._read(index, self.inputs[index].items.popleft()[1])
            self._look_again(now_ms + (0 if self.world.is_healed else self.world.between(self.flow.process_ms)))
        else:
            self._look_again(now_ms)

    def _look_again(self, from_ms: int) -> None:
        times = [time_ms for channel in self.inputs if (time_ms := channel.next_ms()) is not None]
        if times:
            self.look_at(max(min(times), from_ms))
        if self.world.checkpointing.is_unaligned:
            urgent = [found[0] for channel in self.inputs if (found := channel.urgent()) is not None]
            if urgent:
                self.look_at(max(min(urgent), self.world.now_ms))

    def _hear_urgent(self, now_ms: int) -> None:
        """Barriers that overtake, and the news of those that may, whatever stands in front of them."""
        for index, channel in enumerate(self.inputs):
            while (found := channel.urgent()) is not None and found[0] <= now_ms and self._is_working():
                barrier = found[1]
                if barrier.alignment is AlignmentType.UNALIGNED:
                    self._read_overtaking(index, barrier, barrier)
                else:
                    channel.announced.add(barrier.checkpoint_id)
                    self._do(self._handler.on_announcement(barrier, barrier.checkpoint_id, index, now_ms))
                    self._set_alarm()

    def _read_overtaking(self, index: int, queued: CheckpointBarrier, barrier: CheckpointBarrier) -> None:
        """Take a barrier out of the queue of its channel; what stands in front of it was overtaken."""
        in_front = self.inputs[index].take_out(queued)
        if index in self._kept_channels and barrier.checkpoint_id == self._kept_id:
            self._keep(index, in_front)
            in_front = []
        self._end_of_kept(index, barrier)
        self._in_front = index, in_front
        self._do(self._handler.on_barrier(barrier, index, self.world.now_ms))
        self._in_front = 0, []
        self._set_alarm()

    def _read(self, index: int, item: Any) -> None:
        if isinstance(item, Records):
            self._count(index, item)
        elif isinstance(item, CheckpointBarrier):
            self.inputs[index].is_blocked = blocks_channel(item)
            self._end_of_kept(index, item)
            self._do(self._handler.on_barrier(item, index, self.world.now_ms))
        elif isinstance(item, CancelCheckpointMarker):
            self._do(self._handler.on_cancellation(item.checkpoint_id, index, self.world.now_ms))
        elif isinstance(item, EndOfData):
            self._data_ended(index, item)
        elif isinstance(item, EndOfPartition):
            self.world.data.read_to_the_end(self, index)
            self._kept_channels.discard(index)
            self._do(self._handler.on_end_of_partition(index, self.world.now_ms))
            self._finish_if_over()
        self._set_alarm()

    def _count(self, index: int, records: Records) -> None:
        if index in self._kept_channels:
            self._keep(index, [records])
        counts: Count = self.memory.counts
        records = records._replace(path=(*records.path, self.vertex))
        key = records.path, records.split
        self.world.invariants.counted(self, records, counts.get(key, 0))
        counts[key] = max(records.end, counts.get(key, 0))
        self._pass_on(records)

    def _data_ended(self, index: int, event: EndOfData) -> None:
        self._ended_inputs.add(index)
        self.inputs[index].is_read_to_its_end = True
        writer = self.inputs[index].writer
        if writer is not None:
            writer.consumer_has_read_all()
        self._is_drained = self._is_drained and event.mode is StopMode.DRAIN
        if len(self._ended_inputs) == len(self.inputs):
            self._end_data(StopMode.DRAIN if self._is_drained else StopMode.NO_DRAIN)

    # ---- its end

    def _end_data(self, mode: StopMode) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._is_drained = mode is StopMode.DRAIN
        self._broadcast(EndOfData(mode))
        if self._is_drained and self.world.waits_for_final_checkpoint:
            self.manager.checkpoint_said(tm.TaskDataEnded(self.attempt))
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        """Its data has ended, nobody writes to it any more, and the checkpoint that it waits for is complete."""
        if not self._has_ended or self._is_over or not self._is_working():
            return
        if self._sync_id is not None:
            is_over = self._last_complete_id == self._sync_id
        else:
            is_committed = self._final_id is not None and self._last_complete_id >= self._final_id
            is_read = all(channel.is_read_to_its_end for channels in self.outputs for channel in channels)
            may_go = (is_committed and is_read) or not self.world.waits_for_final_checkpoint
            is_over = self._is_drained and may_go and not self._handler.open_channels
        if is_over:
            self._is_over = True
            self._broadcast(EndOfPartition())
            self.async_part.finish_first(lambda: self._come_out(TaskStep.FINISH))

    def consumer_has_read_all(self) -> None:
        """One of those who read from it."""
        self.world.agenda.after(self.world.between((0, 5)), self._if_here, self._finish_if_over)

    def look(self) -> None:
        """What a task without records waits for is of no account here."""

    def _come_out(self, step: TaskStep, failure: Any = None) -> None:
        if not self.is_gone:
            self.async_part.cancel_all()
            super()._come_out(step, failure)

    def vanish(self) -> None:
        """Its process has ended."""
        self.async_part.vanish()
        super().vanish()

    # ---- checkpoints: what it is told

    def trigger(self, action: tm.TriggerTask) -> bool:
        """Begin with this task; False: it does not run."""
        if not self._is_working():
            return False
        barrier = barrier_of(action.checkpoint_id, action.timestamp_ms, action.options)
        if self.writer.is_source:
            if barrier.checkpoint_id > self._last_id:
                self._stop_source(barrier)
                self._take(barrier)
        elif not self._handler.open_channels:
            self._take(barrier)
        else:
            for index in self._handler.open_channels:
                self._do(self._handler.on_barrier(barrier, index, self.world.now_ms, is_triggered=True))
            self._set_alarm()
        return True

    def _stop_source(self, barrier: CheckpointBarrier) -> None:
        kind = kind_of(barrier)
        if kind.is_synchronous:
            self._sync_id = barrier.checkpoint_id
            is_drain = kind is SnapshotKind.SAVEPOINT_TERMINATE
            self._end_data(StopMode.DRAIN if is_drain else StopMode.NO_DRAIN)

    def notify(self, action: tm.NotifyTask) -> None:
        """A checkpoint counts, or never will."""
        if not self._is_working():
            return
        if action.is_complete:
            self._completed(action.checkpoint_id)
            return
        if action.latest_completed_id > 0:
            self._completed(action.latest_completed_id)
        self._aborted.add(action.checkpoint_id)
        self.async_part.cancel(action.checkpoint_id)
        self._forget_input_state(action.checkpoint_id)
        self._do(self._handler.on_abort(action.checkpoint_id))
        if action.checkpoint_id == self._sync_id and self._is_working():
            self.fail(self.world.failure(f"{self.attempt}: stop with savepoint failed"))

    def _completed(self, checkpoint_id: int) -> None:
        if checkpoint_id <= self._last_complete_id or not self._is_working():
            return
        self._last_complete_id = checkpoint_id
        self.writer.completed(checkpoint_id)
        self._commit(checkpoint_id)
        self._finish_if_over()

    def _commit(self, checkpoint_id: int) -> None:
        ready = [each for each in self.memory.pending if each[0] <= checkpoint_id]
        self.memory.pending = [each for each in self.memory.pending if each[0] > checkpoint_id]
        for _, transaction in ready:
            self.world.invariants.commits(self, checkpoint_id, transaction)
            self.world.ledger.commit(transaction, self)

    # ---- checkpoints: what its barrier handler wants

    def _do(self, actions: list[Any]) -> None:
        for action in actions:
            if not self._is_working() or not self.manager.goes_on():
                return
            self._perform(action)

    def _perform(self, action: Any) -> None:
        if isinstance(action, ba.TakeCheckpoint):
            self._take(action.barrier)
        elif isinstance(action, ba.ResumeChannels):
            for index in action.channels:
                self.inputs[index].is_blocked = False
                self._read_at_once(index)
            self._look_again(self.world.now_ms)
        elif isinstance(action, ba.AbortCheckpoint):
            self._forget_input_state(action.checkpoint_id)
            self._last_id = max(self._last_id, action.checkpoint_id)
            self._broadcast(CancelCheckpointMarker(action.checkpoint_id))
            self.decline(action.checkpoint_id, action.reason)
        elif isinstance(action, ba.BeginInputState):
            self._begin_input_state(action.barrier.checkpoint_id, action.channels)
        elif isinstance(action, ba.EndInputState):
            self._end_input_state()
        elif isinstance(action, ba.ConvertToPriority):
            self._convert(action.channel, action.sequence_number)

    def _read_at_once(self, index: int) -> None:
        """Whoever may go on does, before anything else is done."""
        channel = self.inputs[index]
        if channel.is_ready(self.world.now_ms) and isinstance(channel.items[0][1], Records):
            self._count(index, channel.items.popleft()[1])

    def _set_alarm(self) -> None:
        """The alignment may take too long."""
        deadline_ms = self._handler.deadline_ms
        if deadline_ms is not None and deadline_ms != self._alarm_ms:
            self._alarm_ms = deadline_ms
            self.world.agenda.at(deadline_ms, self._if_here, self._on_time)

    def _on_time(self) -> None:
        if self._is_working():
            self._do(self._handler.on_time(self.world.now_ms))

    # ---- checkpoints: its own part

    def _take(self, barrier: CheckpointBarrier) -> None:
        """Barrier, copy, and the rest on another thread."""
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self._last_id:
            return
        self._last_id = checkpoint_id
        if checkpoint_id in self._aborted:
            self._broadcast(CancelCheckpointMarker(checkpoint_id))
            return
        if kind_of(barrier).is_synchronous:
            self._sync_id = checkpoint_id
        output_state = self._send_barrier(barrier)
        if not self.world.is_healed and self.world.rng.random() < self.flow.sync_fails:
            self.fail(self.world.failure(f"{self.attempt}: taking its state"))
            return
        snapshot = self._copy(checkpoint_id, output_state)
        if self._kept is not None:
            self._waiting = (barrier, snapshot)
        else:
            self.async_part.begin(checkpoint_id, snapshot, options_of(barrier))
        if self._has_ended and self._is_drained and self._final_id is None:
            self._final_id = checkpoint_id

    def _send_barrier(self, barrier: CheckpointBarrier) -> dict[tuple[int, int], list[Records]]:
        if barrier.alignment is not AlignmentType.UNALIGNED:
            self._broadcast(barrier)
            return {}
        overtaken: dict[tuple[int, int], list[Records]] = {}
        forced = replace(barrier, alignment=AlignmentType.FORCED_ALIGNED)
        for index, (edge, channels) in enumerate(zip(self.routes.outputs[self.vertex], self.outputs, strict=True)):
            for subpartition, channel in enumerate(channels):
                if edge.is_pointwise:  # as in Flink: after a rescale nobody could say whose records they are
                    self._put(channel, forced)
                else:
                    overtaken[index, subpartition] = channel.overtake(barrier, self.world.now_ms)
        return overtaken

    def _copy(self, checkpoint_id: int, output_state: dict[tuple[int, int], list[Records]]) -> Snapshot:
        memory = self.memory
        if memory.transaction is not None:
            memory.pending.append((checkpoint_id, memory.transaction))
            memory.transaction = None
        return Snapshot(
            dict(memory.positions),
            dict(memory.counts),
            tuple(memory.pending),
            self._has_ended and self._is_drained,
            self._is_restored_as_finished,
            output_state=output_state,
        )

    def final_snapshot(self) -> Snapshot | None:
        """What it had at its end; None: it began at its end."""
        if self._is_restored_as_finished:
            return None
        return Snapshot(dict(self.memory.positions), dict(self.memory.counts), (), True)

    def partition_of(self, index: int) -> str:
        """What one of its channels reads."""
        gate, channel = self._gate_of(index)
        return self.descriptor.gates[gate].locations[channel].partition_id

    def decline(self, checkpoint_id: int, reason: str, failure: Any = None) -> None:
        """It cannot give its part."""
        self.manager.checkpoint_said(tm.CheckpointNotDone(self.attempt, checkpoint_id, reason, failure))

    # ---- unaligned: what is under way

    def _begin_input_state(self, checkpoint_id: int, channels: tuple[int, ...]) -> None:
        """What these channels bring before their barrier is part of it, and what a barrier has overtaken."""
        self._kept, self._kept_channels, self._kept_id = {}, set(channels), checkpoint_id
        self._keep(*self._in_front)

    def _convert(self, index: int, checkpoint_id: int) -> None:
        """A barrier whose news was heard overtakes what stands in front of it, if it was not read meanwhile."""
        for _, item in self.inputs[index].items:
            if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                self.world.agenda.after(0, self._if_here, self._read_converted, index, item)

    def _read_converted(self, index: int, barrier: CheckpointBarrier) -> None:
        if self._is_working() and any(item is barrier for _, item in self.inputs[index].items):
            self._read_overtaking(index, barrier, overtaking(barrier))

    def _keep(self, index: int, records: list[Records]) -> None:
        if self._kept is not None and records:
            self._kept.setdefault(self._gate_of(index), []).extend(records)

    def _end_input_state(self) -> None:
        """All of it is there."""
        waiting, kept = self._waiting, self._kept
        self._forget_input_state(self._kept_id)
        if waiting is not None and kept is not None:
            barrier, snapshot = waiting
            self.async_part.begin(barrier.checkpoint_id, replace(snapshot, input_state=kept), options_of(barrier))

    def _end_of_kept(self, index: int, barrier: CheckpointBarrier) -> None:
        """What comes behind its barrier does not belong to the checkpoint; one of an older checkpoint says nothing."""
        if barrier.checkpoint_id == self._kept_id:
            self._kept_channels.discard(index)

    def _forget_input_state(self, checkpoint_id: int) -> None:
        """It will not be wanted, or it is complete."""
        if checkpoint_id < self._kept_id:
            return
        self._waiting = self._kept = None
        self._kept_channels = set()
