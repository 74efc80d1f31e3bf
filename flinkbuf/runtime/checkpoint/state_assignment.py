"""Which state of a checkpoint each subtask of a job begins with, whatever its parallelism was and is now.

Operators are found again by their ids, whichever task they were chained into. Keyed state goes by key groups; of lists
each subtask is given all handles, and deals their elements out itself, since only subtasks read them. Flink:
StateAssignmentOperation, Checkpoints.loadAndValidateCheckpoint, VertexFinishedStateChecker.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from flinkbuf._core.record.key_group import key_group_range
from flinkbuf.checkpoints.handles import (
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorInCheckpoint,
    OperatorRestore,
    OperatorSubtaskState,
    StateHandle,
    SubtaskState,
    TaskRestore,
    VertexInCheckpoint,
)
from flinkbuf.runtime.graph.job_plan import JobPlan, OperatorPlan, VertexPlan

_NONE = StateHandle(size=0)  # stands for a subtask that had no such state


@dataclass(frozen=True)
class OldOperator:
    """The state of one operator of a checkpoint.

    Attributes
    ----------
    subtasks : tuple
        Its state by index of the subtask; None: it had none.
    """

    vertex: VertexInCheckpoint
    operator: OperatorInCheckpoint
    subtasks: tuple[OperatorSubtaskState | None, ...]

    @property
    def states(self) -> Iterator[OperatorSubtaskState]:
        """Yield the states of subtasks that had one."""
        return (each for each in self.subtasks if each is not None)

    @property
    def has_state(self) -> bool:
        """Return whether state would be lost without the operator."""
        is_kept = any(each.operator is not None or each.keyed for each in self.states)
        return is_kept or self.operator.coordinator is not None

    @property
    def title(self) -> str:
        """Return the name by which a user knows the operator."""
        uid = "no uid" if self.operator.uid is None else f"uid {self.operator.uid!r}"
        return f"{self.operator.name!r} ({uid}, id {self.operator.operator_id})"


class StateAssignment:
    """The state of a checkpoint, dealt out to the subtasks of a plan.

    Parameters
    ----------
    metadata : CheckpointMetadata
    plan : JobPlan
    allow_non_restored_state : bool
        Leave out state that the plan has no operator for.
    is_same_plan : bool
        The checkpoint was taken by tasks of this very plan: it fits.

    Raises
    ------
    ValueError
        The checkpoint does not fit the plan; says what does not, and what to do.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        plan: JobPlan,
        *,
        allow_non_restored_state: bool = False,
        is_same_plan: bool = False,
    ) -> None:
        self.metadata = metadata
        self.plan = plan
        self._old = {each.operator.operator_id: each for each in _old_operators(metadata)}
        self._deals: dict[str, _Deal] = {}  # by operator id
        self._has_channel_state = any(each.input_channels or each.output_channels for each in metadata.subtasks())
        self._old_vertices = {vertex.vertex_id: vertex for vertex in metadata.vertices}
        self._finished = [self._is_finished(vertex) for vertex in plan.vertices]
        if not is_same_plan:
            self._check(allow_non_restored_state)

    def restore_of(self, vertex_index: int, subtask: int) -> TaskRestore:
        """Return what a subtask begins with."""
        vertex = self.plan.vertices[vertex_index]
        checkpoint_id = self.metadata.checkpoint_id
        if self._finished[vertex_index]:
            return TaskRestore(checkpoint_id, is_finished=True)
        restores = (self._operator_restore(vertex, each, subtask) for each in vertex.operators)
        old = self._old_vertices[vertex.id].subtasks[subtask] if self._has_channel_state else None
        channels = old or SubtaskState()
        return TaskRestore(
            checkpoint_id,
            tuple(each for each in restores if each is not None),
            channels.input_channels,
            channels.output_channels,
        )

    def coordinator_states(self) -> dict[str, StateHandle]:
        """Return the state of each source's coordinator, by operator id, as far as the plan has that source."""
        wanted = (self._old.get(each.id) for vertex in self.plan.vertices for each in vertex.operators)
        return {
            old.operator.operator_id: old.operator.coordinator
            for old in wanted
            if old is not None and old.operator.coordinator is not None
        }

    # ---- one subtask

    def _operator_restore(self, vertex: VertexPlan, operator: OperatorPlan, subtask: int) -> OperatorRestore | None:
        deal = self._deals.get(operator.id)
        if deal is None:
            old = self._old.get(operator.id)
            if old is None:
                return None
            deal = self._deals[operator.id] = _Deal(old, vertex)
        return deal.restore_of(subtask)

    # ---- what was finished

    def _is_finished(self, vertex: VertexPlan) -> bool:
        """Return whether a vertex's subtasks only have to report their end."""
        old = [self._old.get(each.id) for each in vertex.operators]
        finished = [each is not None and _has_finished(each.vertex) for each in old]
        ended = [each is not None and _has_ended(each.vertex) for each in old]
        if any(finished) and not all(ended):
            names = [
                "; ".join(repr(op.name) for op, at_end in zip(vertex.operators, ended, strict=True) if at_end is which)
                for which in (True, False)
            ]
            raise self._refused(
                f"task {vertex.name!r} chains operators that had come to their end ({names[0]}) with others that had "
                f"not ({names[1]}); do not chain them, or begin from a checkpoint before that"
            )
        return bool(finished) and all(finished)

    def _check_order_of_ends(self) -> None:
        """Refuse a finished task that is fed by one that had not finished.

        A finished task that left state, such as a source's position, begins again and ends at once, without a record.
        """
        for edge in self.plan.edges:
            source, target = self.plan.vertices[edge.source], self.plan.vertices[edge.target]
            if self._has_only_ended(source):
                continue
            if self._finished[edge.target]:
                raise self._refused(
                    f"task {target.name!r} had come to its end, but would read from {source.name!r}, which had not; "
                    "leave out that connection, or begin from a checkpoint before that"
                )
            if not edge.is_pointwise and self._has_finished_subtasks(target):
                raise self._refused(
                    f"some subtasks of {target.name!r} had come to their end, but would all read from "
                    f"{source.name!r}, which had not; begin from a checkpoint before that"
                )

    def _has_only_ended(self, vertex: VertexPlan) -> bool:
        old = (self._old.get(each.id) for each in vertex.operators)
        return all(each is not None and _has_ended(each.vertex) for each in old)

    def _has_finished_subtasks(self, vertex: VertexPlan) -> bool:
        old = (self._old.get(each.id) for each in vertex.operators)
        return any(_is_gone(subtask) for each in old if each is not None for subtask in each.vertex.subtasks)

    # ---- whether it fits

    def _check(self, allow_non_restored_state: bool) -> None:
        if not allow_non_restored_state:
            self._check_that_all_is_wanted()
        self._check_key_groups()
        if self._has_channel_state:
            self._check_channels()
        self._check_order_of_ends()

    def _check_that_all_is_wanted(self) -> None:
        known = {operator.id for vertex in self.plan.vertices for operator in vertex.operators}
        lost = [each.title for id, each in self._old.items() if id not in known and each.has_state]
        if lost:
            raise self._refused(
                f"the program has no operator for the state of {', '.join(lost)}; give that operator its uid again, "
                "or set execution.state-recovery.ignore-unclaimed-state (--allowNonRestoredState) to leave it out"
            )

    def _check_key_groups(self) -> None:
        for vertex in self.plan.vertices:
            for operator in vertex.operators:
                old = self._old.get(operator.id)
                sizes = {keyed.max_parallelism for state in old.states for keyed in state.keyed} if old else set()
                if old is not None and sizes - {vertex.max_parallelism}:
                    had = min(sizes - {vertex.max_parallelism})
                    raise self._refused(
                        f"the keyed state of {old.title} has {had} key groups, and task {vertex.name!r} "
                        f"{vertex.max_parallelism}: keys would not be found again; call set_max_parallelism({had}) "
                        "on the operator, or on the environment"
                    )

    def _check_channels(self) -> None:
        """Refuse records in flight between tasks if their channels are no longer the same."""
        for vertex in self.plan.vertices:
            old = self._old_vertices.get(vertex.id)
            ids = None if old is None else [each.operator_id for each in old.operators]
            if old is None or ids != [each.id for each in vertex.operators]:
                raise self._refused(
                    f"it holds records on their way between tasks, and task {vertex.name!r} was not one of them; "
                    "change the program with a savepoint, which holds none"
                )
            if old.parallelism != vertex.parallelism:
                raise self._refused(
                    f"it holds records on their way between tasks, and {vertex.name!r} had parallelism "
                    f"{old.parallelism}, not {vertex.parallelism}; change the parallelism with a savepoint, which "
                    "holds none"
                )

    def _refused(self, reason: str) -> ValueError:
        kind = "savepoint" if self.metadata.is_savepoint else "checkpoint"
        number, name = self.metadata.checkpoint_id, self.metadata.job_name
        return ValueError(f"the job cannot begin from {kind} {number} of job {name!r}: {reason}")


class _Deal:
    """The state of one operator, dealt out to the subtasks of one vertex."""

    def __init__(self, old: OldOperator, vertex: VertexPlan) -> None:
        self._old = old
        self._parallelism = vertex.parallelism
        self._max_parallelism = vertex.max_parallelism
        self._is_unchanged = old.vertex.parallelism == vertex.parallelism
        handles = [None if each is None else each.operator for each in old.subtasks]
        self._has_any = any(each is not None for each in handles)
        self._handles = tuple(_NONE if each is None else each for each in handles)
        self._goes_to_all = any(each.has_union_lists for each in old.states)
        self._has_lists = any(each.has_lists for each in old.states)
        keyed = sorted(
            (keyed for each in old.states for keyed in each.keyed),
            key=lambda each: (each.first_key_group, each.last_key_group),
        )
        self._keyed = keyed
        self._firsts = [each.first_key_group for each in keyed]
        self._lasts = [each.last_key_group for each in keyed]

    def restore_of(self, subtask: int) -> OperatorRestore | None:
        """Return what one subtask of the operator begins with; None: with nothing."""
        operator, keyed = self._operator_of(subtask), self._keyed_of(subtask)
        if not operator and not keyed:
            return None
        return OperatorRestore(self._old.operator.operator_id, self._old.vertex.parallelism, operator, keyed)

    def _operator_of(self, subtask: int) -> tuple[StateHandle, ...]:
        if not self._has_any:
            return ()
        if self._goes_to_all or (self._has_lists and not self._is_unchanged):
            return self._handles
        own = self._handles[subtask % len(self._handles)]
        if own is _NONE and not self._has_lists:  # broadcast states are the same everywhere: any other will do
            own = next(each for each in self._handles if each is not _NONE)
        return () if own is _NONE else (own,)

    def _keyed_of(self, subtask: int) -> tuple[KeyedStateHandle, ...]:
        if not self._keyed:
            return ()
        if self._is_unchanged:
            own = self._old.subtasks[subtask]
            return () if own is None else own.keyed
        first, last = key_group_range(self._max_parallelism, self._parallelism, subtask)
        return tuple(self._keyed[bisect_left(self._lasts, first) : bisect_right(self._firsts, last)])


def _old_operators(metadata: CheckpointMetadata) -> Iterator[OldOperator]:
    for vertex in metadata.vertices:
        by_id = [
            {} if subtask is None else {each.operator_id: each for each in subtask.operators}
            for subtask in vertex.subtasks
        ]
        for operator in vertex.operators:
            yield OldOperator(vertex, operator, tuple(each.get(operator.operator_id) for each in by_id))


def _has_ended(vertex: VertexInCheckpoint) -> bool:
    """Return whether input had ended, though there may be state, as of a task that waits for its last checkpoint."""
    return bool(vertex.subtasks) and all(each is not None and each.is_finished for each in vertex.subtasks)


def _has_finished(vertex: VertexInCheckpoint) -> bool:
    return bool(vertex.subtasks) and all(_is_gone(each) for each in vertex.subtasks)


def _is_gone(subtask: SubtaskState | None) -> bool:
    """Return whether a subtask had ended and left no state to handle, such as transactions to commit."""
    return subtask is not None and subtask.is_finished and not any(True for _ in subtask.handles())
