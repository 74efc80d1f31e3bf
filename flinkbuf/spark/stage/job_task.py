"""The body of a Spark task that is a task manager of a job.

It finds the driver's control server, runs a task manager until the driver releases it, and leaves nothing behind in
its worker, which Spark uses again. A task whose records Spark takes gives them out meanwhile, as Spark asks for them.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinkbuf.log import logger
from flinkbuf.runtime.driver.job_files import ShippedFiles
from flinkbuf.runtime.manager.arrow_memory import system_memory
from flinkbuf.runtime.manager.garbage_collector import rare_collections
from flinkbuf.runtime.manager.interpreter_turns import short_turns
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.running_task import RunningTask
from flinkbuf.runtime.manager.shuffle import network_shuffle
from flinkbuf.runtime.manager.task_log import logging_to_stderr
from flinkbuf.runtime.manager.task_manager import TaskManager
from flinkbuf.spark.frames.spark_task_io import OutputQueue, SparkTaskIo
from flinkbuf.spark.stage.barrier_task import WatchedLink, check_all_run, data_plane, this_task
from flinkbuf.spark.stage.driver_address import DriverAddress
from flinkbuf.spark.stage.slot_input import SlotInput

if TYPE_CHECKING:
    from pyspark import Broadcast


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
    broadcasts: tuple[Broadcast[object], ...] = ()

    def __call__(self, index: int, records: Iterable[object]) -> Iterator[object]:
        """Be a task manager; gives the records for Spark, if it takes any."""
        if not self.is_output:
            self._run(index, records, None)
            return iter(())
        check_all_run(self.slot_count, f"the {self.slot_count} tasks of a job", "a job")
        results = self._results(index, records)
        next(results)  # from now on it is closed if nobody reads from it
        return results

    def _results(self, index: int, records: Iterable[object]) -> Iterator[object]:
        output = OutputQueue()
        manager = ManagerThread(lambda: self._run(index, records, output), output)
        manager.start()
        try:
            yield None  # __call__ takes it
            yield from output
        except GeneratorExit:
            output.discard()  # the others may need what this task still makes for them
        except BaseException:
            output.discard()
            raise  # at once: the driver ends the task manager when Spark knows of the failure
        manager.join()

    def _run(self, index: int, records: Iterable[object], output: OutputQueue | None) -> None:
        """Be a task manager until the driver says that it is over; where Spark takes records, raise what failed."""
        bundle = self.bundle if isinstance(self.bundle, JobBundle) else JobBundle.from_bytes(self.bundle.value)
        config = data_plane(bundle.network, self.data_secret)
        with contextlib.ExitStack() as stack:
            stack.enter_context(logging_to_stderr(bundle.log_format))
            client = self.driver.connect()
            stack.callback(client.close)
            slot_input = SlotInput(records, self.is_direct)
            stack.callback(slot_input.close)
            link = WatchedLink(client)
            if output is not None:
                link.on_failed = lambda failure: output.finish(failure.to_exception())
                link.send(this_task())
            manager_id = f"{bundle.job_id}-{index}-{uuid.uuid4().hex[:8]}"
            if self.files is not None:
                from pyspark import SparkFiles

                bundle = stack.enter_context(self.files.entered(bundle, SparkFiles.getRootDirectory()))
            host = client.local_host
            shuffle = network_shuffle(
                bundle,
                config,
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
                make_task=RunningTask,
                target_io=SparkTaskIo(slot_input, output),
            )
            with rare_collections(), short_turns(), system_memory():
                reason = manager.run_until_signal()
        logger.debug("task manager %s: %s", manager_id, reason)
        if output is not None:
            link.check_finished(bundle.job_name, reason)


class ManagerThread(threading.Thread):
    """Runs a task manager beside Spark's own thread of the task, which hands out the records."""

    def __init__(self, run: Callable[[], object], output: OutputQueue) -> None:
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
