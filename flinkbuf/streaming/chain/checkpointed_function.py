"""State of a source or sink function that belongs to its subtask, and the news of checkpoints.

Flink: CheckpointedFunction, CheckpointListener, FunctionInitializationContext, FunctionSnapshotContext.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.streaming.chain.functions import Function
from flinkbuf.streaming.state.operator_state import OperatorStateBackend

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot


@dataclass(frozen=True)
class FunctionInitializationContext:
    """What a function may ask when it gets its state. Flink: FunctionInitializationContext."""

    operator_state_store: OperatorStateBackend
    is_restored: bool  # whether the job goes on from a checkpoint

    def get_operator_state_store(self) -> OperatorStateBackend:
        """Return what gives list states: ``get_list_state`` deals them out anew at another parallelism,
        ``get_union_list_state`` gives each subtask all elements.
        """
        return self.operator_state_store


@dataclass(frozen=True)
class FunctionSnapshotContext:
    """Which checkpoint it is that a function's state goes to. Flink: FunctionSnapshotContext."""

    checkpoint_id: int

    def get_checkpoint_id(self) -> int:
        """Return the number of the checkpoint; they only grow."""
        return self.checkpoint_id


class CheckpointedFunction(Function):
    """A source or sink function, given to ``add_source`` or ``add_sink``, that goes on from where a checkpoint was.

    A source changes its state and emits under ``with ctx.get_checkpoint_lock():``, so that no checkpoint comes between.

    References
    ----------
    Flink ``CheckpointedFunction``.

    Examples
    --------
    >>> from flinkbuf.streaming.chain.functions import SourceFunction
    >>> from flinkbuf.streaming.state.state import ListStateDescriptor
    >>> class Count(SourceFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         store = context.get_operator_state_store()
    ...         self.state = store.get_list_state(ListStateDescriptor("next", None))
    ...         self.next = sum(self.state.get())
    ...     def run(self, ctx):
    ...         while self.next < 10:
    ...             with ctx.get_checkpoint_lock():
    ...                 ctx.collect(self.next)
    ...                 self.next += 1
    ...     def snapshot_state(self, context):
    ...         self.state.update([self.next])
    """

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the states, before `open`."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into the states what is to be found again."""


class CheckpointListener:
    """A source or sink function that wants to hear what became of a checkpoint. Flink: CheckpointListener."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint counts everywhere; news of one may be lost, but never of all."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never count."""


class FunctionCheckpoints:
    """Calls of a function what it has of the methods above; it need not derive from the classes.

    Parameters
    ----------
    function : object
    """

    def __init__(self, function: object) -> None:
        self._initialize = _method(function, "initialize_state")
        self._snapshot = _method(function, "snapshot_state")
        self._complete = _method(function, "notify_checkpoint_complete")
        self._aborted = _method(function, "notify_checkpoint_aborted")

    def initialize_state(self, store: OperatorStateBackend, snapshot: OperatorSnapshot | None) -> None:
        """Let the function get its state."""
        if self._initialize is not None:
            self._initialize(FunctionInitializationContext(store, snapshot is not None))

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Let the function update its state."""
        if self._snapshot is not None:
            self._snapshot(FunctionSnapshotContext(checkpoint_id))

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify the function: checkpoint complete."""
        if self._complete is not None:
            self._complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify the function: checkpoint aborted."""
        if self._aborted is not None:
            self._aborted(checkpoint_id)


def _method(function: object, name: str) -> Callable[..., object] | None:
    method = getattr(function, name, None)
    return method if callable(method) else None
