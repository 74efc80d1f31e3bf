"""Which tasks only wait for a last checkpoint. Flink: VertexEndOfDataListener."""

from __future__ import annotations

from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.scheduler.execution_graph import ExecutionGraph
from flinkbuf.runtime.scheduler.execution_state import ExecutionState


class EndsOfData:
    """Attempts whose operators have all finished.

    Parameters
    ----------
    graph : ExecutionGraph
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._attempts: set[AttemptId] = set()

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._attempts

    def add(self, attempt: AttemptId) -> bool:
        """Add an attempt; return False if the attempt is old, or over."""
        execution = self._graph.execution_of(attempt)
        if execution is None or execution.state.is_terminal:
            return False
        self._attempts.add(attempt)
        return True

    def forget_old(self) -> None:
        """Drop the attempts of subtasks that have begun anew."""
        self._attempts = {attempt for attempt in self._attempts if self._graph.execution_of(attempt)}

    @property
    def is_all(self) -> bool:
        """Return whether all tasks that have not ended have finished operators."""
        graph = self._graph
        if not self._attempts or len(self._attempts) + graph.finished_count < graph.subtask_count:
            return False
        return all(
            each.state is ExecutionState.FINISHED or each.attempt in self._attempts for each in graph.executions()
        )
