"""Coordinators of sources that deal out splits on demand: the real ones and their host, with an enumerator made for
them; what the host's thread would do is done in its order, each thing at its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from flinkbuf.runtime.driver.coordinators import CoordinatorHost
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import OperatorEventMessage
from flinkbuf.runtime.scheduler.master_actions import (
    CoordinatorFailed,
    CoordinatorsSnapshotted,
    ResetSources,
    SubtaskGone,
    TellCoordinator,
)
from flinkbuf.streaming.sources.source import SplitEnumerator
from flinkbuf.streaming.sources.source_coordinator import SourceCoordinator

if TYPE_CHECKING:
    from simulation.checkpoints.checkpoint_world import CheckpointWorld


class DealingEnumerator(SplitEnumerator):
    """One split for each request, then the news that there are no more."""

    def __init__(self, world: CheckpointWorld, context: Any, splits: Sequence[int]) -> None:
        self.world = world
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
        if not self.world.is_healed and self.world.rng.random() < self.world.flow.coordinator_fails:
            raise ValueError("the state of an enumerator")
        return list(self.splits)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class DealingSource:
    """Makes such enumerators, and as an operator's factory their coordinators."""

    def __init__(self, world: CheckpointWorld, splits: Sequence[int]) -> None:
        self._world = world
        self._splits = splits

    def create_coordinator(self, parallelism: int, clock: Any, store: Any, fail: Any) -> SourceCoordinator:
        """As the factory of a source operator does."""
        return SourceCoordinator(self, parallelism, clock, store, fail)  # type: ignore[arg-type]

    def create_enumerator(self, context: Any) -> DealingEnumerator:
        """With all splits."""
        return DealingEnumerator(self._world, context, self._splits)

    def restore_enumerator(self, context: Any, checkpoint: list[int]) -> DealingEnumerator:
        """With those that nobody had."""
        return DealingEnumerator(self._world, context, checkpoint)


class Works:
    """The queue of the host's thread: one thing after the other."""

    def __init__(self, world: CheckpointWorld) -> None:
        self._world = world
        self._last_ms = 0

    def put(self, work: Callable[[], None]) -> None:
        """Do it, behind all others."""
        world = self._world
        self._last_ms = max(self._last_ms, world.now_ms + world.between((0, 20)))
        world.agenda.at(self._last_ms, self._do, work)

    def hold_up(self, delay_ms: int) -> None:
        """What is done next takes so long."""
        self._last_ms = max(self._last_ms, self._world.now_ms) + delay_ms

    def _do(self, work: Callable[[], None]) -> None:
        if not self._world.has_crashed and not self._world.provider_is_closed:
            work()


class FlowCoordinators:
    """The job's `CoordinatorHost`, and where its events go."""

    def __init__(self, world: CheckpointWorld) -> None:
        self.world = world
        self._operators: dict[str, str] = {}
        vertices = []
        for vertex in world.plan.vertices:
            splits = world.routes.splits_of(world.routes.index_of[vertex.id])
            operators = [
                SimpleNamespace(operator_id=each.id, name=vertex.name, factory=DealingSource(world, splits))
                for each in vertex.operators
                if each.has_coordinator
            ]
            self._operators.update((vertex.id, each.operator_id) for each in operators)
            chain = SimpleNamespace(operators=operators)
            vertices.append(
                SimpleNamespace(
                    id=vertex.id,
                    name=vertex.name,
                    parallelism=vertex.parallelism,
                    max_parallelism=vertex.max_parallelism,
                    chain=chain,
                )
            )
        graph: Any = SimpleNamespace(vertices=vertices, settings=SimpleNamespace(job_name="job"))
        self._host = CoordinatorHost(graph, "job", None, self._send, self._failed)  # type: ignore[arg-type]
        self._works = self._host._works = Works(world)  # type: ignore[assignment]
        self._manager_of: dict[AttemptId, str] = {}
        self._told_ms = 0  # when the last state that was taken is told
        if world.initial is None:
            for source in self._host._sources.values():
                source.start(None, self._host._store)  # type: ignore[arg-type]

    def operator_of(self, vertex_id: str) -> str | None:
        """The operator of a vertex that has a coordinator."""
        return self._operators.get(vertex_id)

    def deployed(self, attempt: AttemptId, manager_id: str) -> None:
        """Where its events go."""
        self._manager_of[attempt] = manager_id

    def tell(self, action: TellCoordinator) -> None:
        """A reader says something."""
        self._host.tell(action.attempt, action.operator_id, action.payload)

    def _send(self, attempt: AttemptId, operator_id: str, payload: bytes) -> None:
        """To a reader: past the job master, straight to the manager of the attempt."""
        manager_id = self._manager_of.get(attempt)
        if manager_id is not None:
            self.world.send_to(manager_id, OperatorEventMessage(self.world.session_id, attempt, operator_id, payload))

    def _failed(self, failure: Failure) -> None:
        """An enumerator has raised."""
        self.world.tell(CoordinatorFailed(self.world.happened(failure)))

    def gone(self, action: SubtaskGone) -> None:
        """Nothing more is sent to it."""
        self._manager_of.pop(action.attempt, None)
        self._host.gone(action.attempt)

    def reset(self, action: ResetSources) -> None:
        """Readers of these subtasks begin anew, or all is made anew."""
        reading = {key: partial(self.world.read_inline, handle) for key, handle in action.states.items()}
        self._host.reset(action.subtasks, action.is_global, action.checkpoint_id, reading)

    # ---- checkpoints

    def snapshot(self, checkpoint_id: int) -> None:
        """Take the state of all, and hold back what they send from now on."""

        def taken(states: dict[str, bytes], failure: Failure | None) -> None:
            delay_ms = 0 if self.world.is_healed else self.world.between(self.world.flow.coordinator_ms)
            self._works.hold_up(delay_ms)
            failure = None if failure is None else self.world.happened(failure)
            # One thread tells them, so that no answer overtakes the one before it.
            self._told_ms = max(self._told_ms, self.world.now_ms + delay_ms)
            answer = CoordinatorsSnapshotted(checkpoint_id, states, failure)
            self.world.agenda.at(self._told_ms, self.world.tell, answer)

        self._works.hold_up(0 if self.world.is_healed else self.world.between(self.world.flow.coordinator_ms))
        self._host.snapshot(checkpoint_id, taken)

    def let_go(self, checkpoint_id: int) -> None:
        """The triggers are sent: so is what was held back."""
        self._host.let_go(checkpoint_id)

    def complete(self, checkpoint_id: int) -> None:
        """A checkpoint counts."""
        self._host.complete(checkpoint_id)
