"""The async operator of a stream task: calls are made on the process's event loop, everything else is mail.

Records go to `flinkbuf.async_io.operator.AsyncOperator`, which queues them, calls, retries and times out. When
something can leave, the loop's thread puts one mail into the task's mailbox, and the mail emits all that can. Where
there is no room, or the end waits for the last calls, the operator runs mails meanwhile (`MailboxExecutor.yield_`): its
own and those of the operators behind it. Flink: AsyncWaitOperator.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, StreamOperator
from flinkbuf._core.value.own_value import copied, copied_if_it_can
from flinkbuf.async_io.function import AsyncOptions, CallContext
from flinkbuf.async_io.operator import AsyncOperator
from flinkbuf.async_io.queue import RecordElement, WatermarkElement
from flinkbuf.async_io.shared_loop import acquire_loop, look_at_loop, release_loop
from flinkbuf.errors import AsyncCallError
from flinkbuf.streaming.chain.mailbox import MailboxClosedError
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.streaming.time.processing_time import TimerHandle
from flinkbuf.types.types import object_type
from flinkbuf.types.values import WatermarkStatus

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

_LOOK_MS = 50  # the event loop is looked at so often while there are calls
_IN_FLIGHT = ListStateDescriptor("async-wait-operator-state", object_type())


@dataclass(frozen=True)
class AsyncWaitOperatorFactory:
    """Makes an `AsyncWaitOperator`.

    Parameters
    ----------
    function : AsyncFunction
        With ``async_invoke(value)``, and ``timeout``, ``open``, ``close`` if it wants.
    timeout_ms : int
        From the first call for a record, over all its attempts; 0: none.
    capacity : int, default 100
        Records and watermarks that wait or are called for at a time.
    is_ordered : bool, default True
        Results leave in the order of their records; else only watermarks keep their place.
    retry : AsyncRetryStrategy, optional
    """

    function: object
    timeout_ms: int
    capacity: int = 100
    is_ordered: bool = True
    retry: object = None

    def __call__(self) -> AsyncWaitOperator:
        return AsyncWaitOperator(self)


class _WatermarkOfSubtask(NamedTuple):
    """A watermark in a snapshot: it says what its subtask may still get, which is true of no other."""

    watermark: int
    parallelism: int


class AsyncWaitOperator(StreamOperator):
    """Calls for many records at once; their results leave with their record's timestamp.

    A watermark takes a place in the queue, too: it passes no record and no record passes it. So does a status, other
    than in Flink: an input that is idle holds event time back as long as there are calls for records of it, which would
    else come out late. What has not left is in the snapshot, calls that have ended included, and is called for again
    after a restore; a status is not, since each input is active then. At another parallelism the records are dealt out
    anew, and watermarks left out: behind that of another subtask a record would be late.
    """

    def __init__(self, factory: AsyncWaitOperatorFactory) -> None:
        self._factory = factory
        self._calls: AsyncOperator | None = None
        self._restored: list[RecordElement | WatermarkElement | _WatermarkOfSubtask] = []
        self._mutex = threading.Lock()
        self._has_mail = False  # one is on its way that will emit all that can leave
        self._looking: TimerHandle | None = None  # the next look at the event loop

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Take the records that were in flight."""
        super().initialize_state(snapshot)
        self._restored = list(self._in_flight_state().get())

    def open(self) -> None:
        """Open the user's function on the event loop, and call it again for the records that were in flight."""
        factory = self._factory
        options = AsyncOptions(
            capacity=factory.capacity,
            timeout=factory.timeout_ms / 1000 if factory.timeout_ms else None,
            ordered=factory.is_ordered,
            retry=factory.retry,
        )
        task, thread = self.context.task, acquire_loop(self._interrupted)
        calls = AsyncOperator(
            factory.function,
            options,
            context=CallContext(
                partition=task.subtask_index, partition_count=task.parallelism, task_attempt=task.attempt_number
            ),
            open_context=self.context.runtime_context,
            value_of=copied,  # what the function changes is called for as it was, in a retry and after a restore
            result_of=copied_if_it_can,  # it waits here, too, while the function may go on changing what it gave
            output=self._emit,
            on_ready=self._send_mail,
            thread=thread,
        )
        try:
            calls.open()
        except BaseException:
            release_loop(self._interrupted)
            raise
        self._calls = calls
        self._look()
        restored, self._restored = self._restored, []
        for element in restored:
            if isinstance(element, _WatermarkOfSubtask):
                if element.parallelism == task.parallelism:
                    self.process_watermark(element.watermark)
            elif isinstance(element, RecordElement):
                self.process_element(element.value, NO_TIMESTAMP if element.timestamp is None else element.timestamp)

    def process_element(self, value: object, timestamp: int) -> None:
        """Have the function called for a record, as soon as there is room."""
        calls = self._make_room()
        if not self.context.owns_records:
            value = self._own(value)
        calls.process_element(value, None if timestamp == NO_TIMESTAMP else timestamp)

    def _own(self, value: object) -> object:
        """Return a record that waits here, while the function that gave it may go on changing what it gave."""
        try:
            return copied(value)
        except BaseException:
            self.note_failure(value)
            raise

    def process_watermark(self, timestamp: int) -> None:
        """Queue a watermark behind the records before it."""
        calls = self._make_room()
        with _Located(self):
            calls.process_watermark(timestamp)

    def process_watermark_status(self, is_idle: bool) -> None:
        """Queue a status as a watermark."""
        calls = self._make_room()
        with _Located(self):
            calls.process_watermark(WatermarkStatus.IDLE if is_idle else WatermarkStatus.ACTIVE)

    def end_input(self, input_number: int) -> None:
        """Wait for all calls and their further attempts, as PyFlink does; Flink's own operator hurries them here."""
        self._wait_for_all()

    def finish(self) -> None:
        """Wait for all calls."""
        self._wait_for_all()

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Keep the records whose results have not left."""
        assert self._calls is not None, "the operator is not open"
        parallelism = self.context.task.parallelism
        self._in_flight_state().update(
            _WatermarkOfSubtask(each.watermark, parallelism) if isinstance(each, WatermarkElement) else each
            for each in self._calls.snapshot_state()
            if not _is_status(each)
        )
        return super().snapshot_state(checkpoint_id)

    def close(self) -> None:
        """Cancel the calls in flight, and close the user's function."""
        calls, self._calls = self._calls, None
        if self._looking is not None:
            self._looking.cancel()
        if calls is not None:
            try:
                calls.close()
            finally:
                release_loop(self._interrupted)

    @property
    def in_flight_count(self) -> int:
        """Records and watermarks that have come and not left."""
        return self._calls.in_flight_count if self._calls is not None else 0

    def _in_flight_state(self) -> Any:
        return self.context.operator_state.get_list_state(_IN_FLIGHT)

    def _make_room(self) -> AsyncOperator:
        calls = self._calls
        assert calls is not None, "the operator is not open"
        while calls.in_flight_count >= self._factory.capacity:
            self.context.mailbox.yield_()
        return calls

    def _wait_for_all(self) -> None:
        calls = self._calls
        assert calls is not None, "the operator is not open"
        calls.begin_end_input(is_hurrying=False)
        while calls.in_flight_count:
            self.context.mailbox.yield_()

    def _look(self, timestamp_ms: int = 0) -> None:
        """See whether a coroutine blocks the event loop, which holds all calls up; again a little later."""
        if self._calls is None or (self._calls.in_flight_count and not look_at_loop()):
            return
        timers = self.context.processing_time
        self._looking = timers.register_timer(timers.now_ms() + _LOOK_MS, self._look)

    def _send_mail(self) -> None:
        """Send a mail from the loop's thread: results can leave, or the operator has to fail."""
        with self._mutex:
            is_first, self._has_mail = not self._has_mail, True
        if is_first:
            with contextlib.suppress(MailboxClosedError):  # the task has ended and takes no results any more
                self.context.mailbox.submit(self._emit_ready, "emit results of async calls")

    def _emit_ready(self) -> None:
        with self._mutex:
            self._has_mail = False
        calls = self._calls
        if calls is not None:  # else it was closed meanwhile
            with _Located(self):
                calls.emit_ready()

    def _emit(self, element: RecordElement | WatermarkElement) -> None:
        if _is_status(element):
            self.output.emit_watermark_status(element.watermark.is_idle)  # type: ignore[union-attr]
        elif isinstance(element, WatermarkElement):
            self.emit_watermark(element.watermark)
        else:
            self.output.collect(element.value, NO_TIMESTAMP if element.timestamp is None else element.timestamp)

    def _interrupted(self, error: BaseException) -> None:
        """Pass on Ctrl-C or exit from the user's code; on the loop's thread."""
        if self._calls is not None:
            self._calls.fail(error)


def _is_status(element: RecordElement | WatermarkElement) -> bool:
    return isinstance(element, WatermarkElement) and isinstance(element.watermark, WatermarkStatus)


class _Located:
    """Gives the user's own error, not the one around it, and says for which record it was."""

    def __init__(self, operator: AsyncWaitOperator) -> None:
        self._operator = operator

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AsyncCallError):
            self._operator.note_failure(error.record)
            if isinstance(error.__cause__, Exception):
                raise error.__cause__
