"""Writers that gather what they write: it leaves when there is enough, after a time, and before each checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from flinkbuf.streaming.sinks.sink import SinkWriter, WriterContext

if TYPE_CHECKING:
    from flinkbuf.streaming.time.processing_time import TimerHandle


class BatchingWriter(SinkWriter):
    """Sends batches; a subclass gathers them, says `added`, and has `send`.

    Parameters
    ----------
    context : WriterContext
    batch_size : int
        Of what is enough.
    batch_interval_ms : int
        How long the first of a batch waits for others; 0: until the checkpoint.
    """

    def __init__(self, context: WriterContext, batch_size: int, batch_interval_ms: int) -> None:
        self._time = context.processing_time
        self._batch_size = batch_size
        self._batch_interval_ms = batch_interval_ms
        self._timer: TimerHandle | None = None

    @abstractmethod
    def send(self) -> None:
        """Send what was gathered, if there is something, and wait until it has arrived."""

    def added(self, before: int, count: int) -> None:
        """Look whether there is enough: there were `before` in the batch, and now there are `count`."""
        if count >= self._batch_size:
            self.flush(False)
        elif before == 0 and self._batch_interval_ms:
            due_ms = self._time.now_ms() + self._batch_interval_ms
            self._timer = self._time.register_timer(due_ms, lambda timestamp_ms: self.flush(False))

    def flush(self, end_of_input: bool) -> None:
        """Send the batch and wait until it has arrived."""
        self._cancel_timer()
        self.send()

    def close(self) -> None:
        """Wait for nothing more; what was not sent comes again."""
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
