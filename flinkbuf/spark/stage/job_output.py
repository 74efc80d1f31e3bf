"""Jobs whose records Spark takes: an RDD that is computed by running the job in the stage that wants it.

Spark starts the stage, whenever it computes the RDD, and starts it again if it fails; nobody asks the driver. So the
tasks come to the meeting of the SparkContext unasked, and for each attempt of a stage there is one job.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.job_plan import plan_of
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.shuffle import Shuffle
from flinkbuf.runtime.scheduler.slots import slot_count
from flinkbuf.spark.frames.rdd_order import declare_order
from flinkbuf.spark.stage.barrier_task import data_plane
from flinkbuf.spark.stage.job import (
    TASK_BIND_OPTION,
    bundle_for_workers,
    check_stage,
    pickled_broadcasts,
    program_shuffle,
    ship,
)
from flinkbuf.spark.stage.job_stage import is_stopped
from flinkbuf.spark.stage.job_task import JobTask
from flinkbuf.spark.stage.meeting import meeting_of
from flinkbuf.spark.stage.slot_input import is_direct, stage_data
from flinkbuf.spark.stage.stage_job import StageJob, patient
from flinkbuf.spark.stage.stage_runs import StageProgram
from flinkbuf.spark.workers import check_workers, shipped
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import RDD, SparkContext

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
        self.options = {**options, "config": patient(options.get("config"))}
        self.task_count = slot_count(plan)
        self.word = f"output-{plan.job_id}"
        fields = options.get("bundle_fields", {})
        self.network = fields.get("network")
        tls = None if self.network is None else self.network.tls
        in_workers = [vertex.id for vertex in plan.vertices if not vertex.is_in_program]
        bundle = JobBundle.of(graph, plan.job_id, settings, vertex_ids=in_workers, **fields)
        broadcasts = pickled_broadcasts(context)
        files = ship(context, bundle.files)
        data = stage_data(context, inputs, self.task_count)
        self.context = context
        self._data: JavaObject = context._jvm.java.lang.ref.WeakReference(data._jrdd.rdd())  # type: ignore[union-attr]
        self.meeting = meeting_of(context)
        self.data_secret = self.meeting.server_of(tls).secret_of(f"data-{plan.job_id}")
        address = self.meeting.address_of(self.word, "", tls)
        self.meeting.serve(self.word, self._program)
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
        self._result: RDD[object] | None = declare_order(
            made, is_unordered=is_one_task, is_indeterminate=not is_one_task
        )
        drop_data(graph)
        forget_outputs()
        with _lock:
            _outputs.add(self)

    def take_rdd(self) -> RDD[object]:
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
        self.meeting.forget(self.word)

    def _program(self, group_id: str) -> StageProgram:
        """Return what an attempt of a stage runs."""
        name = f"job {self.graph.settings.job_name!r}"
        return StageProgram(
            group_id, name, "a job", self.task_count, self._make_job, program_shuffle=self._program_shuffle
        )

    def _make_job(self, target: StageJob, on_end: Callable[[BaseException | None], object]) -> RunningJob:
        return RunningJob(self.graph, self.settings, target, on_end=[on_end], **self.options)

    def _program_shuffle(self, job: RunningJob) -> Shuffle:
        """Return how tasks in the driver's process and those of the stage reach each other."""
        return program_shuffle(self.context, job.plan, data_plane(self.network, self.data_secret), job.bundle)


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


def forget_outputs() -> None:
    """Close those whose RDD nobody can compute any more."""
    with _lock:
        over = [output for output in _outputs if not output.is_needed]
        _outputs.difference_update(over)
    for output in over:
        output.close()
