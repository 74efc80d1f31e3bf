"""Coordinators of sources, on the driver: each gives the readers that say hello two splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.messages import OperatorEventMessage
from flinkbuf.runtime.scheduler.master_actions import ResetSources, SubtaskGone, TellCoordinator

if TYPE_CHECKING:
    from simulation.world.world import World

SPLITS = (b"split 0", b"split 1")


class Coordinators:
    """All of a job. What they send goes past the job master, straight to the manager of the attempt."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._operators = {
            vertex.id: operator.id
            for vertex in world.plan.vertices
            for operator in vertex.operators
            if operator.has_coordinator
        }
        self._manager_of: dict[AttemptId, str] = {}
        self._gone: set[AttemptId] = set()

    def operator_of(self, vertex_id: str) -> str | None:
        """The operator of a vertex that has a coordinator."""
        return self._operators.get(vertex_id)

    def deployed(self, attempt: AttemptId, manager_id: str) -> None:
        """Where its events go."""
        self._manager_of[attempt] = manager_id

    def tell(self, action: TellCoordinator) -> None:
        """A reader says hello."""
        self.world.agenda.after(self.world.between((0, 20)), self._answer, action.attempt, action.operator_id)

    def _answer(self, attempt: AttemptId, operator_id: str) -> None:
        if attempt not in self._gone and not self.world.provider_is_closed:
            for payload in SPLITS:
                message = OperatorEventMessage(self.world.session_id, attempt, operator_id, payload)
                self.world.send_to(self._manager_of[attempt], message)

    def gone(self, action: SubtaskGone) -> None:
        """Nothing more is sent to it."""
        self._gone.add(action.attempt)

    def reset(self, action: ResetSources) -> None:
        """Readers of these subtasks begin anew; what their old attempts were to get is not sent."""
        wanted = set(action.subtasks)
        for attempt in self._manager_of:
            if (attempt.vertex_id, attempt.subtask_index) in wanted:
                self._gone.add(attempt)
