"""A pipelined exchange as a job: one vertex, whose tasks read what they all write; the driver's end of it.

An RDD may be computed at any time, or never, so nothing is kept for an exchange but while its tasks run: what its job
is like stands in the name of the group that its tasks come with.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, NoReturn

from flinkbuf.log import logger
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.graph.job_graph import IntermediateDataSet, JobEdge, JobGraph, build_job_graph
from flinkbuf.runtime.graph.stream_graph import DEFAULT_SLOT_SHARING_GROUP, GraphSettings, StreamGraph, StreamNode
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.spark.exchange.summary import ExchangeSummary, TaskFigures
from flinkbuf.spark.stage.driver_address import DriverAddress
from flinkbuf.spark.stage.meeting import Meeting, meeting_of, meeting_of_client
from flinkbuf.spark.stage.stage_job import NEVER_MS, StageJob, patient
from flinkbuf.spark.stage.stage_runs import Finished, StageProgram
from flinkbuf.spark.stage.task_end import last_calls_of

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

    from flinkbuf.spark.exchange.blocking import WriteTask
    from flinkbuf.web.serving import Served

SUMMARIES_KEPT = 100
WORD = "exchange"
_COUNTS = [each.name for each in fields(TaskFigures) if each.name != "index"]


class Exchanges:
    """All pipelined exchanges of one SparkContext, or session of Spark Connect.

    Parameters
    ----------
    meeting : Meeting
        Where their tasks come.
    last_calls : Accumulator, optional
        What the tasks are called by at their end.
    """

    def __init__(self, meeting: Meeting, last_calls: Accumulator[object] | None = None) -> None:
        self.last_calls = last_calls
        self._summaries: deque[ExchangeSummary] = deque(maxlen=SUMMARIES_KEPT)
        self.meet_at(meeting)

    def meet_at(self, meeting: Meeting) -> None:
        """Have the tasks come to another meeting from now on."""
        self.meeting = meeting
        meeting.serve(WORD, self._program)

    @property
    def summaries(self) -> list[ExchangeSummary]:
        """What the latest runs that came to their end counted, the last one last."""
        return list(self._summaries)

    def address_of(self, write: WriteTask) -> DriverAddress:
        """Return what the tasks of an exchange need to come here; OSError if nobody can listen for them."""
        pattern = "pointwise" if write.partitioner.kind in ("forward", "rescale") else "all"
        tls = None if write.config is None else write.config.tls
        return self.meeting.address_of(WORD, f"{write.name}/{write.channel_count}/{pattern}", tls)

    def _program(self, group_id: str) -> StageProgram:
        *_, name, task_count, pattern = group_id.split("/")

        def make_job(target: StageJob, on_end: Callable[[BaseException | None], object]) -> RunningJob:
            # A task goes when it is done: none is missed for its silence. Who hangs or dies, its connection tells.
            config = patient(JobMasterConfig(heartbeat_timeout_ms=NEVER_MS))
            graph = graph_of(name, int(task_count), is_pointwise=pattern == "pointwise")
            page = _Page()
            job = RunningJob(graph, target=target, config=config, on_end=[on_end, page.end])
            page.begin(job)
            return job

        count = int(task_count)
        return StageProgram(group_id, f"exchange {name}", "a pipelined exchange", count, make_job, self._finished)

    def _finished(self, found: Finished) -> None:
        """Keep what a run has counted, and log it."""
        tasks = tuple(
            TaskFigures(index, **{name: int(metrics.get(name, 0)) for name in _COUNTS})
            for index, metrics in enumerate(found.metrics)
        )
        exchange_id = found.name.removeprefix("exchange ")
        summary = ExchangeSummary(exchange_id, found.stage, found.seconds, tasks)
        logger.log(logging.INFO, "%s", summary)
        self._summaries.append(summary)


class _Page:
    """Where the job of an exchange can be looked at, if FLINKBUF_PROPERTIES asks for that: `rest.port` and its like.

    A program may run thousands of exchanges, so none is served because somebody sits before it, as other jobs are.
    """

    def __init__(self) -> None:
        self._served: Served | None = None

    def begin(self, job: RunningJob) -> None:
        """Serve the job, before it starts; one that cannot be served runs without."""
        from flinkbuf.common.configuration import default_configuration
        from flinkbuf.common.web_options import web_config_of
        from flinkbuf.web.serving import check, serve

        try:
            config = check(web_config_of(default_configuration(), is_watched=False))
            if config.is_watched:
                self._served = serve(job, config)
                job.page = self._served.link
                logger.info("%s can be looked at: %s", job.graph.settings.job_name, self._served.link_to_read)
        except Exception as error:
            logger.warning("%s has no page: %s", job.graph.settings.job_name, error)

    def end(self, error: BaseException | None) -> None:
        """Keep the last picture of the job."""
        if self._served is not None:
            self._served.end()


def graph_of(name: str, task_count: int, *, is_pointwise: bool) -> JobGraph:
    """Return the job of an exchange: one vertex, and an edge from it to itself.

    Examples
    --------
    >>> graph = graph_of("00ab", 3, is_pointwise=False)
    >>> graph.vertices, [edge.channels_of(1) for edge in graph.edges]
    ([<JobVertex 'exchange 00ab', parallelism 3>], [[(0, 1), (1, 1), (2, 1)]])
    """
    operator = OperatorTransformation(f"exchange {name}", None, [], task_count, factory=_by_spark)
    node = StreamNode(1, operator, task_count, None, DEFAULT_SLOT_SHARING_GROUP)
    settings = GraphSettings(job_name=f"exchange {name}", parallelism=task_count, runs_in_program=False)
    graph = build_job_graph(StreamGraph(settings, [node]))
    (vertex,) = graph.vertices
    edge = JobEdge(IntermediateDataSet(f"{vertex.id}-0", vertex, 0), vertex, 0, is_pointwise, "CUSTOM")
    vertex.outputs.append(edge)
    vertex.inputs.append(edge)
    return graph


def _by_spark() -> NoReturn:
    """Make no operator: what a task does came with Spark's closure, and Spark's thread does it."""
    raise NotImplementedError("Spark's thread does what a task of an exchange does")


# ---- those of each SparkContext

_lock = threading.Lock()
_by_owner: weakref.WeakKeyDictionary[object, Exchanges] = weakref.WeakKeyDictionary()


def exchanges_of(context: SparkContext) -> Exchanges:
    """Return the exchanges of a SparkContext, with where their tasks meet now."""
    return _met(context, meeting_of(context), lambda: last_calls_of(context))


def exchanges_of_client(session: SparkSession) -> Exchanges:
    """Return those of a session of Spark Connect."""
    return _met(session, meeting_of_client(session), lambda: None)


def _met(owner: object, meeting: Meeting, make_last_calls: Callable[[], Accumulator[object] | None]) -> Exchanges:
    with _lock:
        known = _by_owner.get(owner)
        if known is None:
            known = _by_owner[owner] = Exchanges(meeting, make_last_calls())
        elif known.meeting is not meeting:
            known.meet_at(meeting)
        return known


def summaries_of(owner: SparkContext | SparkSession) -> list[ExchangeSummary]:
    """Return what the latest runs in a SparkContext, or a session of Spark Connect, counted, the last one last."""
    known = _by_owner.get(owner)
    return [] if known is None else known.summaries
