"""Runs a whole job in the test's process: its outputs are read, its clock is set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.streaming.time.clock import Clock

DEFAULT_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.005


class KeptRecords:
    """What came out of one stream; tasks put it in, the test reads it."""

    def __init__(self) -> None:
        self.records: list[object] = []
        self.arrived = threading.Condition()

    def put(self, record: object, give_way: Callable[[], object] = bool) -> None:
        """Keep one record; on a task's thread."""
        with self.arrived:
            self.records.append(record)
            self.arrived.notify_all()


class JobHarness:
    """A job on threads of this process, and what came out of some of its streams.

    Whatever ``execution.target`` says, it is an embedded one: breakpoints work, and a clock can be set.

    Parameters
    ----------
    env : StreamExecutionEnvironment
        With the program; the job takes all of it.
    *streams : DataStream
        Those whose records are wanted.
    clock : Clock, optional
        Processing time of all tasks, such as a `ManualClock`; the machine's by default.

    Notes
    -----
    A harness is a context manager: it starts the job, and cancels what still runs at the end of the block. Flink:
    MiniClusterWithClientResource.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> doubled = env.from_collection([1, 2, 3]).map(lambda value: 2 * value)
    >>> with JobHarness(env, doubled) as job:
    ...     job.wait()
    ...     sorted(job.output(doubled))
    [2, 4, 6]
    """

    def __init__(self, env: StreamExecutionEnvironment, *streams: DataStream, clock: Clock | None = None) -> None:
        self._kept = {id(stream): KeptRecords() for stream in streams}
        self._streams = streams  # so that no other stream gets the id of one of them
        for stream in streams:
            stream._collect_to(self._kept[id(stream)])
        self._job, _ = env._make_job("job harness", clock=clock, target_name="embedded")

    def __enter__(self) -> JobHarness:
        self._job.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def status(self) -> JobStatus:
        """How the job stands."""
        status: JobStatus = self._job.status
        return status

    def output(self, stream: DataStream) -> list[object]:
        """Return the records that have come out of a stream so far, in the order of their coming."""
        kept = self._kept_of(stream)
        with kept.arrived:
            return list(kept.records)

    def wait_for(self, stream: DataStream, count: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[object]:
        """Wait until so many records have come out of a stream; return all that have.

        Raises
        ------
        TimeoutError
            If there are fewer after `timeout_s` seconds.
        """
        kept = self._kept_of(stream)
        with kept.arrived:
            if not kept.arrived.wait_for(lambda: len(kept.records) >= count, timeout_s):
                raise TimeoutError(
                    f"{len(kept.records)} of {count} records have come out of {stream.get_name()!r} in {timeout_s:g} "
                    f"s; the job is {self.status.name}"
                )
            return list(kept.records)

    def wait(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait for the job's end; raises what failed it, or TimeoutError if it has not ended in time."""
        self._job.wait(timeout_s)

    def savepoint(self, directory: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Have a savepoint made below a directory while the job goes on; returns its path.

        Set ``execution.state-recovery.path`` to it, and the same program begins from there in another harness.
        """
        return self._savepoint(directory, SnapshotKind.SAVEPOINT, timeout_s)

    def stop_with_savepoint(self, directory: str, *, drain: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """End the job with a savepoint: sources read no more, and all that was read is in it; returns its path.

        With `drain` event time comes to its end first, so that windows fire: for a job that will not go on.
        """
        kind = SnapshotKind.SAVEPOINT_TERMINATE if drain else SnapshotKind.SAVEPOINT_SUSPEND
        path = self._savepoint(directory, kind, timeout_s)
        self.wait(timeout_s)
        return path

    def _savepoint(self, directory: str, kind: SnapshotKind, timeout_s: float) -> str:
        self._wait_until_running(timeout_s)
        path: str = self._job.trigger_savepoint(directory, kind).result(timeout_s)
        return path

    def _wait_until_running(self, timeout_s: float) -> None:
        """Give the job master time to hear that its tasks run: their first records may be out before it has."""
        deadline = time.monotonic() + timeout_s
        while not self._job.has_ended and time.monotonic() < deadline:
            if all(vertex["status"] in ("RUNNING", "FINISHED") for vertex in self._job.details()["vertices"]):
                return
            time.sleep(LOOK_EVERY_S)

    def cancel(self) -> None:
        """Stop the job; returns at once."""
        self._job.cancel()

    def close(self) -> None:
        """Cancel the job if it still runs, and wait until all its threads are gone."""
        self._job.cancel()
        try:
            self._job.wait(DEFAULT_TIMEOUT_S)
        except TimeoutError:
            raise
        except BaseException:  # told by wait(), to whoever asks
            return

    def _kept_of(self, stream: DataStream) -> KeptRecords:
        try:
            return self._kept[id(stream)]
        except KeyError:
            raise ValueError(f"the harness was not given {stream.get_name()!r}: name it after env") from None
