"""Coordinators of sources that deal out splits on demand: the real coordinator, with an enumerator made for it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkbuf.jobs.deployment import AttemptId
from flinkbuf.jobs.master.master_actions import CoordinatorsSnapshotted, ResetSources, SubtaskGone, TellCoordinator
from flinkbuf.jobs.messages import OperatorEventMessage
from flinkbuf.streaming.source import SplitEnumerator
from flinkbuf.streaming.source_coordinator import CoordinatorStore, SourceCoordinator

if TYPE_CHECKING:
    from simulation.checkpoint_world import CheckpointWorld


class DealingEnumerator(SplitEnumerator):
    """One split for each request, then the news that there are no more."""

    def __init__(self, context: Any, splits: Sequence[int]) -> None:
        self.context = context
        self.splits = list(splits)
        self.done: set[int] = set()  # readers that were told so

    def start(self) -> None:
        """Nothing to do before somebody asks."""

    def add_reader(self, subtask_index: int) -> None:
        """It will ask."""

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Give it the next one."""
        if self.splits:
            self.context.assign_split(self.splits.pop(0), subtask_index)
        else:
            self.context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: Sequence[int], subtask_index: int) -> None:
        """A reader has lost them."""
        self.splits = [*splits, *self.splits]

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        """There are none."""

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        """Splits that nobody has."""
        return list(self.splits)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class DealingSource:
    """Makes such enumerators."""

    def __init__(self, splits: Sequence[int]) -> None:
        self._splits = splits

    def create_enumerator(self, context: Any) -> DealingEnumerator:
        """With all splits."""
        return DealingEnumerator(context, self._splits)

    def restore_enumerator(self, context: Any, checkpoint: list[int]) -> DealingEnumerator:
        """With those that nobody had."""
        return DealingEnumerator(context, checkpoint)


class _Gateway:
    """To one attempt of a reader."""

    def __init__(self, host: FlowCoordinators, attempt: AttemptId, operator_id: str) -> None:
        self._host, self._attempt, self._operator_id = host, attempt, operator_id

    def send(self, event: Any) -> None:
        self._host.send(self._attempt, self._operator_id, event)


class FlowCoordinators:
    """All coordinators of a job, and what they send while a checkpoint begins: it is held back until it has."""

    def __init__(self, world: CheckpointWorld) -> None:
        self.world = world
        self._operators = {
            vertex.id: operator.id
            for vertex in world.plan.vertices
            for operator in vertex.operators
            if operator.has_coordinator
        }
        self._vertex_of = {operator_id: vertex_id for vertex_id, operator_id in self._operators.items()}
        self._coordinators: dict[str, SourceCoordinator] = {}
        self._manager_of: dict[AttemptId, str] = {}
        self._gone: set[AttemptId] = set()
        self._registered: set[AttemptId] = set()
        self._held: dict[int, list[tuple[AttemptId, str, Any]]] = {}  # by checkpoint whose triggers are not sent
        self._generation = 0
        self._told_ms = 0
        self._make_all({})

    def _make_all(self, states: dict[str, list[int]]) -> None:
        self._generation += 1
        store = CoordinatorStore()
        for operator_id, vertex_id in self._vertex_of.items():
            vertex = self.world.routes.index_of[vertex_id]
            coordinator = SourceCoordinator(
                DealingSource(self.world.routes.splits_of(vertex)),  # type: ignore[arg-type]
                self.world.plan.vertices[vertex].parallelism,
                None,  # type: ignore[arg-type]
                store,
                lambda error: None,
            )
            coordinator.start(states.get(operator_id))
            self._coordinators[operator_id] = coordinator

    def operator_of(self, vertex_id: str) -> str | None:
        """The operator of a vertex that has a coordinator."""
        return self._operators.get(vertex_id)

    def deployed(self, attempt: AttemptId, manager_id: str) -> None:
        """Where its events go."""
        self._manager_of[attempt] = manager_id

    def tell(self, action: TellCoordinator) -> None:
        """A reader asks for a split."""
        delay_ms = self.world.between((0, 20))
        self.world.agenda.after(
            delay_ms, self._handle, self._generation, action.attempt, action.operator_id, action.payload
        )

    def _handle(self, generation: int, attempt: AttemptId, operator_id: str, event: Any) -> None:
        if attempt in self._gone or generation != self._generation or self.world.provider_is_closed:
            return
        coordinator = self._coordinators[operator_id]
        if attempt not in self._registered:
            self._registered.add(attempt)
            coordinator.register_reader(attempt.subtask_index, _Gateway(self, attempt, operator_id))
        coordinator.handle_event(attempt.subtask_index, event)

    def send(self, attempt: AttemptId, operator_id: str, event: Any) -> None:
        """To a reader: past the job master, straight to the manager of the attempt."""
        if self._held:
            self._held[max(self._held)].append((attempt, operator_id, event))
        else:
            self._send_now(attempt, operator_id, event)

    def _send_now(self, attempt: AttemptId, operator_id: str, event: Any) -> None:
        if attempt not in self._gone:
            message = OperatorEventMessage(self.world.session_id, attempt, operator_id, event)
            self.world.send_to(self._manager_of[attempt], message)

    def gone(self, action: SubtaskGone) -> None:
        """Nothing more is sent to it."""
        self._gone.add(action.attempt)

    def reset(self, action: ResetSources) -> None:
        """Readers of these subtasks begin anew, or all is made anew."""
        wanted = set(action.subtasks)
        for attempt in self._manager_of:
            if (attempt.vertex_id, attempt.subtask_index) in wanted:
                self._gone.add(attempt)
        if action.is_global:
            states = {key: pickle.loads(self.world.read_inline(handle)) for key, handle in action.states.items()}
            if action.checkpoint_id is not None:
                states = {key: states.get(key) for key in self._vertex_of if key in states}
            self._make_all(states)
            return
        for vertex_id, subtask in action.subtasks:
            operator_id = self._operators.get(vertex_id)
            if operator_id is not None:
                self._coordinators[operator_id].reset_reader(subtask, action.checkpoint_id)

    # ---- checkpoints

    def snapshot(self, checkpoint_id: int) -> None:
        """Take the state of all, and hold back what they send from now on."""
        if self.world.has_crashed:
            return
        self._held[checkpoint_id] = []
        states = {key: pickle.dumps(each.snapshot(checkpoint_id)) for key, each in self._coordinators.items()}
        failure = None
        if not self.world.is_healed and self.world.rng.random() < self.world.flow.coordinator_fails:
            states, failure = {}, self.world.failure("the state of an enumerator")
        delay_ms = 0 if self.world.is_healed else self.world.between(self.world.flow.coordinator_ms)
        self._told_ms = max(self._told_ms, self.world.now_ms + delay_ms)  # one after the other
        self.world.agenda.at(self._told_ms, self.world.tell, CoordinatorsSnapshotted(checkpoint_id, states, failure))

    def let_go(self, checkpoint_id: int) -> None:
        """The triggers are sent: so is what was held back."""
        for attempt, operator_id, event in self._held.pop(checkpoint_id, ()):
            self._send_now(attempt, operator_id, event)

    def complete(self, checkpoint_id: int) -> None:
        """A checkpoint counts."""
        for coordinator in self._coordinators.values():
            coordinator.notify_checkpoint_complete(checkpoint_id)
