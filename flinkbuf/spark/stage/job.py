"""Jobs on Spark: the task managers are the tasks of one barrier stage, as many as the job needs slots.

Spark starts, places and feeds them. What a task's own code raises is answered in the processes that are there; a
process that is lost ends the stage, and the job goes on in another one if its restart strategy says so. Flink:
KubernetesResourceManagerDriver and its kind.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkbuf.config import NetworkConfig
from flinkbuf.runtime.driver.job_files import JobFiles, ShippedFiles
from flinkbuf.runtime.driver.target import ManagerListener
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.job_plan import JobPlan, plan_of
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.shuffle import Shuffle, network_shuffle, slot_segments_needed
from flinkbuf.runtime.scheduler.slots import slot_count, slot_of
from flinkbuf.spark.stage.barrier_stage import StageUser, check_allocation, check_chain, check_slots, slots_at_once
from flinkbuf.spark.stage.barrier_task import data_plane
from flinkbuf.spark.stage.driver_address import DriverAddress, driver_hosts, listen_for_tasks
from flinkbuf.spark.stage.job_stage import SparkStoppedError, StageRun, forget_connection, is_stopped
from flinkbuf.spark.stage.job_task import JobTask
from flinkbuf.spark.stage.page_link import described
from flinkbuf.spark.stage.slot_input import StageInput, is_direct, stage_data
from flinkbuf.spark.workers import check_workers, is_local, shipped
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext

BROADCAST_FROM = 1024**2  # bytes of functions and settings; so much is fetched once by each executor, by broadcast
PROGRAM_MANAGER = "program"
TASK_BIND_OPTION = "spark.flinkbuf.task.bindAddress"


class SparkTarget:
    """The executors of the active SparkContext; ``execution.target: spark``."""

    name = "spark"
    is_in_process = False
    managers_come_together = True

    def can_restart_in_place(self, graph: JobGraph) -> bool:
        """Input from Spark comes with the stage, once."""
        return not stage_inputs(graph, plan_of(graph, ""))

    def shares_files(self) -> bool:
        """Whether the executors are in the driver's own process: ``local[...]``."""
        return is_local(active_context())

    def check(self, graph: JobGraph, settings: ExecutionSettings) -> None:
        """Refuse what Spark would not run, or only after minutes.

        Raises
        ------
        RuntimeError
            There is no SparkContext here, or its workers cannot import flinkbuf.
        ValueError
            The job needs more slots than there are, or what it reads cannot be read in a barrier stage.
        """
        context = active_context()
        refuse_outputs(graph)
        check_workers(context)
        plan = self.fit(plan_of(graph, ""))
        check_stage(context, graph, plan)
        check_queries(context, graph, slot_count(plan))

    def fit(self, plan: JobPlan) -> JobPlan:
        """Have a batch job do with the slots that there are, if there are enough for each of its regions."""
        wanted = slot_count(plan)
        slots = slots_at_once(active_context(), wanted) if plan.is_batch else wanted
        if slots >= wanted:
            return plan
        fewer = replace(plan, slot_limit=max(1, slots))
        try:
            slot_count(fewer)
        except ValueError:  # one region alone needs more: that is refused with what can be done
            return plan
        return fewer

    def make_provider(self, job: ManagerListener) -> SparkProvider:
        """Return what starts and ends the stages of a job."""
        return SparkProvider(active_context(), job)


def active_context() -> SparkContext:
    """Return the SparkContext of this process.

    Raises
    ------
    RuntimeError
        There is none; with what to do about it.
    """
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise RuntimeError(
            f"the target 'spark' needs pyspark ({error}): install flinkbuf[spark], or set execution.target to 'local'"
        ) from error
    context: SparkContext | None = SparkContext._active_spark_context
    if context is None and _is_connected():
        raise RuntimeError(
            "this program is a client of Spark Connect, and the tasks of a job cannot reach it: run the program where "
            "Spark's driver runs, with spark-submit for example, or set execution.target to 'local'"
        )
    if context is None or is_stopped(context):
        raise RuntimeError(
            "there is no SparkContext to run the job in: make one first, such as by "
            "SparkSession.builder.master('local[2]').getOrCreate(), or set execution.target to 'local'"
        )
    return context


def _is_connected() -> bool:
    """Whether the program has a session of Spark Connect."""
    module = sys.modules.get("pyspark.sql.connect.session")
    return module is not None and module.SparkSession.getActiveSession() is not None


def stage_inputs(graph: JobGraph, plan: JobPlan) -> list[StageInput]:
    """Return what a job reads from Spark, and which slots read it."""
    found = []
    for index, vertex in enumerate(graph.vertices):
        for operator in vertex.chain.operators:
            if getattr(operator.factory, "reads_spark", False):
                first_slot = slot_of(plan, index, 0)
                assert first_slot is not None, "a source that reads Spark has no object of the program"
                factory: Any = operator.factory
                found.append(StageInput(factory.number, factory.data, first_slot, vertex.parallelism))
    return found


def refuse_outputs(graph: JobGraph) -> None:
    """A stream that goes to Spark is run by Spark."""
    for vertex in graph.vertices:
        for operator in vertex.chain.operators:
            if getattr(operator.factory, "feeds_spark", False):
                raise ValueError(
                    f"{operator.name!r} gives its records to Spark: its program is run whenever Spark computes the "
                    "result of to_rdd() or to_data_frame(), not by execute()"
                )


def check_stage(context: SparkContext, graph: JobGraph, plan: JobPlan) -> list[StageInput]:
    """Refuse a job that cannot be the tasks of one barrier stage; returns what it reads.

    Raises
    ------
    ValueError
        With the numbers, and the ways out.
    """
    inputs, count = stage_inputs(graph, plan), slot_count(plan)
    user = _stage_user(graph, bool(inputs))
    check_allocation(context, user)
    for each in inputs:
        if each.data.context is not context:
            raise ValueError(f"{user.name} reads an RDD of another SparkContext than the one that is active")
    check_slots(context.parallelize((), count), count, user)
    if is_direct(inputs, count):
        check_chain(inputs[0].data, count, user)
    return inputs


def check_queries(context: SparkContext, graph: JobGraph, count: int) -> None:
    """Refuse a job that would leave no slots to the queries that it reads.

    Raises
    ------
    ValueError
        With the numbers, and the ways out.
    """
    factories = [operator.factory for vertex in graph.vertices for operator in vertex.chain.operators]
    more = sum(getattr(factory, "query_slots", 0) for factory in factories)
    if not more:
        return
    slots = slots_at_once(context, count + more)
    if slots >= count + more:
        return
    start = f"start Spark with local[{count + more}]" if is_local(context) else "give the application more cores"
    raise ValueError(
        f"job {graph.settings.job_name!r} needs {count} slots for its own tasks and {more} for the query that it "
        f"reads, {count + more} together, and {context.master} has {slots}: {start}, set a smaller parallelism, or "
        "set execution.target to 'local', where the job's tasks are processes beside the driver"
    )


def _stage_user(graph: JobGraph, reads_spark: bool) -> StageUser:
    """Return how a job is called when it is refused, and what can be done about it."""
    groups = {vertex.slot_sharing_group for vertex in graph.vertices}
    fewer = "set a parallelism of at most {slots}" if len(groups) == 1 else ""
    otherwise = "set execution.target to 'local'"
    if reads_spark:
        otherwise = "read the data from files instead, with execution.target 'local'"
    return StageUser(
        name=f"job {graph.settings.job_name!r}",
        log_name=f"job {graph.settings.job_name!r}",
        needs="with {count} slots",
        fewer=fewer,
        otherwise=otherwise,
        once="a pipelined exchange or of to_rdd(), and two in one stage could wait for each other: put a shuffle such "
        "as repartition() between, or use mode='blocking' for the exchange",
    )


class SparkProvider:
    """The stages of one job, one after the other.

    Parameters
    ----------
    context : SparkContext
    job : ManagerListener
    """

    def __init__(self, context: SparkContext, job: ManagerListener) -> None:
        self._context = context
        self._job = job
        self._network = job.bundle.network
        self._tls = None if self._network is None else self._network.tls
        self._lease = listen_for_tasks(context.getConf(), self._tls)
        self._control = self._lease.server
        self._data_secret = self._control.secret_of(f"data-{job.job_id}")
        self._inputs = stage_inputs(job.graph, job.plan)
        self._properties = context._jsc.sc().getLocalProperties().clone()
        self._broadcasts = pickled_broadcasts(context)
        self._runs: dict[int, StageRun] = {}
        self._lock = threading.Lock()  # what the stages share is made by the thread of the first
        self._data: RDD[object] | None = None
        self._bundle: JobBundle | Broadcast[bytes] | None = None
        self._files: ShippedFiles | None = None

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Submit a barrier stage with a task for each slot.

        Raises
        ------
        SparkStoppedError
            The SparkContext was stopped.
        """
        if self._context._jsc is None:
            raise SparkStoppedError("the SparkContext was stopped: start the job again in a new one")
        name = self._job.graph.settings.job_name
        text = f"flinkbuf: {name}" + (f" (start {len(self._runs) + 1})" if self._runs else "")
        stage = StageRun(
            self._context,
            self._job,
            self._control,
            run=run,
            task_count=slot_count(self._job.plan),
            group=f"flinkbuf-{self._job.job_id}-{run}",
            description=described(self._context, text, self._job.job_id, self._job.page),
            properties=self._properties,
            make_data=lambda: self._stage(run),
        )
        self._runs[run] = stage
        stage.start()

    def stop(self, manager_id: str, reason: str) -> None:
        """Give the stage of a manager some time to end, then end it: all tasks of a stage end together."""
        for run in self._runs.values():
            if run.has_manager(manager_id):
                run.stop_soon()

    def close(self) -> None:
        """End all stages, within seconds."""
        for run in self._runs.values():
            run.end()
        self._lease.close()
        bundle = self._bundle
        if bundle is not None and not isinstance(bundle, JobBundle) and self._context._jsc is not None:
            bundle.destroy()
        forget_connection()

    def program_shuffle(self) -> Shuffle:
        """Return how tasks in the driver's process and those of the stages reach each other."""
        config = data_plane(self._network, self._data_secret)
        return program_shuffle(self._context, self._job.plan, config, self._job.bundle)

    # ---- on the thread of a stage

    def _stage(self, run: int) -> RDD[object]:
        """Return what Spark has to compute for a run."""
        group_id = f"flinkbuf-{self._job.job_id}-{run}"
        count = slot_count(self._job.plan)
        with self._lock:
            if self._data is None:
                self._data = stage_data(self._context, self._inputs, count)
            if self._bundle is None:
                self._bundle = self._bundle_for_workers()
        if len(self._runs) > 1:  # an executor may have gone, which Spark itself would look for again only after 15 s
            check_slots(self._data, count, _stage_user(self._job.graph, bool(self._inputs)))
        task = JobTask(
            DriverAddress(self._control.address, group_id, self._control.secret_of(group_id), self._tls),
            self._data_secret,
            run,
            count,
            self._bundle,
            is_direct=is_direct(self._inputs, count),
            bind_host=self._context.getConf().get(TASK_BIND_OPTION),
            files=self._files,
            broadcasts=self._broadcasts,
        )
        return self._data.barrier().mapPartitionsWithIndex(shipped(task))

    def _bundle_for_workers(self) -> JobBundle | Broadcast[bytes]:
        self._files = ship(self._context, self._job.bundle.files)
        bundle = bundle_for_workers(self._job.bundle, self._job.plan)
        data = bundle.to_bytes()
        return bundle if len(data) < BROADCAST_FROM else self._context.broadcast(data)


def pickled_broadcasts(context: SparkContext) -> tuple[Broadcast[object], ...]:
    """Return the broadcast variables in what this thread has pickled: Spark brings those only that are in a task."""
    noted = context._pickled_broadcast_vars
    found: tuple[Broadcast[object], ...] = tuple(noted)
    noted.clear()
    return found


def program_shuffle(context: SparkContext, plan: JobPlan, config: NetworkConfig, bundle: JobBundle) -> Shuffle:
    """Return what the task manager of the program itself reads and writes through, at the driver's address."""
    bind_host, host = driver_hosts(context.getConf())
    segments = slot_segments_needed(plan, config, in_program=True)
    return network_shuffle(bundle, config, host=bind_host, advertised_host=host, num_segments=segments)


def ship(context: SparkContext, files: object) -> ShippedFiles | None:
    """Give Spark the files of a job; None if there are none."""
    from pyspark import SparkFiles

    if not isinstance(files, JobFiles) or files.is_empty:
        return None
    return files.ship(context.addFile, SparkFiles.getRootDirectory())


def bundle_for_workers(bundle: JobBundle, plan: JobPlan) -> JobBundle:
    """Return what the task managers need: nothing of what runs in the program."""
    chains = {each.id: bundle.chains[each.id] for each in plan.vertices if not each.is_in_program}
    segments = slot_segments_needed(plan, bundle.network or NetworkConfig())
    return replace(bundle, chains=chains, network_segments=segments, files=())
