"""A job in the program's own process: one thread for each subtask, all channels local.

Breakpoints, coverage and tests work in it as in any Python program. The threads share the interpreter, so more
parallelism does not make Python code faster here. Whoever starts the job owns it: the first error of a task cancels
the others, and all threads, buffers and coordinators are gone when the job has ended. Flink: MiniCluster.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from flinkbuf._core.local_buffer_pool import NetworkBufferPool
from flinkbuf.errors import CancelTaskError, FlinkbufError, RemoteTransportError
from flinkbuf.jobs.job_graph import JobGraph, JobVertex
from flinkbuf.jobs.job_status import JobStatus, JobStep, next_status
from flinkbuf.jobs.user_code import PickledChain
from flinkbuf.log import logger
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition, buffer_limits
from flinkbuf.streaming.clock import Clock, SystemClock
from flinkbuf.streaming.error_location import locate_error
from flinkbuf.streaming.operator_config import ExecutionSettings, OperatorConfig, TaskInfo
from flinkbuf.streaming.operator_context import OperatorContext
from flinkbuf.streaming.operator_setup import make_context
from flinkbuf.streaming.source_coordinator import CoordinatorStore
from flinkbuf.streaming.task import Task, TaskState, TaskStateChanged

SEGMENT_SIZE = 32 * 1024
BUFFERS_PER_CHANNEL, FLOATING_BUFFERS = 2, 8
POOL_LIMIT = 8192  # segments (256 MiB) that a job has for comfort; a job that cannot run with so many has what it needs
WAIT_SLICE_S = 0.1  # how long a waiting program is deaf to Ctrl-C
EXIT_WAIT_S = 5.0
CANCEL_WAIT_S = 1.0  # for a cancel() of the user's when its task is over

_running: weakref.WeakSet[EmbeddedJob] = weakref.WeakSet()


class JobCanceledError(FlinkbufError):
    """The job was canceled before it had ended."""


class EmbeddedJob:
    """One run of a job graph on threads of this process: one a subtask, and one that minds them.

    Parameters
    ----------
    graph : JobGraph
    settings : ExecutionSettings, optional
    clock : Clock, optional
        The system's by default.
    on_end : iterable of callable, optional
        Each is called once, with the job's exception or None, when the last task has ended.

    Attributes
    ----------
    job_id : str
        32 hex digits.
    status : JobStatus
    exception : BaseException or None
        What failed the job.
    net_runtime_ms : int
        From its start to its end; 0 before that.
    """

    def __init__(
        self,
        graph: JobGraph,
        settings: ExecutionSettings | None = None,
        *,
        clock: Clock | None = None,
        on_end: Iterable[Callable[[BaseException | None], None]] = (),
    ) -> None:
        self.job_id = uuid.uuid4().hex
        self.graph = graph
        self.settings = settings or ExecutionSettings()
        self.clock: Clock = clock or SystemClock()
        self.status = JobStatus.CREATED
        self.exception: BaseException | None = None
        self.net_runtime_ms = 0
        self._on_end = list(on_end)
        self._inbox: queue.SimpleQueue[tuple[JobStep, BaseException | None]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._cancelers: list[threading.Thread] = []
        self._coordinators: dict[str, Any] = {}  # by operator id
        self._started_ns = 0

    def start(self) -> None:
        """Make all tasks and start their threads.

        Raises
        ------
        TypeError
            A function cannot be copied.
        Exception
            Whatever a source's coordinator raises, such as a missing directory.
        """
        self._started_ns = time.monotonic_ns()
        try:
            chains = [PickledChain.of(vertex) for vertex in self.graph.vertices]
            self._start_coordinators()
            self._make_tasks(chains)
        except BaseException as error:
            self._step(JobStep.FAIL, error)
            self._end()
            raise
        self._step(JobStep.START, None)
        _running.add(self)
        minder = threading.Thread(target=self._mind, name=f"job {self.graph.settings.job_name}", daemon=True)
        try:
            minder.start()
        except RuntimeError as refusal:  # the system has no thread left
            self._step(JobStep.FAIL, refusal)
            self._step(JobStep.END, None)
            self._end()
            raise
        except BaseException:  # Ctrl-C while the first threads already run
            self.cancel()
            raise

    def run(self) -> None:
        """Start it and wait for its end; Ctrl-C at any moment cancels it. Raises what `start` and `wait` raise."""
        try:
            self.start()
            self.wait()
        except KeyboardInterrupt:
            self.cancel()  # if it came between the two
            raise

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the job has ended; Ctrl-C cancels it.

        Raises
        ------
        Exception
            What failed the job: the user's own exception, with operator, subtask and record on it.
        JobCanceledError
            It was canceled.
        TimeoutError
            It has not ended in time; it goes on.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not self._ended.wait(WAIT_SLICE_S):
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"job {self.graph.settings.job_name!r} has not ended after {timeout_s} s")
        except KeyboardInterrupt:
            self.cancel()
            self._ended.wait()
            raise
        if self.exception is not None:
            raise self.exception
        if self.status is JobStatus.CANCELED:
            raise JobCanceledError(f"job {self.graph.settings.job_name!r} was canceled")

    def cancel(self) -> None:
        """Stop all tasks; returns at once. Does nothing to a job that has ended."""
        self._inbox.put((JobStep.CANCEL, None))

    @property
    def has_ended(self) -> bool:
        """Whether its last task has ended."""
        return self._ended.is_set()

    def _mind(self) -> None:
        """The thread of the job: what tasks report and users ask for is answered here, one after the other."""
        try:
            for task in self._tasks:
                thread = threading.Thread(target=task.run, name=task.info.task_name_with_subtask, daemon=True)
                thread.start()
                self._threads.append(thread)
        except RuntimeError as refusal:  # the system has no thread left
            self._step(JobStep.FAIL, refusal)
        open_count = len(self._tasks)  # each reports its end once
        interval_ms = self.settings.task_cancellation_interval_ms
        while open_count:
            try:
                step, error = self._inbox.get(timeout=interval_ms / 1000 if interval_ms > 0 else None)
            except queue.Empty:
                self._interrupt()
                continue
            open_count -= step in (JobStep.TASK_FAILED, JobStep.TASK_ENDED)
            self._step(step, error)
        for thread in self._threads:
            thread.join()
        self._step(JobStep.END, None)
        self._end()

    def _step(self, step: JobStep, error: BaseException | None) -> None:
        """Another status, and what follows from it. The first error is the job's."""
        before, self.status = self.status, next_status(self.status, step)
        if step in (JobStep.FAIL, JobStep.TASK_FAILED) and self.status in (JobStatus.FAILING, JobStatus.FAILED):
            self.exception = _cause_of(self.exception, error)
        if self.status is not before and self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
            self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        """Each on a thread of its own: a source's cancel() that takes its time keeps nobody else waiting."""
        for task in self._tasks:
            try:
                canceler = threading.Thread(target=task.cancel, name=f"cancel {task.info.task_name}", daemon=True)
                canceler.start()
                self._cancelers.append(canceler)
            except RuntimeError:  # the system has no thread left
                task.cancel()

    def _interrupt(self) -> None:
        """Nothing has happened for long: functions that do not return from a task that was cancelled are told again."""
        if self.status in (JobStatus.FAILING, JobStatus.CANCELLING):
            for task in self._tasks:
                task.interrupt()

    def _start_coordinators(self) -> None:
        """One for each source that has splits to give."""
        store = CoordinatorStore()
        for vertex in self.graph.vertices:
            for operator in vertex.chain.operators:
                create = getattr(operator.factory, "create_coordinator", None)
                if create is not None:
                    self._start_coordinator(vertex, operator, create, store)

    def _start_coordinator(self, vertex: JobVertex, operator: OperatorConfig, create: Any, store: Any) -> None:
        def failed(error: BaseException) -> None:
            locate_error(error, self._info(vertex, 0), operator, method="enumerator")
            self._inbox.put((JobStep.FAIL, error))

        try:
            coordinator = create(vertex.parallelism, self.clock, store, failed)
            self._coordinators[operator.operator_id] = coordinator
            coordinator.start()
        except BaseException as error:
            locate_error(error, self._info(vertex, 0), operator, method="create_enumerator")
            raise

    def _make_context(self, *, config: OperatorConfig, **surroundings: Any) -> OperatorContext:
        """As every task's, but a source knows who gives it splits."""
        context = make_context(config=config, **surroundings)
        if config.operator_id in self._coordinators:
            context.extras["coordinator"] = self._coordinators[config.operator_id]
        return context

    def _make_tasks(self, chains: list[PickledChain]) -> None:
        pool = NetworkBufferPool(segments_needed(self.graph), segment_size=SEGMENT_SIZE)
        partitions = {
            vertex: [self._partitions_of(vertex, subtask, pool) for subtask in range(vertex.parallelism)]
            for vertex in self.graph.vertices
        }
        for vertex, chain in zip(self.graph.vertices, chains, strict=True):
            for subtask in range(vertex.parallelism):
                self._tasks.append(
                    Task(
                        self._info(vertex, subtask),
                        chain.copy(),
                        self._gates_of(vertex, subtask, partitions),
                        partitions[vertex][subtask],
                        self.settings,
                        self.clock,
                        report=self._task_reported,
                        make_context=self._make_context,
                    )
                )

    def _partitions_of(self, vertex: JobVertex, subtask: int, pool: NetworkBufferPool) -> list[ResultPartition]:
        return [
            ResultPartition(
                pool,
                edge.subpartition_count(subtask),
                buffers_per_channel=BUFFERS_PER_CHANNEL,
                floating_buffers=FLOATING_BUFFERS,
            )
            for edge in vertex.outputs
        ]

    def _gates_of(
        self, vertex: JobVertex, subtask: int, partitions: dict[JobVertex, list[list[ResultPartition]]]
    ) -> list[InputGate]:
        return [
            InputGate(
                (partitions[edge.source.producer][producer][edge.source.partition_index], subpartition)
                for producer, subpartition in edge.channels_of(subtask)
            )
            for edge in vertex.inputs
        ]

    def _info(self, vertex: JobVertex, subtask: int) -> TaskInfo:
        return TaskInfo(
            job_id=self.job_id,
            job_name=self.graph.settings.job_name,
            vertex_id=vertex.id,
            task_name=vertex.name,
            subtask_index=subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
        )

    def _task_reported(self, event: object) -> None:
        """On the task's thread, or wherever it is cancelled: only noted here.

        A task that gave up without being told to (a function raised CancelTaskError, or what it reads is gone) has
        not done its work: the job must not look finished.
        """
        if isinstance(event, TaskStateChanged) and event.state.is_terminal:
            is_done = event.state is TaskState.FINISHED
            self._inbox.put((JobStep.TASK_ENDED if is_done else JobStep.TASK_FAILED, event.error))

    def _end(self) -> None:
        for canceler in self._cancelers:
            canceler.join(CANCEL_WAIT_S)
        for coordinator in self._coordinators.values():
            try:
                coordinator.close()
            except BaseException:  # sys.exit() in it, too: on this thread it would leave those who wait alone
                logger.exception("closing the coordinator of a source failed")
        if self.status is JobStatus.CANCELED:
            self.exception = None
        self.net_runtime_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        self._tasks, self._threads, self._cancelers = [], [], []  # and with them all that the user's functions hold
        self._coordinators = {}
        _running.discard(self)
        for call in self._on_end:
            try:
                call(self.exception)
            except BaseException:
                logger.exception("telling %r of the end of a job failed", call)
        self._ended.set()


def _cause_of(known: BaseException | None, error: BaseException | None) -> BaseException | None:
    """What failed the job: the first error that is not just the echo of a task that was gone."""
    if known is None or (_is_echo(known) and error is not None and not _is_echo(error)):
        return error
    return known


def _is_echo(error: BaseException) -> bool:
    return isinstance(error, (CancelTaskError, RemoteTransportError))


def segments_needed(graph: JobGraph) -> int:
    """How many segments the partitions of a job share: what each would like, if that is not too much."""
    least = wanted = 0
    for vertex in graph.vertices:
        for edge in vertex.outputs:
            for subtask in range(vertex.parallelism):
                minimum, maximum = buffer_limits(
                    "PIPELINED_BOUNDED", edge.subpartition_count(subtask), BUFFERS_PER_CHANNEL, FLOATING_BUFFERS
                )
                least, wanted = least + minimum, wanted + (maximum or minimum)
    # A little more than they can ask for: a pool that is asked for all it has warns of it.
    return max(least, min(wanted, POOL_LIMIT)) * 51 // 50 + 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # a child has no threads of its parent's jobs to wait for


@atexit.register
def _cancel_what_runs() -> None:
    """The interpreter ends: tasks that still run must not meet it half taken down."""
    jobs = list(_running)
    for job in jobs:
        job.cancel()
    deadline = time.monotonic() + EXIT_WAIT_S
    for job in jobs:
        job._ended.wait(max(0.0, deadline - time.monotonic()))
