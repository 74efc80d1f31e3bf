"""What a task manager sends instead of a message that is too large for the control plane.

A task whose part of the message is too large fails, or its checkpoint does, with an error that says what to do; the
task manager and its other tasks go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.control.secure_link import MESSAGE_LIMIT
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.flame_tree import FlameTree
from flinkbuf.runtime.protocol.messages import (
    CheckpointAcknowledgement,
    CheckpointRefusal,
    HeartbeatReport,
    Json,
    OperatorEventReport,
    TasksSampled,
    TaskStateReport,
)
from flinkbuf.streaming.task.task_state import TaskState

ACCUMULATORS_MAX: Final = MESSAGE_LIMIT - (1 << 20)  # bytes of one task; the rest of a message needs room, too


class TooLargeToTellError(ValueError):
    """A task's report fits no message: restarted, the task would have the same report again."""

    can_restart = False


@dataclass(frozen=True)
class Instead:
    """Messages to send instead, and tasks to fail.

    Attributes
    ----------
    messages : tuple
    failing : dict
        Tasks that fail, with their errors.
    """

    messages: tuple[object, ...] = ()
    failing: dict[AttemptId, TooLargeToTellError] | None = None


def instead_of(message: object, size_text: str) -> Instead | None:
    """Return the replacement for a message that is too large, as `size_text` says; None: there is no replacement."""
    make = _MAKERS.get(type(message))
    return None if make is None else make(message, size_text)


def _heartbeat(message: HeartbeatReport, size_text: str) -> Instead:
    failing = {}
    for attempt in message.attempts:
        error = accumulator_error(message.accumulators.get(str(attempt), {}))
        if error is not None:
            failing[attempt] = error
    return Instead((replace(message, accumulators={}),), failing)


def _state(message: TaskStateReport, size_text: str) -> Instead:
    error = accumulator_error(message.accumulators, is_certain=True)
    failure = message.failure
    if failure is None or message.state == TaskState.FINISHED.value:
        failure = Failure.of(error or TooLargeToTellError(f"the last report of {message.attempt}: {size_text}"))
    state = TaskState.CANCELED.value if message.state == TaskState.CANCELED.value else TaskState.FAILED.value
    return Instead((replace(message, state=state, failure=failure, accumulators={}),))


def accumulator_error(accumulators: Json, *, is_certain: bool = False) -> TooLargeToTellError | None:
    """Return what is wrong with the accumulators of one task; None: they are not too large, unless that is certain."""
    sizes = {name: len(json.dumps(each)) for name, each in accumulators.items()}
    total = sum(sizes.values())
    if not sizes or not (is_certain or total > ACCUMULATORS_MAX):
        return None
    name = max(sizes, key=sizes.__getitem__)
    return TooLargeToTellError(
        f"accumulator {name!r} ({accumulators[name]['type']}) has grown to {sizes[name]} bytes, and all of its task to "
        f"{total}; at most {MESSAGE_LIMIT} can be told the job master: write so many values to a sink"
    )


def _acknowledgement(message: CheckpointAcknowledgement, size_text: str) -> Instead:
    text = (
        f"the state of {message.attempt} that is kept in the metadata is too large: {size_text}; set "
        "execution.checkpointing.dir, or a smaller execution.checkpointing.data-inline-threshold, to write it to files"
    )
    failure = Failure("builtins.ValueError", text)
    reason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION.name
    return Instead(
        (CheckpointRefusal(message.session_id, message.attempt, message.checkpoint_id, reason, failure),),
    )


def _operator_event(message: OperatorEventReport, size_text: str) -> Instead:
    error = TooLargeToTellError(f"what a source said to its coordinator is too large: {size_text}")
    return Instead((), {message.attempt: error})


def _sampled(message: TasksSampled, size_text: str) -> Instead:
    return Instead((replace(message, tree=FlameTree(1).root),))


_MAKERS: Final[dict[type, Callable[..., Instead]]] = {
    HeartbeatReport: _heartbeat,
    TaskStateReport: _state,
    CheckpointAcknowledgement: _acknowledgement,
    OperatorEventReport: _operator_event,
    TasksSampled: _sampled,
}
