"""One task's work, from its operators' opening to their closing, all on the thread that makes it.

The mailbox loop calls `_process_input` for a turn at a time; what other threads want comes as mail. Only `cancel` and
what says so are called from other threads. Flink: StreamTask.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.operators.source_operator import SourceOperatorBase
from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf._core.task.record_writer_output import TaskOutputs
from flinkbuf._core.task.stream_input import TaskSourceOutput, TaskTurn
from flinkbuf.checkpoints.handles import TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions, SnapshotKind
from flinkbuf.errors import CancelTaskError
from flinkbuf.log import logger
from flinkbuf.network.events import CheckpointBarrier, EndOfData, Event, StopMode
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition
from flinkbuf.streaming.chain.chain import OperatorChain
from flinkbuf.streaming.chain.error_location import keep_as_context
from flinkbuf.streaming.chain.mailbox import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    Mail,
    MailboxClosedError,
    MailboxProcessor,
    TaskMailbox,
)
from flinkbuf.streaming.chain.metrics import BACK_PRESSURED, BUSY, IDLE, NS_PER_MS, TaskMetrics, TaskTimes
from flinkbuf.streaming.chain.operator_config import ChainConfig, ExecutionSettings, TaskInfo
from flinkbuf.streaming.chain.operator_setup import make_context as make_operator_context
from flinkbuf.streaming.checkpoint.barrier_actions import TakeCheckpoint
from flinkbuf.streaming.checkpoint.barriers import barrier_of, kind_of
from flinkbuf.streaming.checkpoint.channel_state import TaskChannelState
from flinkbuf.streaming.checkpoint.checkpointed_inputs import CheckpointedInputs
from flinkbuf.streaming.checkpoint.snapshot_reader import read_restore
from flinkbuf.streaming.checkpoint.snapshot_writer import write_snapshot
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.checkpoint.task_storage import ReadRestore, TaskStorage, WriteSnapshot
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.input_processor import (
    OneInputProcessor,
    SourceInput,
)
from flinkbuf.streaming.task.sorting_inputs import InputSorting
from flinkbuf.streaming.task.subtask_checkpoints import SubtaskCheckpoints, TaskProgress
from flinkbuf.streaming.task.task_events import EndOfDataReached, TaskEvent
from flinkbuf.streaming.task.task_figures import (
    input_figures,
    operator_figures,
    output_figures,
    row_figures,
    watermark_of,
)
from flinkbuf.streaming.task.task_inputs import TaskInputs
from flinkbuf.streaming.task.task_outputs import aligned_partitions, make_writers
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.processing_time import TaskTimerService

if TYPE_CHECKING:
    from flinkbuf.checkpoints.storage import CheckpointStorage
    from flinkbuf.network.io_manager import IOManager
    from flinkbuf.streaming.chain.operator_config import OperatorConfig
    from flinkbuf.streaming.chain.operator_context import OperatorContext
    from flinkbuf.streaming.task.sorting_inputs import InputProcessor


def ignore_event(event: TaskEvent) -> None:
    """Drop the report."""


class StreamTask:
    """Runs one chain; see `flinkbuf.streaming.task.task.Task`, which calls it, for the arguments.

    Order of calls: `restore`, `invoke`, `clean_up` always; all on the thread that made it.
    """

    def __init__(
        self,
        info: TaskInfo,
        config: ChainConfig,
        gates: Sequence[InputGate],
        partitions: Sequence[ResultPartition],
        settings: ExecutionSettings,
        clock: Clock,
        *,
        restore: TaskRestore | TaskStateSnapshot | None = None,
        storage: CheckpointStorage | None = None,
        io_manager: IOManager | None = None,
        report: Callable[[TaskEvent], None] = ignore_event,
        make_context: Callable[..., OperatorContext] = make_operator_context,
        write_snapshot: WriteSnapshot = write_snapshot,
        read_restore: ReadRestore = read_restore,
        ticks: Callable[[], int] = time.monotonic_ns,
        seed: int | None = None,
    ) -> None:
        self.info = info
        self.bell = TaskBell()
        self._config = config
        self._settings = settings
        self._restore = restore
        self._io_manager = io_manager
        self._sorting: InputSorting | None = None
        self._seed = seed
        self._report = report
        self._partitions = list(partitions)
        self._gates = list(gates)
        self._input_processor: InputProcessor
        self._is_restored = self._is_canceled = False
        self._progress = TaskProgress()
        self._source_lock = threading.Lock()
        self._is_source_cancelled = False
        self._savepoint: CheckpointBarrier | None = None  # that the source has stopped for

        self.mailbox = TaskMailbox(self.bell)
        self.times = TaskTimes(ticks)
        self.mailbox_processor = MailboxProcessor(self._process_input, self.mailbox, self.times)
        for partition in self._partitions:
            partition.share_bell(self.bell)
        self._writers = make_writers(config, self._partitions, info.subtask_index, seed)
        self._outputs = TaskOutputs(self._writers)
        self._turn = TaskTurn(self.mailbox, self._outputs)
        self.timers = TaskTimerService(clock, self.mailbox)
        self.system_timers = TaskTimerService(clock, self.mailbox)
        self.mailbox.set_timers(self._post_due_timers)
        subscribe = getattr(clock, "subscribe", None)
        self._unsubscribe = subscribe(self.bell.ring) if subscribe is not None else None
        self.chain = OperatorChain(
            info,
            config,
            self._writers,
            self.mailbox_processor,
            self.timers,
            partial(make_context, task=info, settings=settings, clock=clock),
            self.bell.ring,
            random.Random(seed),
            settings.object_reuse,
        )
        self._storage = TaskStorage(info, settings, storage, write_snapshot, read_restore)
        self.checkpoints = SubtaskCheckpoints(
            info,
            self.chain,
            self._broadcast,
            self._progress,
            self._storage,
            report,
            self.system_timers,
            ticks,
            self._fail_for_state,
        )
        self._checkpointed_inputs = CheckpointedInputs(
            settings, self.system_timers, self.checkpoints, info.task_name_with_subtask
        )
        self._inputs = TaskInputs(
            config.inputs, self._gates, self._turn, self.bell, self.chain.task_counters, self._checkpointed_inputs
        )

    def _broadcast(self, event: Event) -> None:
        for writer in self._writers:
            writer.write_event(event)

    def _post_due_timers(self) -> int | None:
        user_ms, system_ms = self.timers.post_due(), self.system_timers.post_due()
        if user_ms is None or system_ms is None:
            return system_ms if user_ms is None else user_ms
        return min(user_ms, system_ms)

    # ---- the start --------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Make the operators, give them their state and open them, the last one first. A second call does nothing."""
        if self._is_restored:
            return
        self._is_restored = True
        restored = self._storage.read(self._restore)
        self._progress.is_drained = is_finished = restored is not None and restored.is_finished
        if is_finished:
            self._input_processor = self._inputs.make_finished_processor()
            self._restore_in_flight(restored)
        else:
            self.chain.make()
            self._input_processor = self._make_input_processor()
            self._check_canceled()
            self._restore_in_flight(restored)
            self.chain.initialize_state_and_open(None if restored is None else restored.operators)
            if self._sorting is not None:
                self._sorting.open(self.chain.head.context.runtime_context)
        self._restore = None  # as large as the state
        self._inputs.request_partitions()
        self._check_canceled()
        self._progress.is_running = True

    def _restore_in_flight(self, restored: TaskStateSnapshot | None) -> None:
        """Restore the records in flight of an unaligned checkpoint, before open() emits anything."""
        inputs, outputs = ((), ()) if restored is None else (restored.input_channels, restored.output_channels)
        if not (self._settings.unaligned_checkpoints_enabled or inputs or outputs):
            return
        gate_indexes = [each.gate_indexes for each in self._config.inputs]
        readers = list(zip(self._inputs.readers, gate_indexes, strict=True))
        in_flight = TaskChannelState(readers, self._partitions, forced_aligned=aligned_partitions(self._config))
        in_flight.restore(inputs, outputs)
        self.checkpoints.in_flight = in_flight

    def _make_input_processor(self) -> InputProcessor:
        chain, inputs = self.chain, self._config.inputs
        if chain.is_source:
            source = chain.head.operator
            assert isinstance(source, SourceOperatorBase)
            output = TaskSourceOutput(source.output, self._turn)
            return OneInputProcessor(SourceInput(source, output, self.times.ticks), chain.end_input)
        targets = chain.head.operator.inputs
        if len(targets) != len(inputs):
            raise ValueError(f"{chain.head.config.name} has {len(targets)} inputs, its task is to read {len(inputs)}")
        if self._settings.is_batch:
            memory = chain.head.context.memory
            self._sorting = InputSorting(inputs, self._settings.sorted_inputs_memory, memory, self._io_manager)
            return self._inputs.make_batch_processor(
                chain.head.operator, chain.head.counters, chain.end_input, self._sorting
            )
        next_selection = getattr(chain.head.operator, "next_selection", None)
        return self._inputs.make_processor(targets, chain.head.counters, chain.end_input, next_selection)

    # ---- the work ---------------------------------------------------------------------------------------

    def invoke(self) -> None:
        """Process all input, until its end. CancelTaskError if it was cancelled."""
        try:
            self.restore()
            self._check_canceled()
            self.mailbox_processor.run_mailbox_loop()
            self._check_canceled()
            self._after_invoke()
        except BaseException as error:
            if not self._is_canceled:
                self.chain.locate(error, self._source_config)
            raise

    @property
    def _source_config(self) -> OperatorConfig | None:
        """Return the source's configuration: an error that no function of the chain has raised is from it."""
        return self._config.operators[0] if self.chain.is_source and not self._progress.has_ended_data else None

    def _process_input(self, processor: MailboxProcessor) -> None:
        seen = self.bell.seen()
        if not self._outputs.is_available:
            if self._inputs.process_priority_events():  # barriers that overtake are heard all the same
                return
            processor.suspend_default_action(BACK_PRESSURED, seen)
            return
        try:
            status = self._input_processor.process_input()
        except BaseException as error:
            self.chain.locate(error, self._config.operators[0])  # no function of the chain: its source, or its input
            raise
        if status == InputStatus.MORE_AVAILABLE:
            return
        if status == InputStatus.NOTHING_AVAILABLE:
            processor.suspend_default_action(IDLE, seen)
        elif status == InputStatus.END_OF_DATA:
            self._end_data(StopMode.DRAIN)
            self._report(EndOfDataReached(self.info))
        elif status == InputStatus.STOPPED:
            self._end_data(StopMode.NO_DRAIN)
        else:
            processor.suspend_default_action(IDLE)
            processor.suspend()

    def _end_data(self, mode: StopMode) -> None:
        is_drain = mode is StopMode.DRAIN
        self._progress.is_drained |= is_drain
        if is_drain and (self.chain.is_source or not self.chain.operators):
            self._end_event_time()
        self.chain.finish(is_drain)
        self._broadcast(EndOfData(mode))
        self._progress.has_ended_data = True
        savepoint, self._savepoint = self._savepoint, None
        if savepoint is not None:
            self.perform_checkpoint(savepoint)

    def _end_event_time(self) -> None:
        if not self.chain.operators:  # all operators were finished before
            for writer in self._writers:
                writer.write_watermark(MAX_WATERMARK)
            return
        output = self.chain.head.output
        output.emit_watermark_status(False)  # an idle source would keep its last watermark to itself
        output.emit_watermark(MAX_WATERMARK)

    # ---- the end ----------------------------------------------------------------------------------------

    def _after_invoke(self) -> None:
        self.mailbox_processor.run_mails_until(self._may_end)
        self._check_canceled()
        self.timers.quiesce()
        self.system_timers.quiesce()
        self.mailbox_processor.prepare_close()
        self.mailbox_processor.drain()
        self._progress.is_running = False
        for writer in self._writers:
            writer.flush()
        self.checkpoints.runner.wait_until_idle()
        self._check_canceled()
        if (error := self.chain.close()) is not None:
            raise error

    def _may_end(self) -> bool:
        return self._is_canceled or self.checkpoints.may_end(self._settings, self._is_all_read)

    def _is_all_read(self) -> bool:
        return all(partition.is_all_data_processed or partition.is_released for partition in self._partitions)

    def finish_partitions(self) -> None:
        """Finish the partitions: their records stay readable until they were read."""
        for writer, partition in zip(self._writers, self._partitions, strict=True):
            writer.stop()
            partition.finish()
            partition.close()

    def _fail_for_state(self, error: BaseException) -> None:
        """Fail the task, as a state holds a value that cannot be written; from any thread."""

        def fail() -> None:
            for operator in self._config.operators:
                if operator.operator_id == getattr(error, "operator_id", None):
                    self.chain.locate_at(error, operator)
            raise error

        self.mailbox_processor.steer(fail, "a state that cannot be written")

    def cancel(self) -> None:
        """End the task as soon as its thread comes back to its loop; from any thread."""
        self._is_canceled = True
        self._progress.is_running = False
        self.checkpoints.runner.cancel_all()
        self.mailbox_processor.report_throwable(CancelTaskError(f"{self.info.task_name_with_subtask} was cancelled"))
        try:
            self.cancel_source()
        except BaseException:  # the user's cancel(), on the thread that controls all tasks
            logger.exception("cancel() of the source of %s failed", self.info.task_name_with_subtask)

    def cancel_source(self) -> None:
        """Tell a source that has threads of its own, or waits; once, from any thread."""
        if not self.chain.is_source or (head := self.chain.made_head) is None:
            return
        with self._source_lock:
            is_first, self._is_source_cancelled = not self._is_source_cancelled, True
        if is_first and hasattr(head.operator, "cancel"):
            head.operator.cancel()

    def _check_canceled(self) -> None:
        if self._is_canceled:
            raise CancelTaskError(f"{self.info.task_name_with_subtask} was cancelled")

    def clean_up(self, error: BaseException | None) -> BaseException | None:
        """Free everything, in every outcome; each part even if another fails.

        Returns
        -------
        BaseException or None
            The first error: the given one, or the first of the cleaning. Later ones are shown behind it.
        """
        self._progress.is_running = False
        steps: list[Callable[[], BaseException | None]] = [
            *([self.cancel_source] if error is not None else []),
            self.timers.quiesce,
            self.system_timers.quiesce,
            self.checkpoints.close,
            self.chain.close,
            *([self._sorting.close] if self._sorting is not None else []),
            *self._inputs.closers,
            *(writer.stop for writer in self._writers),
            *([self._unsubscribe] if self._unsubscribe is not None else []),
            self.mailbox_processor.close,
        ]
        for step in steps:
            try:
                later = step()
            except BaseException as raised:
                later = raised
            if error is None:
                error = later
            elif later is not None:
                keep_as_context(error, later)
        return error

    # ---- checkpoints ------------------------------------------------------------------------------------

    def _submit(self, action: Callable[[], object], description: str, mail_priority: int = MAX_PRIORITY) -> bool:
        """Have a call made on the task's thread; return whether it will be."""
        try:
            self.mailbox.put(Mail(action, mail_priority, description))
        except MailboxClosedError:
            return False
        return True

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: CheckpointOptions) -> bool:
        """Take a checkpoint between two records; from any thread. False: the task has ended."""
        barrier = barrier_of(checkpoint_id, timestamp_ms, options)
        # An operator that waits in the middle of a record serves mails meanwhile: this one is not to be among them.
        return self._submit(lambda: self._trigger(barrier), f"checkpoint {checkpoint_id}", MIN_PRIORITY)

    def _trigger(self, barrier: CheckpointBarrier) -> None:
        if self._checkpointed_inputs.has_open_channels:
            self._checkpointed_inputs.trigger(barrier)
        elif kind_of(barrier).is_synchronous and self._may_stop(barrier.checkpoint_id):
            self._stop_source(barrier)
        else:
            self.perform_checkpoint(barrier)

    def _may_stop(self, checkpoint_id: int) -> bool:
        is_reading = self.chain.is_source and self._progress.is_running and not self._progress.has_ended_data
        return is_reading and not self.checkpoints.is_over(checkpoint_id)

    def _stop_source(self, barrier: CheckpointBarrier) -> None:
        """Stop the source: the savepoint is taken at its end, and no record comes after it."""
        self._savepoint = barrier
        self.checkpoints.synchronous_id = barrier.checkpoint_id
        if (head := self.chain.made_head) is not None:
            assert isinstance(head.operator, SourceOperatorBase)
            head.operator.stop(kind_of(barrier) is SnapshotKind.SAVEPOINT_TERMINATE)
        self.bell.ring()  # the source may have had nothing to do

    def perform_checkpoint(self, barrier: CheckpointBarrier) -> TaskStateSnapshot | None:
        """Send the barrier on and take the operators' state, on the task's thread; None if it is not due."""
        start_delay_ms = max(self.system_timers.now_ms() - barrier.timestamp, 0)
        return self.checkpoints.take(TakeCheckpoint(barrier, start_delay_ms))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> bool:
        """Notify operators: checkpoint complete; from any thread. An old id is passed over."""
        return self._submit(lambda: self.checkpoints.complete(checkpoint_id), f"checkpoint {checkpoint_id} complete")

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int = 0) -> bool:
        """Notify operators: checkpoint aborted; from any thread. A missed completion is told first."""
        self.checkpoints.runner.cancel(checkpoint_id)  # at once, whatever the task's thread is in
        return self._submit(
            lambda: self._abort_checkpoint(checkpoint_id, latest_completed_id), f"checkpoint {checkpoint_id} aborted"
        )

    def _abort_checkpoint(self, checkpoint_id: int, latest_completed_id: int) -> None:
        self.checkpoints.abort(checkpoint_id, latest_completed_id)
        self._checkpointed_inputs.abort(checkpoint_id)

    # ---- numbers ----------------------------------------------------------------------------------------

    @property
    def metrics(self) -> TaskMetrics:
        """Return the task's numbers now; from any thread."""
        counters, times, processor = self.chain.task_counters, self.times, self.mailbox_processor
        last = self.checkpoints.last_metrics
        return TaskMetrics(
            records_in=counters.records_in,
            records_out=counters.records_out,
            **row_figures(self.chain),
            busy_ms=times.total_ms(BUSY),
            idle_ms=times.total_ms(IDLE),
            back_pressured_ms=times.total_ms(BACK_PRESSURED),
            mailbox_queue_size=self.mailbox.size,
            mails_processed=processor.mails_processed,
            mailbox_latency_ms=processor.last_latency_ns / NS_PER_MS,
            watermark=watermark_of(self.chain, [valve.last_watermark for valve in list(self._inputs.valves)]),
            alignment_ms=0 if last is None else last.alignment_ms,
            start_delay_ms=0 if last is None else last.start_delay_ms,
            operators=operator_figures(self.chain),
            **input_figures(self._gates),
            **output_figures(self._partitions),
        )
