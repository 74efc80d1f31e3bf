"""Which tasks begin a checkpoint, and of which an answer is waited for. Flink: DefaultCheckpointPlanCalculator."""

from __future__ import annotations

from dataclasses import dataclass

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionGraph
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

_RUNNING, _FINISHED = ExecutionState.RUNNING, ExecutionState.FINISHED


class PlanRefusedError(Exception):
    """There can be no checkpoint now; the text says why."""


@dataclass(frozen=True)
class CheckpointPlan:
    """The part of each task in one checkpoint.

    Attributes
    ----------
    to_trigger : tuple of Execution
        Tasks that are told to begin: no running task sends them barriers.
    to_wait_for : dict
        All running tasks, by attempt: each acknowledges its state, and is notified of the result.
    has_finished_tasks : bool
        Some tasks have finished, and are noted as such.
    """

    to_trigger: tuple[Execution, ...]
    to_wait_for: dict[AttemptId, Execution]
    has_finished_tasks: bool = False


class CheckpointPlanner:
    """Makes the plans of one job.

    Parameters
    ----------
    graph : ExecutionGraph
    after_tasks_finish : bool
        Whether there are checkpoints after a task has come to its end.
    """

    def __init__(self, graph: ExecutionGraph, *, after_tasks_finish: bool = True) -> None:
        self.graph = graph
        self.after_tasks_finish = after_tasks_finish
        plan: JobPlan = graph.plan
        self._plan = plan
        self._inputs: list[list[EdgePlan]] = [[] for _ in plan.vertices]
        for edge in plan.edges:
            self._inputs[edge.target].append(edge)
        self._is_blocking = any(not edge.is_pipelined for edge in plan.edges)

    def plan(self) -> CheckpointPlan:
        """Return the plan of a checkpoint that begins now.

        Raises
        ------
        PlanRefusedError
            A task that the checkpoint needs does not run yet, or not any more.
        """
        self._check()
        waited = {each.attempt: each for each in self.graph.executions() if each.state is _RUNNING}
        if len(waited) < self.graph.subtask_count:
            return CheckpointPlan(self._heads(), waited, has_finished_tasks=True)
        sources = (vertex for vertex in self.graph.vertices if not self._inputs[vertex.index])
        return CheckpointPlan(tuple(each.current for vertex in sources for each in vertex.subtasks), waited)

    def _check(self) -> None:
        graph = self.graph
        if self._is_blocking:
            raise PlanRefusedError("a task writes all of its output before others read it")
        if graph.running_count + graph.finished_count < graph.subtask_count:
            other = next(each for each in graph.executions() if each.state not in (_RUNNING, _FINISHED))
            raise PlanRefusedError(f"{other.vertex} is {other.state.value}, and not RUNNING")
        if not graph.running_count:
            raise PlanRefusedError("all tasks have come to their end")
        if graph.finished_count and not self.after_tasks_finish:
            ended = next(each for each in graph.executions() if each.state is _FINISHED)
            raise PlanRefusedError(
                f"{ended.vertex} has come to its end, and there are no checkpoints after that "
                "(execution.checkpointing.checkpoints-after-tasks-finish)"
            )

    def _heads(self) -> tuple[Execution, ...]:
        """Return the running tasks that no running task feeds."""
        runs = [any(each.current.state is _RUNNING for each in vertex.subtasks) for vertex in self.graph.vertices]
        return tuple(
            subtask.current
            for vertex in self.graph.vertices
            if runs[vertex.index]
            and not any(runs[edge.source] and not edge.is_pointwise for edge in self._inputs[vertex.index])
            for subtask in vertex.subtasks
            if subtask.current.state is _RUNNING and not self._is_fed(vertex.index, subtask.index, runs)
        )

    def _is_fed(self, vertex: int, subtask: int, runs: list[bool]) -> bool:
        """Return whether a running task feeds this subtask."""
        return any(
            self.graph.vertices[edge.source].subtasks[producer].current.state is _RUNNING
            for edge in self._inputs[vertex]
            if runs[edge.source]
            for producer, _ in self._plan.channels_of(edge, subtask)
        )
