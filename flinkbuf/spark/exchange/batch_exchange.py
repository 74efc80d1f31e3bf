"""A task of a pipelined exchange that writes batches in one thread and reads batches in another.

Two tasks that send to each other must not both wait for room. A batch is written whole, in C without the GIL, so here
it is a thread of its own that waits, and the task's thread goes on reading. Flink's tasks of one thread do the same by
turns (record_exchange.pyx).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flinkbuf._core.flow.batch_reader import BatchBuilder, TaskBatches
from flinkbuf.errors import RemoteTransportError
from flinkbuf.network.metrics import gate_metrics
from flinkbuf.network.partition import ResultPartition
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter

if TYPE_CHECKING:
    import pyarrow

    from flinkbuf.network.input_gate import InputGate

LINGER_MS = 100  # as long as a buffer waits for more records, by default
LOOK_S = 0.1
POLL_S = 0.002
STOP_PATIENCE_S = 5.0


class BatchExchange(Iterator["pyarrow.RecordBatch"]):
    """Write the batches of an iterator into a partition, and iterate the batches of a gate.

    Parameters
    ----------
    writer : RecordWriter
        It is closed, and its partition too, when all batches have been written.
    partition : ResultPartition
        The writer's.
    gate : InputGate
        What comes; it was not read from before.
    builder : BatchBuilder
        Makes the batches.
    batches : iterator
        Taken in the writing thread.
    check : callable
        Called without arguments about every 100 ms, as long as somebody iterates; what it raises ends the iteration.

    Notes
    -----
    The iteration ends when the gate has, and everything written was read by its readers. An error of either side, of
    the iterator or of `check` comes out of the iteration; the caller then calls `give_up`.
    """

    def __init__(
        self,
        writer: RecordWriter,
        partition: ResultPartition,
        gate: InputGate,
        builder: BatchBuilder,
        batches: Iterator[pyarrow.RecordBatch],
        check: Callable[[], object],
    ) -> None:
        self._writer, self._partition, self._gate = writer, partition, gate
        self._batches, self._check = batches, check
        self._reader = RecordReader(gate, writer.type)
        self._results = TaskBatches(self._reader, builder, self._look, LINGER_MS)
        self._thread = threading.Thread(target=self._write, name="flinkbuf-batches", daemon=True)
        self._error: BaseException | None = None  # of the writing thread
        self._is_over = False
        self._records_in = self._idle_ms = self._peak_buffers = 0

    @property
    def has_record_in_hand(self) -> bool:
        """Whether the error that came out of here was raised over a row that was to be written."""
        return getattr(self._error, "record_number", None) is not None

    def __next__(self) -> pyarrow.RecordBatch:
        if self._is_over:
            raise StopIteration
        if self._thread.ident is None:
            self._thread.start()
        try:
            batch = next(self._results, None)
            if batch is None:
                self._finish()
                raise StopIteration
        except StopIteration:
            raise
        except Exception as error:
            cause = self._error or error  # what the writing thread found first breaks the reading, too
            raise cause from (cause.__cause__ if cause is error else None)
        self._records_in += batch.num_rows
        return batch

    def write_rest(self) -> None:
        """Pass over what comes, until all that is to be written has been, and was read."""
        for _ in self:
            pass

    def give_up(self, reason: str) -> None:
        """Tell the readers why nothing more comes, and have the writing thread stop, if it waits for room."""
        self._partition.abort(reason, int(1000 * STOP_PATIENCE_S) if self._thread.is_alive() else 0)
        if self._thread.ident is not None:
            self._thread.join(LOOK_S)  # it may be in the user's code, or wait for Spark: then it ends with the process

    def figures(self) -> dict[str, int]:
        """Return what was counted so far, by the names of `flinkbuf.spark.exchange.summary.TaskFigures`."""
        channels = gate_metrics(0, self._gate).channels
        return {
            "records_in": self._records_in,
            "records_out": self._writer.record_count,
            "bytes_in": sum(channel.bytes for channel in channels),
            "bytes_out": self._partition.total_written_bytes,
            "buffers_in": sum(channel.buffers for channel in channels),
            "buffers_out": self._partition.total_buffer_count,
            "back_pressured_ms": self._partition.soft_back_pressured_ms + self._partition.hard_back_pressured_ms,
            "idle_ms": self._idle_ms,
            "peak_buffers": self._peak_buffers,
        }

    # ---- the writing thread

    def _write(self) -> None:
        try:
            for batch in self._batches:
                self._writer.emit_batch(batch)
            self._peak_buffers = self._partition.buffer_pool_usage()["peak"]
            self._writer.close()
            self._partition.close()
        except BaseException as error:
            self._error = error
            self._partition.fail(f"{type(error).__name__}: {error}")  # this task reads from it, too, and is woken

    # ---- the task's thread

    def _look(self) -> None:
        if self._error is not None:
            raise self._error
        self._check()

    def _finish(self) -> None:
        """Wait until all is written and read; there is nothing to read any more."""
        self._is_over = True
        started = looked = time.monotonic()
        while self._thread.is_alive() or not self._partition.is_released:
            if self._thread.is_alive():
                self._thread.join(LOOK_S)
            else:
                time.sleep(POLL_S)
            if self._partition.is_reader_lost:
                raise RemoteTransportError(self._partition.failure_cause or "a reader of this task's rows was lost")
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                self._look()
        self._idle_ms = int(1000 * (time.monotonic() - started))
        if self._error is not None:
            raise self._error
