"""Why a job cannot begin again, whatever its restart strategy says: what it reads or gave away exists only once.

An iterator of the program cannot be read a second time, and records that the program was given would come again. Such
a job fails with its error, and with a note that says why it was not restarted. Flink:
UncheckpointedCollectResultBuffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flinkbuf.log import logger
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import TaskStateReport
from flinkbuf.runtime.scheduler.master_actions import CoordinatorFailed, ManagerSaid, RunFailed
from flinkbuf.runtime.scheduler.regions import PipelinedRegions


class RestartLimits:
    """Looks at each failure before the job master does.

    Parameters
    ----------
    graph : JobGraph
        Factories that have ``why_not_again()`` are asked: a sentence, or None.
    plan : JobPlan
        Says what begins again together with what failed.
    is_asked : bool
        Whether the job would be restarted otherwise.

    Attributes
    ----------
    refusal : str or None
        Why the job was not restarted.
    """

    def __init__(self, graph: JobGraph, plan: JobPlan, *, is_asked: bool) -> None:
        self.refusal: str | None = None
        self._plan = plan
        self._reasons: list[tuple[int, Callable[[], str | None]]] = []  # with the index of the vertex
        if is_asked:
            self._reasons = [
                (index, operator.factory.why_not_again)
                for index, vertex in enumerate(graph.vertices)
                for operator in vertex.chain.operators
                if hasattr(operator.factory, "why_not_again")
            ]
        self._indexes = {vertex.id: index for index, vertex in enumerate(plan.vertices)} if self._reasons else {}
        self._regions: PipelinedRegions | None = None  # made when something fails

    def checked(self, stimulus: object) -> object:
        """Return the stimulus for the job master; its failure is final if the job cannot begin again."""
        if not self._reasons:
            return stimulus
        if isinstance(stimulus, ManagerSaid) and isinstance(stimulus.message, TaskStateReport):
            report = stimulus.message
            if report.failure is None:
                return stimulus
            place = (self._indexes.get(report.attempt.vertex_id, -1), report.attempt.subtask_index)
            return replace(stimulus, message=replace(report, failure=self._judged(report.failure, place)))
        if isinstance(stimulus, (CoordinatorFailed, RunFailed)):
            return replace(stimulus, failure=self._judged(stimulus.failure, None))
        return stimulus

    def _judged(self, failure: Failure, place: tuple[int, int] | None) -> Failure:
        for index, why_not_again in self._reasons:
            if place is not None and not self._begin_together(place, index):
                continue
            reason = why_not_again()
            if reason is not None:
                if self.refusal is None:
                    logger.warning("job %s is not restarted: %s", self._plan.job_name, reason)
                self.refusal = f"the job was not restarted: {reason}"
                return replace(failure, can_restart=False)
        return failure

    def _begin_together(self, place: tuple[int, int], index: int) -> bool:
        if self._regions is None:
            self._regions = PipelinedRegions(self._plan)
        region_of = self._regions.region_of
        parallelism = self._plan.vertices[index].parallelism
        return place in region_of and any(
            region_of[place] == region_of[index, subtask] for subtask in range(parallelism)
        )
