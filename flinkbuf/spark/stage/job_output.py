"""Jobs whose records Spark takes: an RDD that is computed by running the job in the stage that wants it.

Spark starts the stage, whenever it computes the RDD, and starts it again if it fails; nobody asks the driver. So the
tasks come to the driver unasked and say of which stage they are. For each attempt of a stage there is one job, with a
job master of its own; it never restarts by itself, since what Spark has taken cannot be taken back.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkbuf.control.connection import Connection
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.target import ManagerListener
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.job_plan import plan_of
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.shuffle import Shuffle
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import RegisterManager, RegistrationRefused
from flinkbuf.runtime.scheduler.slots import slot_count
from flinkbuf.spark.frames.rdd_order import declare_order
from flinkbuf.spark.stage.barrier_task import data_plane
from flinkbuf.spark.stage.driver_address import DriverAddress, listen_for_tasks
from flinkbuf.spark.stage.job import (
    TASK_BIND_OPTION,
    bundle_for_workers,
    check_stage,
    pickled_broadcasts,
    program_shuffle,
    ship,
)
from flinkbuf.spark.stage.job_stage import CODEC, StageManagers, forget_connection, is_stopped
from flinkbuf.spark.stage.job_task import JobTask, StageTask
from flinkbuf.spark.stage.slot_input import is_direct, stage_data
from flinkbuf.spark.stage.stage_attempts import StageAttempts, TaskAdmission
from flinkbuf.spark.stage.stage_progress import SparkStages
from flinkbuf.spark.workers import check_workers, shipped
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

ABSENCE_LOOK_S = 1.0
STAGES_KEPT = 100  # of one output, for tasks that come late

_outputs: set[JobOutput] = set()  # that Spark may still compute
_lock = threading.Lock()


class JobOutput:
    """A program of which Spark takes one stream, each time it computes it.

    Parameters
    ----------
    context : SparkContext
    graph : JobGraph
        Its own from now on.
    settings : ExecutionSettings
    options
        What `RunningJob` takes besides.

    Raises
    ------
    ValueError
        If Spark would not run it, with the way out.
    TypeError
        If a function cannot be pickled.
    """

    def __init__(self, context: SparkContext, graph: JobGraph, settings: ExecutionSettings, **options: Any) -> None:
        check_workers(context)
        plan = plan_of(graph, uuid.uuid4().hex)
        inputs = check_stage(context, graph, plan)
        self.graph = graph
        self.settings = settings
        self.options = options
        self.task_count = slot_count(plan)
        self.group_id = f"flinkbuf-output-{plan.job_id}"
        fields = options.get("bundle_fields", {})
        self.network = fields.get("network")
        tls = None if self.network is None else self.network.tls
        in_workers = [vertex.id for vertex in plan.vertices if not vertex.is_in_program]
        bundle = JobBundle.of(graph, plan.job_id, settings, vertex_ids=in_workers, **fields)
        broadcasts = pickled_broadcasts(context)
        files = ship(context, bundle.files)
        data = stage_data(context, inputs, self.task_count)
        self.context = context
        self._data: Any = context._jvm.java.lang.ref.WeakReference(data._jrdd.rdd())  # type: ignore[union-attr]
        self.stages = SparkStages(context)
        self._runs: OrderedDict[int, StageRuns] = OrderedDict()  # by Spark's number of the stage
        self._runs_lock = threading.Lock()
        self._arriving: dict[int, StageTask] = {}  # by connection; on the server's thread
        self._jobs: dict[int, StageJob] = {}  # likewise
        self._lease = listen_for_tasks(context.getConf(), tls)
        self.control = self._lease.server
        self.data_secret = self.control.secret_of(f"data-{plan.job_id}")
        self.control.open(self.group_id, self)
        address = DriverAddress(self.control.address, self.group_id, self.control.secret_of(self.group_id), tls)
        task = JobTask(
            address,
            self.data_secret,
            0,
            self.task_count,
            bundle_for_workers(bundle, plan),
            is_direct=is_direct(inputs, self.task_count),
            is_output=True,
            bind_host=context.getConf().get(TASK_BIND_OPTION),
            files=files,
            broadcasts=broadcasts,
        )
        made = data.barrier().mapPartitionsWithIndex(shipped(task))
        # Where tasks of the job send each other records, what comes first differs from run to run, and with it what
        # functions with state give.
        is_one_task = len(graph.vertices) == 1
        self._result: RDD[Any] | None = declare_order(made, is_unordered=is_one_task, is_indeterminate=not is_one_task)
        drop_data(graph)
        forget_outputs()
        with _lock:
            _outputs.add(self)

    def take_rdd(self) -> RDD[Any]:
        """Return what Spark computes, once: from now on it lives as long as others hold it.

        Its partition i holds what slot i of the job gives Spark.
        """
        result, self._result = self._result, None
        assert result is not None
        return result

    @property
    def is_needed(self) -> bool:
        """Whether Spark still knows of an RDD that is made of this one."""
        return not is_stopped(self.context) and self._data.get() is not None

    def close(self) -> None:
        """Let no task come any more."""
        self.control.close_group(self.group_id)
        for runs in list(self._runs.values()):
            runs.cancel()
        self._lease.close()

    # ---- what the control server calls, on its thread

    def connected(self, connection: Connection) -> None:
        """Wait until it says which task it is."""

    def received(self, connection: Connection, payload: bytes) -> None:
        """Pass on what a manager says to the job of its stage; find that job first.

        Raises
        ------
        CorruptDataError
            It says something else first.
        """
        job = self._jobs.get(connection.number)
        if job is not None:
            job.managers.received(connection, payload)
            return
        message = CODEC.decode(payload)
        if isinstance(message, StageTask):
            self._arriving[connection.number] = message
        elif isinstance(message, RegisterManager) and connection.number in self._arriving:
            task = self._arriving.pop(connection.number)
            on_thread(lambda: self._admit(connection, task, message), "flinkbuf arrival")
        else:
            raise CorruptDataError(f"a {type(message).__name__} before it was said which task of Spark's sends it")

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Tell the job of its stage."""
        self._arriving.pop(connection.number, None)
        job = self._jobs.pop(connection.number, None)
        if job is not None:
            job.managers.disconnected(connection, reason)

    # ---- on a thread of its own, since Spark is asked

    def _admit(self, connection: Connection, task: StageTask, message: RegisterManager) -> None:
        """Find the job that a task manager belongs to, or begin it."""
        with self._runs_lock:
            runs = self._runs.setdefault(task.stage, StageRuns(self, task.stage))
            while len(self._runs) > STAGES_KEPT:
                self._runs.popitem(last=False)[1].cancel()
        job = runs.job_of(message.index, task.task)
        if job is None:
            late = f"Spark has started a later attempt of stage {task.stage} than this task's"
            connection.send(CODEC.encode(RegistrationRefused(late)))
            return
        self.control.call_soon(self._join, job, connection, message)

    def _join(self, job: StageJob, connection: Connection, message: RegisterManager) -> None:
        """On the server's thread: from now on the job hears the manager."""
        if not connection.is_over:
            self._jobs[connection.number] = job
        job.add(connection, message)

    def absent(self, attempts: StageAttempts, stage: int, waiting_count: int) -> int:
        """Return how many tasks of a stage will never come, as far as Spark can tell."""
        return attempts.ended_without_a_word(self.stages.progress(stage), 0, waiting_count)


class StageRuns:
    """The attempts of Spark's to run one stage, and the job of the latest."""

    def __init__(self, output: JobOutput, stage: int) -> None:
        self._output = output
        self._stage = stage
        self._lock = threading.Lock()
        self._attempts = StageAttempts(output.task_count)
        self._job: StageJob | None = None

    def job_of(self, index: int, task: int) -> StageJob | None:
        """Return the job that a task belongs to, begun if it is the first of its attempt; None: it comes too late."""
        with self._lock:
            count = self._output.task_count
            attempt = None if self._attempts.knows(task) else self._output.stages.attempt_of(self._stage, task, count)
            admission = self._attempts.admit(index, task, attempt)
            if admission is TaskAdmission.OLD:
                return None
            if admission is TaskAdmission.NEW or self._job is None:
                if self._job is not None:
                    self._job.cancel()
                self._job = StageJob(self._output)
                self._job.begin(lambda waiting: self._output.absent(self._attempts, self._stage, waiting))
            return self._job

    def cancel(self) -> None:
        """End the latest job."""
        if self._job is not None:
            self._job.cancel()


class StageJob:
    """One run of the program, in one attempt of a stage: the target of its `RunningJob`, and its provider.

    Attributes
    ----------
    managers : StageManagers
        Hears the task managers.
    """

    name = "spark"
    is_in_process = False
    managers_come_together = True

    def __init__(self, output: JobOutput) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._run: int | None = None  # as soon as the job master wants its managers
        self._waiting: list[tuple[Connection, RegisterManager]] = []
        self._refusal: str | None = None
        self._ended = threading.Event()
        self._job = RunningJob(output.graph, output.settings, self, on_end=[self._note_end], **output.options)
        self.managers = StageManagers(self._job, self._job.manager_lost)

    def begin(self, absent: Callable[[int], int]) -> None:
        """Start the job; the managers that come are told if that fails."""
        try:
            self._job.start()
        except BaseException as error:
            failure = Failure.of(error)
            with self._lock:
                self._refusal = f"{failure.type_name.removeprefix('builtins.')}: {failure.message}"
                waiting, self._waiting = self._waiting, []
            for connection, _ in waiting:
                self._refuse(connection)
            return
        on_thread(lambda: self._look_for_absent(absent), "flinkbuf stage")

    def cancel(self) -> None:
        """End the job."""
        self._job.cancel()

    def add(self, connection: Connection, message: RegisterManager) -> None:
        """Take in a task manager; on the control server's thread."""
        with self._lock:
            is_waiting = self._run is None and self._refusal is None
            if is_waiting:
                self._waiting.append((connection, message))
        if self._refusal is not None:
            self._refuse(connection)
        elif not is_waiting:
            self._register(connection, message)

    def _register(self, connection: Connection, message: RegisterManager) -> None:
        assert self._run is not None
        self.managers.register(connection, replace(message, run=self._run))

    def _refuse(self, connection: Connection) -> None:
        connection.send(CODEC.encode(RegistrationRefused(self._refusal or "")))

    def _look_for_absent(self, absent: Callable[[int], int]) -> None:
        """While managers wait for others, see whether these will ever come."""
        while not self._ended.wait(ABSENCE_LOOK_S):
            come = len(self.managers.ids)
            if come == self._output.task_count:
                return
            gone = absent(come) if come else 0
            if gone:
                reason = (
                    f"{gone} of the {self._output.task_count} tasks ended without taking part, which the others wait "
                    "for: their results are in Spark's cache, which has lost those of the others. The result of a job "
                    "is computed whole or not at all: unpersist() it and run the job again; persist it with "
                    "StorageLevel.MEMORY_AND_DISK, or write it out"
                )
                self._job.run_failed(self._run or 0, Failure("builtins.RuntimeError", reason, can_restart=False))
                return

    def _note_end(self, error: BaseException | None) -> None:
        self._ended.set()
        if error is not None:
            logger.info("job %s, run by Spark, has failed: %s", self._job.job_id, error)

    # ---- as the target of the job

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """What Spark has taken cannot be taken back."""
        return False

    def shares_files(self) -> bool:
        """Say no: it keeps no checkpoints."""
        return False

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Everything was checked when the RDD was made."""

    def make_provider(self, job: ManagerListener) -> StageJob:
        """Return itself."""
        return self

    # ---- as the provider of its managers

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Spark has started them: let in those that have come."""
        with self._lock:
            if self._run is not None:
                raise StageOverError("Spark starts the tasks of this job, and runs a stage that failed again itself")
            self._run = run
            waiting, self._waiting = self._waiting, []
        for connection, message in waiting:
            self._output.control.call_soon(self._register, connection, message)

    def stop(self, manager_id: str, reason: str) -> None:
        """It was told to end; if it does not, Spark ends it with its stage."""

    def close(self) -> None:
        """Spark ends the stage."""

    def program_shuffle(self) -> Shuffle:
        """Return how tasks in the driver's process and those of the stage reach each other."""
        output = self._output
        config = data_plane(output.network, output.data_secret)
        return program_shuffle(output.context, self._job.plan, config, self._job.bundle)


class StageOverError(RuntimeError):
    """The stage of a job ends with its job."""

    can_restart = False


def drop_data(graph: JobGraph) -> None:
    """Forget the RDDs that a program reads, which live as long as somebody knows them; the graph is not yet shared."""
    for vertex in graph.vertices:
        for node in vertex.nodes:
            factory = node.transformation.factory
            without = copy.copy(factory) if getattr(factory, "reads_spark", False) else factory
            node.transformation = replace(node.transformation, inputs=[], factory=without)
        operators = tuple(
            replace(operator, factory=node.transformation.factory)
            for operator, node in zip(vertex.chain.operators, vertex.nodes, strict=True)
        )
        vertex.chain = replace(vertex.chain, operators=operators)


def on_thread(target: Callable[[], None], name: str) -> None:
    """Do something that asks Spark on a thread of its own, which leaves nothing behind."""

    def run() -> None:
        try:
            target()
        except Exception:
            logger.exception("%s failed", name)
        finally:
            forget_connection()

    threading.Thread(target=run, name=name, daemon=True).start()


def forget_outputs() -> None:
    """Close those whose RDD nobody can compute any more."""
    with _lock:
        over = [output for output in _outputs if not output.is_needed]
        _outputs.difference_update(over)
    for output in over:
        output.close()
