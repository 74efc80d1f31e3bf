"""The body of a Spark task that is a task manager of a job.

It finds the driver's control server, runs a task manager until the driver releases it, and leaves nothing behind in
its worker, which Spark uses again. A task whose records Spark takes gives them out meanwhile, as Spark asks for them.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.errors import PeerFailedError
from flinkbuf.log import logger
from flinkbuf.runtime.driver.job_files import ShippedFiles
from flinkbuf.runtime.manager.garbage_collector import rare_collections
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.manager_link import ManagerLink
from flinkbuf.runtime.manager.shuffle import network_shuffle
from flinkbuf.runtime.manager.task_manager import TaskManager
from flinkbuf.runtime.protocol.control_link import ControlLink
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import KINDS, RegistrationRefused, ReleaseManager, TaskStateReport
from flinkbuf.spark.frames.spark_task_io import OutputQueue, SparkTaskIo
from flinkbuf.spark.stage.barrier_task import check_all_run, data_plane
from flinkbuf.spark.stage.driver_address import DriverAddress
from flinkbuf.spark.stage.slot_input import SlotInput

if TYPE_CHECKING:
    from pyspark import Broadcast

# A task that did not fail itself waits so long before it does for the others' sake: Spark shows its user the failure
# that it hears of first, and ends the other tasks of the stage then.
CAUSE_FIRST_S = 2.0
END_PATIENCE_S = 5.0  # so long a task that has failed waits for the others of its process


@dataclass(frozen=True)
class StageTask:
    """A task of a stage that Spark started on its own says which one it is; before its manager registers."""

    stage: int
    task: int  # Spark's number of it


TASK_KINDS = {**KINDS, 64: StageTask}


@dataclass(frozen=True)
class JobTask:
    """One slot of a job: called by Spark with a partition, pickled to where it runs.

    Attributes
    ----------
    driver : DriverAddress
        Where the driver is, and as one of which managers this goes there.
    data_secret : bytes
        What proves the managers to each other.
    run : int
        Which call for task managers this answers.
    slot_count : int
        How many tasks the stage has.
    bundle : JobBundle or Broadcast
        The job's functions and settings; as bytes where they are broadcast.
    is_direct : bool
        How to read the stage's input; see `SlotInput`.
    is_output : bool
        Whether Spark takes records, and starts the stage when it wants them.
    bind_host : str or None
        The address to listen at, if it is not the one that the driver was reached with.
    files : ShippedFiles or None
        What functions find where they run.
    broadcasts : tuple of Broadcast
        The program's own, which its functions read.
    """

    driver: DriverAddress
    data_secret: bytes = field(repr=False)
    run: int
    slot_count: int
    bundle: JobBundle | Broadcast[bytes] = field(repr=False)
    is_direct: bool = True
    is_output: bool = False
    bind_host: str | None = None
    files: ShippedFiles | None = None
    broadcasts: tuple[Broadcast[Any], ...] = ()

    def __call__(self, index: int, records: Iterable[Any]) -> Iterator[Any]:
        """Be a task manager; gives the records for Spark, if it takes any."""
        if not self.is_output:
            self._run(index, records, None)
            return iter(())
        check_all_run(self.slot_count, f"the {self.slot_count} tasks of a job", "a job")
        results = self._results(index, records)
        next(results)  # from now on it is closed if nobody reads from it
        return results

    def _results(self, index: int, records: Iterable[Any]) -> Iterator[Any]:
        output = OutputQueue()
        manager = ManagerThread(lambda: self._run(index, records, output), output)
        manager.start()
        try:
            yield None  # __call__ takes it
            yield from output
        except GeneratorExit:
            output.discard()  # the others may need what this task still makes for them
            manager.join()
        finally:
            output.discard()
            manager.join(END_PATIENCE_S)

    def _run(self, index: int, records: Iterable[Any], output: OutputQueue | None) -> None:
        """Be a task manager until the driver says that it is over; where Spark takes records, raise what failed."""
        bundle = self._read_bundle()
        config = data_plane(bundle.network, self.data_secret)
        with contextlib.ExitStack() as stack:
            client = self.driver.connect()
            stack.callback(client.close)
            slot_input = SlotInput(records, self.is_direct)
            stack.callback(slot_input.close)
            link = WatchedLink(ControlLink(client, MessageCodec(TASK_KINDS)), output)
            if output is not None:
                link.send(_this_task())
            manager_id = f"{self.driver.group_id}-{index}-{uuid.uuid4().hex[:8]}"
            if self.files is not None:
                from pyspark import SparkFiles

                bundle = stack.enter_context(self.files.entered(bundle, SparkFiles.getRootDirectory()))
            host = client.local_host
            shuffle = network_shuffle(
                bundle,
                config,
                manager_id,
                host=self.bind_host or host,
                advertised_host=host,
                num_segments=bundle.network_segments,
            )
            manager = TaskManager(
                bundle,
                link,
                manager_id=manager_id,
                run=self.run,
                index=index,
                slot_count=1,
                shuffle=shuffle,
                target_io=SparkTaskIo(slot_input, output),
            )
            with rare_collections():
                reason = manager.run()
        logger.debug("task manager %s: %s", manager_id, reason)
        if output is not None:
            link.check_finished(bundle.job_name, reason)

    def _read_bundle(self) -> JobBundle:
        if isinstance(self.bundle, JobBundle):
            return self.bundle
        return JobBundle.from_bytes(self.bundle.value)


def _this_task() -> StageTask:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return StageTask(context.stageId(), context.taskAttemptId())


class ManagerThread(threading.Thread):
    """Runs a task manager beside Spark's own thread of the task, which hands out the records."""

    def __init__(self, run: Any, output: OutputQueue) -> None:
        super().__init__(name="flinkbuf task manager", daemon=True)
        self._run_manager = run
        self._output = output

    def run(self) -> None:
        """Run it; what it raises is what Spark's thread raises."""
        error: BaseException | None = None
        try:
            self._run_manager()
        except BaseException as raised:
            error = raised
        self._output.finish(error)


class WatchedLink:
    """A task manager's link to the driver that notes how the job ends, and the tasks of this process.

    Where Spark takes records, Spark's task may end well only where the whole job does: Spark keeps what such a task
    gave, and runs nothing again if the others seem to have ended well, too. The first failure that is the process' own
    is told to Spark at once.

    Attributes
    ----------
    failure : Failure or None
        Of a task here that failed by itself.
    """

    def __init__(self, link: ManagerLink, output: OutputQueue | None) -> None:
        self._link = link
        self._output = output
        self._is_finished = self._is_refused = False
        self.failure: Failure | None = None

    def send(self, message: object) -> None:
        """Note what a task says of its failure, and pass it on."""
        failure = message.failure if isinstance(message, TaskStateReport) else None
        if failure is not None and not failure.is_echo and self.failure is None:
            self.failure = failure
            if self._output is not None:
                self._output.finish(failure.to_exception())
        self._link.send(message)

    def receive(self, timeout_s: float | None) -> object | None:
        """Note what the driver says of the job's end, and pass it on."""
        message = self._link.receive(timeout_s)
        self._is_refused |= isinstance(message, RegistrationRefused)
        self._is_finished |= isinstance(message, ReleaseManager) and message.is_finished
        return message

    def wake(self) -> None:
        """Have `receive` return."""
        self._link.wake()

    def close(self) -> None:
        """End it."""
        self._link.close()

    def check_finished(self, job_name: str, reason: str) -> None:
        """Raise why Spark's task fails, unless the driver has said that the job has finished.

        That all tasks of this process have is not enough: others may have failed, or were never deployed.

        Raises
        ------
        PeerFailedError
            It has not; where a task here failed by itself, Spark's thread has that failure already.
        """
        if self._is_finished:
            return
        if not self._is_refused and self.failure is None:
            time.sleep(CAUSE_FIRST_S)
        raise PeerFailedError(f"job {job_name!r}: {reason}")
