"""A task that reads numbered records, counts them by key and passes them on, and takes part in checkpoints.

What decides is real: barrier handling, the task's part of each checkpoint, transactions, the way of a coordinator's
events into the mailbox. Channels, state and threads around it are made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from simulation.flow.async_part import AsyncPart, TaskFailure
from simulation.flow.flow_checkpoints import FlowChain, FlowGate, FlowInFlight, FlowStorage, FlowTimers
from simulation.flow.flow_mailbox import FlowMailbox
from simulation.flow.flow_records import FlowChannel, Records
from simulation.flow.flow_sink import FlowSink
from simulation.flow.flow_state import Count, FlowState, Snapshot, StateWriter
from simulation.world.invariants import Violation
from simulation.world.tasks import Fate, SimTask

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.network.events import (
    AlignmentType,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
    StopMode,
)
from flinkbuf.runtime.manager import task_actions as tm
from flinkbuf.runtime.manager.coordinator_proxy import CoordinatorProxy
from flinkbuf.runtime.protocol.deployment import TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.messages import (
    NO_SESSION,
    CheckpointAcknowledgement,
    CheckpointRefusal,
    EndOfDataReport,
)
from flinkbuf.streaming.chain.operator_config import TaskInfo
from flinkbuf.streaming.checkpoint.barrier_actions import TakeCheckpoint
from flinkbuf.streaming.checkpoint.barriers import barrier_of, blocks_channel, kind_of, overtaking
from flinkbuf.streaming.checkpoint.checkpointed_inputs import CheckpointedInputs
from flinkbuf.streaming.sources.source_events import NoMoreSplits, SplitRequested, SplitsAssigned
from flinkbuf.streaming.task.subtask_checkpoints import SubtaskCheckpoints, TaskProgress
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged, TaskEvent
from flinkbuf.streaming.task.task_state import TaskState, TaskStep

if TYPE_CHECKING:
    from simulation.world.managers import SimManager

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
        self.timers = FlowTimers(self)
        self.mailbox = FlowMailbox(self)
        self.proxy = CoordinatorProxy(self._tell_coordinator, self.mailbox)  # type: ignore[arg-type]
        self.settings = self.world.task_settings
        self.progress = TaskProgress()
        self.async_part = AsyncPart(self)
        self.inputs: list[FlowChannel] = []
        self.outputs: list[list[FlowChannel]] = []  # by partition and subpartition
        self.sink = FlowSink(self) if self.writer.is_sink else None
        self.committing_id = 0  # the checkpoint that counts, for whoever commits now
        self.checkpoints = self._make_checkpoints()
        self.checkpointed_inputs: CheckpointedInputs = CheckpointedInputs(self.settings, self.timers, self, "")
        self._in_flight: FlowInFlight | None = None
        self._gate: FlowGate | None = None
        self._planned_ms: int | None = None
        self._ended_inputs: set[int] = set()  # whose data has ended
        self._drains = True  # what has ended so far has ended for good
        self._has_no_more_splits = False
        self._has_asked = False  # for a split
        self._is_over = False  # it only waits for what is being written
        self._is_restored_as_finished = False

    def _make_checkpoints(self) -> SubtaskCheckpoints:
        attempt = self.attempt
        info = TaskInfo("", "", attempt.vertex_id, "task", attempt.subtask_index)
        checkpoints = SubtaskCheckpoints(
            info,
            FlowChain(self),  # type: ignore[arg-type]
            self.broadcast,
            self.progress,
            FlowStorage(self),  # type: ignore[arg-type]
            self._report,
            self.timers,  # type: ignore[arg-type]
            lambda: 0,
            lambda error: self.fail(self.world.failure(f"{self.attempt}: {error}")),
        )
        checkpoints.runner = self.async_part  # type: ignore[assignment]
        return checkpoints

    # ---- its beginning

    def _run(self) -> None:
        restore = self.descriptor.restore
        if self.state is TaskState.CANCELING:
            return
        if (asleep_ms := self.world.driver.threads.sleeps_until_ms - self.world.now_ms) > 0:
            self._later(asleep_ms, self._run)  # its machine is the program's
            return
        self._connect_channels()
        if restore is not None:
            self._restore(restore)
        if self.sink is not None and not self.is_gone:
            self.sink.open(self.memory.transactions, self.committing_id)
        if restore is None and self.writer.is_source and self.coordinated is None:
            self._take_first_splits()
        if self.is_gone or not self._reach(TaskStep.RUN):
            return
        if self.fate.fails_in is TaskState.RUNNING and self.fate.work_ms is not None:
            self._later(self.fate.work_ms, self._fail_at_work)
        self.progress.is_running = True
        self.world.data.connect(self)
        if self.coordinated is not None:
            self.proxy.register_reader(self.attempt.subtask_index, self)
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
        if self.inputs:
            self._gate = FlowGate(self)
            self.checkpointed_inputs.add_gate(self._gate)
        if self.settings.unaligned_checkpoints_enabled:
            self.checkpoints.in_flight = self._in_flight = FlowInFlight(self)

    def _restore(self, restore: Any) -> None:
        self._is_restored_as_finished = restore.is_finished
        self.committing_id = restore.checkpoint_id
        try:
            self.memory = self.writer.read(restore, self.world.owns(restore.checkpoint_id))
        except Violation:
            if self.world.has_job_for(self.attempt):
                raise
            self.fail(self.world.failure(f"{self.attempt} comes too late"))
            return
        for index, subpartition, records in self.writer.read_channels(restore.output_channels):
            for each in records:
                self.put(self.outputs[index][subpartition], each)
        for index, channel_index, records in self.writer.read_channels(restore.input_channels):
            channel = self.inputs[self._channel_number(index, channel_index)]
            channel.items.extendleft((1, each) for each in reversed(records))

    def _channel_number(self, gate: int, channel: int) -> int:
        return sum(len(each.locations) for each in self.descriptor.gates[:gate]) + channel

    def gate_of(self, number: int) -> tuple[int, int]:
        for index, gate in enumerate(self.descriptor.gates):
            if number < len(gate.locations):
                return index, number
            number -= len(gate.locations)
        raise IndexError(number)

    def _take_first_splits(self) -> None:
        parallelism, subtask = self.descriptor.parallelism, self.attempt.subtask_index
        for split in self.routes.splits_of(self.vertex):
            if split % parallelism == subtask:
                self.memory.positions[split] = 0

    # ---- a source

    def _tell_coordinator(self, payload: bytes) -> None:
        self.manager.task_said(self.attempt, self.coordinated, payload)

    def deliver(self, payload: bytes) -> None:
        """An event of its coordinator."""
        if self.is_working():
            self.proxy.deliver(payload)

    def handle_event(self, event: Any) -> None:
        """An event of its coordinator has come to its thread (OperatorEventHandler)."""
        if isinstance(event, SplitsAssigned):
            for split in event.splits:
                self.world.invariants.split_given(self, split)
                self.memory.positions[split] = 0
            self._has_asked = False
        elif isinstance(event, NoMoreSplits):
            self._has_no_more_splits = True

    def _emit(self) -> None:
        """Some records of one split."""
        if not self.is_working() or self.progress.has_ended_data:
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
            self.proxy.handle_event(self.attempt.subtask_index, SplitRequested())
        span_ms = (1, 20) if self.world.is_healed else self.flow.emit_ms
        self._later(self.world.between(span_ms), self._emit)

    def _is_crowded(self) -> bool:
        return any(len(channel.items) > CROWDED for channels in self.outputs for channel in channels)

    # ---- records

    def is_working(self) -> bool:
        """Whether its thread runs."""
        return self.state is TaskState.RUNNING and not self.is_gone

    def _pass_on(self, records: Records) -> None:
        if self.sink is not None:
            self.sink.write(records)
        for edge, channels in zip(self.routes.outputs[self.vertex], self.outputs, strict=True):
            self.put(channels[self.routes.subpartition(edge, records.split, len(channels))], records)

    def put(self, channel: FlowChannel, item: Any) -> None:
        """Behind all that was sent before."""
        span_ms = (0, 1) if self.world.is_healed else self.flow.channel_ms
        channel.put(item, self.world.now_ms + self.world.between(span_ms))

    def broadcast(self, event: Any) -> None:
        """To all consumers."""
        if self.acts():
            for channels in self.outputs:
                for channel in channels:
                    self.put(channel, event)

    def output_channels(self) -> Iterator[tuple[bool, tuple[int, int], FlowChannel]]:
        """Each with its place, and whether its edge joins subtasks one by one."""
        if self.acts():
            for index, (edge, channels) in enumerate(zip(self.routes.outputs[self.vertex], self.outputs, strict=True)):
                for subpartition, channel in enumerate(channels):
                    yield edge.is_pointwise, (index, subpartition), channel

    def look_at(self, time_ms: int) -> None:
        """Something can be read then."""
        if self._planned_ms is None or time_ms < self._planned_ms:
            self._planned_ms = max(time_ms, self.world.now_ms)
            self.world.agenda.at(self._planned_ms, self._step, self._planned_ms)

    def _step(self, planned_ms: int) -> None:
        if planned_ms != self._planned_ms:
            return
        self._planned_ms = None
        if self.is_working():
            self.guarded(self._read_next)

    def _read_next(self) -> None:
        now_ms = self.world.now_ms
        if self.world.checkpointing.is_unaligned:
            self._hear_urgent(now_ms)
        ready = [index for index, channel in enumerate(self.inputs) if channel.is_ready(now_ms)]
        if ready and self.is_working():
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
            while (found := channel.urgent()) is not None and found[0] <= now_ms and self.is_working():
                barrier = found[1]
                if barrier.alignment is AlignmentType.UNALIGNED:
                    self._read_overtaking(index, barrier, barrier)
                else:
                    channel.announced.add(barrier.checkpoint_id)
                    news = EventAnnouncement(barrier, barrier.checkpoint_id)
                    self.checkpointed_inputs.process_announcement(news, self._gate, index)

    def _read_overtaking(self, index: int, queued: CheckpointBarrier, barrier: CheckpointBarrier) -> None:
        """Take a barrier out of the queue of its channel; what stands in front of it was overtaken."""
        self._barrier(index, barrier, self.inputs[index].take_out(queued))

    def _barrier(self, index: int, barrier: CheckpointBarrier, in_front: list[Records]) -> None:
        if self._in_flight is not None:
            self._in_flight.barrier_read(index, barrier, in_front)
        self.checkpointed_inputs.process_barrier(barrier, self._gate, index)
        if self._in_flight is not None:
            self._in_flight.barrier_handled()

    def _read(self, index: int, item: Any) -> None:
        if isinstance(item, Records):
            self._count(index, item)
        elif isinstance(item, CheckpointBarrier):
            self.inputs[index].is_blocked = blocks_channel(item)
            self._barrier(index, item, [])
            self.world.invariants.barrier_read(self, index, item)
        elif isinstance(item, CancelCheckpointMarker):
            self.checkpointed_inputs.process_cancellation(item, self._gate, index)
        elif isinstance(item, EndOfData):
            self._data_ended(index, item)
        elif isinstance(item, EndOfPartition):
            self.world.data.read_to_the_end(self, index)
            if self._in_flight is not None:
                self._in_flight.ended(index)
            self.checkpointed_inputs.process_end_of_partition(self._gate, index)
            self._finish_if_over()

    def _count(self, index: int, records: Records) -> None:
        if self._in_flight is not None:
            self._in_flight.records_read(index, records)
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
        self._drains = self._drains and event.mode is StopMode.DRAIN
        if len(self._ended_inputs) == len(self.inputs):
            self._end_data(StopMode.DRAIN if self._drains else StopMode.NO_DRAIN)

    # ---- its end

    def _end_data(self, mode: StopMode) -> None:
        if self.progress.has_ended_data:
            return
        self.progress.is_drained = mode is StopMode.DRAIN
        if self.sink is not None and self.progress.is_drained and self.settings.checkpoints_after_tasks_finish:
            self.sink.finish()
        self.broadcast(EndOfData(mode))
        self.progress.has_ended_data = True
        if self.progress.is_drained and self.settings.checkpoints_after_tasks_finish:
            self.manager.checkpoint_said(EndOfDataReport(NO_SESSION, self.attempt))
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        """All was read, and the checkpoint that it waits for is complete."""
        if not self.progress.has_ended_data or self._is_over or not self.is_working():
            return
        if not self.checkpointed_inputs.has_open_channels and self._may_end():
            self._is_over = True
            self.broadcast(EndOfPartition())
            self.async_part.finish_first(lambda: self._come_out(TaskStep.FINISH))

    def _may_end(self) -> bool:
        return self.checkpoints.may_end(self.settings, self._is_read)

    def _is_read(self) -> bool:
        return all(channel.is_read_to_its_end for channels in self.outputs for channel in channels)

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
        self.async_part.cancel_all()
        super().vanish()

    # ---- what may happen to it between any two steps

    def acts(self) -> bool:
        """Whether it is there to do the next thing: its process may be killed between any two."""
        return self.is_working() and self.manager.goes_on()

    def guarded(self, call: Callable[..., Any], *arguments: Any) -> None:
        """What is raised ends the task."""
        try:
            call(*arguments)
        except TaskFailure as error:
            self.fail(error.failure)
        except RuntimeError as error:
            if "was to end with, has failed" not in str(error):
                raise
            self.fail(self.world.failure(f"{self.attempt}: stop with savepoint failed"))

    # ---- checkpoints: what it is told

    def trigger(self, action: tm.TriggerTask) -> bool:
        """Begin with this task; False: it does not run."""
        if self.is_working():
            barrier = barrier_of(action.checkpoint_id, action.timestamp_ms, action.options)
            self.mailbox.submit(lambda: self._trigger(barrier))
            return True
        return False

    def _trigger(self, barrier: CheckpointBarrier) -> None:
        if self.checkpointed_inputs.has_open_channels:
            self.checkpointed_inputs.trigger(barrier)
        elif kind_of(barrier).is_synchronous and self._may_stop(barrier.checkpoint_id):
            self.checkpoints.synchronous_id = barrier.checkpoint_id
            is_drain = kind_of(barrier) is SnapshotKind.SAVEPOINT_TERMINATE
            self._end_data(StopMode.DRAIN if is_drain else StopMode.NO_DRAIN)
            self._take(barrier)
        else:
            self._take(barrier)

    def _may_stop(self, checkpoint_id: int) -> bool:
        is_reading = self.writer.is_source and not self.progress.has_ended_data
        return is_reading and not self.checkpoints.is_over(checkpoint_id)

    def _take(self, barrier: CheckpointBarrier) -> None:
        self.checkpoints.take(TakeCheckpoint(barrier, 0))

    def notify(self, action: tm.NotifyTask) -> None:
        """A checkpoint counts, or never will."""
        if self.is_working():
            self.mailbox.submit(lambda: (self._complete if action.is_complete else self._abort)(action))

    def _complete(self, action: tm.NotifyTask) -> None:
        self.checkpoints.complete(action.checkpoint_id)
        self._finish_if_over()

    def _abort(self, action: tm.NotifyTask) -> None:
        self.async_part.cancel(action.checkpoint_id)
        self.checkpoints.abort(action.checkpoint_id, action.latest_completed_id)
        self.checkpointed_inputs.abort(action.checkpoint_id)
        self._finish_if_over()

    def memory_is_safe(self, checkpoint_id: int) -> None:
        """Later checkpoints may refer to the files of this one."""
        self.writer.completed(checkpoint_id)

    # ---- checkpoints: what the handling of its inputs wants (CheckpointTaking)

    def take(self, action: TakeCheckpoint, bytes_processed: int) -> None:
        """All barriers that it waits for are here."""
        if self.acts():
            self.checkpoints.take(action, bytes_processed)

    def give_up(self, checkpoint_id: int, reason: str) -> None:
        """It will not be complete here."""
        if self.acts():
            self.checkpoints.give_up(checkpoint_id, reason)

    def begin_input(self, checkpoint_id: int) -> bool:
        """Keep what comes before barriers that have not come."""
        return self.checkpoints.begin_input(checkpoint_id)

    def end_input(self, checkpoint_id: int, alignment_ms: int, bytes_processed: int) -> None:
        """All barriers have come."""
        if self.acts():
            self.checkpoints.end_input(checkpoint_id, alignment_ms, bytes_processed)
            self._finish_if_over()

    def resume(self, index: int) -> None:
        """A channel may go on, and does before anything else is done."""
        if not self.acts():
            return
        self.inputs[index].is_blocked = False
        channel = self.inputs[index]
        if channel.is_ready(self.world.now_ms) and isinstance(channel.items[0][1], Records):
            self._count(index, channel.items.popleft()[1])
        self._look_again(self.world.now_ms)

    def convert(self, index: int, checkpoint_id: int) -> None:
        """A barrier that is under way overtakes what stands in front of it, if it was not read meanwhile."""
        for _, item in self.inputs[index].items:
            if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                self.world.agenda.after(0, self._if_here, self.guarded, self._read_converted, index, item)

    def _read_converted(self, index: int, barrier: CheckpointBarrier) -> None:
        if self.is_working() and any(item is barrier for _, item in self.inputs[index].items):
            self._read_overtaking(index, barrier, overtaking(barrier))

    # ---- checkpoints: its own part

    def copy(self, checkpoint_id: int) -> Snapshot:
        """Its state now."""
        if not self.acts():
            return Snapshot({}, {}, (), False)
        if not self.world.is_healed and self.world.rng.random() < self.flow.sync_fails:
            raise TaskFailure(self, "taking its state")
        transactions = () if self.sink is None else self.sink.snapshot(checkpoint_id)
        memory = self.memory
        return Snapshot(dict(memory.positions), dict(memory.counts), transactions, False, self._is_restored_as_finished)

    def final_snapshot(self) -> Snapshot | None:
        """What it had at its end; None: it began at its end."""
        if self._is_restored_as_finished:
            return None
        return Snapshot(dict(self.memory.positions), dict(self.memory.counts), (), True)

    def partition_of(self, index: int) -> str:
        """What one of its channels reads."""
        gate, channel = self.gate_of(index)
        return self.descriptor.gates[gate].locations[channel].partition_id

    def _report(self, event: TaskEvent) -> None:
        if isinstance(event, CheckpointAcknowledged):
            said: Any = CheckpointAcknowledgement(
                NO_SESSION, self.attempt, event.checkpoint_id, event.state, event.metrics
            )
        else:
            failure = event.error.failure if isinstance(event.error, TaskFailure) else None
            said = CheckpointRefusal(NO_SESSION, self.attempt, event.checkpoint_id, event.reason, failure)
        self.manager.checkpoint_said(said)
