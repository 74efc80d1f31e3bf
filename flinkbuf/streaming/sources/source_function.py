"""Sources with ``run(context)``: they emit when they like, from a thread of their own.

Flink: SourceFunction, StreamSource, SourceStreamTask.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.source_operator import SourceOperatorBase, SourceOutput
from flinkbuf._core.operators.stream_operator import Output
from flinkbuf.errors import CancelTaskError
from flinkbuf.streaming.chain.checkpointed_function import FunctionCheckpoints
from flinkbuf.streaming.chain.latency_markers import LatencyMarkerEmitter, emit_latency_markers
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source_context import TimeCharacteristic, source_context
from flinkbuf.streaming.sources.source_handover import SourceContext, SourceHandover
from flinkbuf.streaming.sources.source_thread import SourceThread
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

PATIENCE_S = 1.0  # how long run() may take to return after cancel(), before and after it is interrupted


class SourceFunctionOperator(SourceOperatorBase):
    """Runs ``source_function.run(context)`` on a thread and emits on the task's what it hands over.

    Parameters
    ----------
    source_function : object
        With ``run(context)`` and ``cancel()``; ``open(runtime_context)`` and ``close()`` if it likes, and the methods
        of `CheckpointedFunction` and `CheckpointListener`.
    characteristic : TimeCharacteristic
        What becomes of its timestamps and watermarks.
    """

    def __init__(
        self, source_function: Any, characteristic: TimeCharacteristic = TimeCharacteristic.EVENT_TIME
    ) -> None:
        self._function = source_function
        self._characteristic = characteristic
        self._handover: SourceHandover | None = None
        self._thread: SourceThread | None = None
        self._taken: deque[StreamRecord | Watermark | WatermarkStatus] = deque()  # elements that are to be emitted
        self._has_ended = False
        self._ending: InputStatus | None = None  # stopped from outside
        self._is_canceled = False
        self._cancel_lock = threading.Lock()
        self._markers: LatencyMarkerEmitter | None = None
        self._checkpoints = FunctionCheckpoints(source_function)

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Let the function get its state."""
        super().initialize_state(snapshot)
        self._checkpoints.initialize_state(self.context.operator_state, snapshot)

    def open(self) -> None:
        """Open the function; it runs from the first turn on, when all operators are open."""
        if callable(getattr(self._function, "open", None)):
            self._function.open(self.context.runtime_context)
        context = self.context
        self._handover = SourceHandover(context.wake)
        settings = context.settings
        self._source_context = source_context(
            self._characteristic,
            self.output,
            context.processing_time,
            settings.auto_watermark_interval_ms,
            settings.is_batch,
        )
        self._markers = emit_latency_markers(self)

    def emit_next(self, output: Output, max_records: int) -> int:
        """Emit what was handed over."""
        if self._ending is not None and self._thread is None:
            return self._ending  # run() was never called
        if self._thread is None:
            self._start()
        has_rest = bool(self._taken)
        if not has_rest:
            self._take()
        self._emit_taken(output, max_records)
        if self._taken or has_rest:  # what came since the rest was taken may have rung before this turn, and only then
            return InputStatus.MORE_AVAILABLE
        if self._has_ended and (self._ending is not None or not self._is_canceled):
            return InputStatus.END_OF_INPUT if self._ending is None else self._ending
        if self._handover.has_failed:  # type: ignore[union-attr]
            return InputStatus.MORE_AVAILABLE  # its error comes with the next turn, for which no bell rings
        return InputStatus.NOTHING_AVAILABLE

    def _emit_taken(self, output: Output | None, max_records: int) -> None:
        source_output = output if isinstance(output, SourceOutput) else None
        taken, context = self._taken, self._source_context
        while taken and max_records > 0:
            element = taken.popleft()
            if type(element) is StreamRecord:
                if element.timestamp is None:
                    context.collect(element.value)
                else:
                    context.collect_with_timestamp(element.value, element.timestamp)
                max_records -= 1
                if source_output is not None and source_output.must_yield():
                    return
            elif type(element) is Watermark:
                context.emit_watermark(element.timestamp)
            else:
                context.mark_as_temporarily_idle()

    def _start(self) -> None:
        self._thread = SourceThread(self._run, self.context.task.task_name_with_subtask)
        self._thread.start()

    def _run(self) -> None:
        """Run the source; on its thread."""
        error: BaseException | None = None
        handover = self._handover
        assert handover is not None, "open() was called"
        try:
            self._function.run(SourceContext(handover))
        except CancelTaskError as canceled:
            error = None if handover.is_closed else canceled
        except BaseException as raised:
            error = raised
        handover.end(error)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what the source has handed over before the barrier, as its state is that of this moment."""
        handover = self._handover
        if handover is None:
            return
        with handover.hold():
            self._take()
            self._checkpoints.snapshot_state(checkpoint_id)
        self._emit_taken(None, len(self._taken))

    def _take(self) -> None:
        elements, self._has_ended = self._handover.take()  # type: ignore[union-attr]
        self._taken.extend(elements)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the function, on the task's thread."""
        self._checkpoints.notify_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the function, on the task's thread."""
        self._checkpoints.notify_aborted(checkpoint_id)

    def stop(self, is_drain: bool) -> None:
        """Stop with a savepoint: run() is to return, and what it has handed over by then comes before the end."""
        self._ending = InputStatus.END_OF_INPUT if is_drain else InputStatus.STOPPED
        self.cancel()

    def cancel(self) -> None:
        """Ask run() to return; from any thread, once."""
        with self._cancel_lock:
            if self._is_canceled:
                return
            self._is_canceled = True
        if self._handover is not None:
            self._handover.close()
        if self._thread is not None and callable(getattr(self._function, "cancel", None)):
            self._function.cancel()

    def close(self) -> None:
        """End the thread, then close the function."""
        if self._markers is not None:
            self._markers.close()
        if self._handover is None:
            return
        self._source_context.close()
        try:
            if self._thread is not None and not self._thread.join(0):
                self.cancel()
                self._thread.end(f"run() of {self._function!r}", PATIENCE_S)
        finally:
            self._handover.close()
            if callable(getattr(self._function, "close", None)):
                self._function.close()
