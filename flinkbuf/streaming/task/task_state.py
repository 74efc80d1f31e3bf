"""The states of a task and what leads from one to another, as one table. Flink: ExecutionState, Task."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TaskState(Enum):
    """The states of a task's life."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"  # its writers, readers and mailbox are made
    INITIALIZING = "INITIALIZING"  # its operators are made, get their state and are opened
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"  # its thread has not come out yet
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Return whether no state follows."""
        return self in (TaskState.FINISHED, TaskState.CANCELED, TaskState.FAILED)


class TaskStep(Enum):
    """What happens to a task."""

    DEPLOY = "deploy"
    INITIALIZE = "initialize"
    RUN = "run"
    FINISH = "finish"  # its thread has come out without an error
    FAIL = "fail"  # ... with an error
    CANCEL = "cancel"  # the user or the job master asks for it
    CONFIRM_CANCEL = "confirm cancel"  # its thread has come out because it was to stop


_S, _T = TaskState, TaskStep
NEXT: Final[dict[TaskState, dict[TaskStep, TaskState]]] = {
    # A task that was not begun has no thread that could confirm anything.
    _S.CREATED: {_T.DEPLOY: _S.DEPLOYING, _T.CANCEL: _S.CANCELED, _T.FAIL: _S.FAILED},
    _S.DEPLOYING: {
        _T.INITIALIZE: _S.INITIALIZING,
        _T.CANCEL: _S.CANCELING,
        _T.FAIL: _S.FAILED,
        _T.CONFIRM_CANCEL: _S.CANCELED,
    },
    _S.INITIALIZING: {
        _T.RUN: _S.RUNNING,
        _T.CANCEL: _S.CANCELING,
        _T.FAIL: _S.FAILED,
        _T.CONFIRM_CANCEL: _S.CANCELED,
    },
    _S.RUNNING: {
        _T.FINISH: _S.FINISHED,
        _T.CANCEL: _S.CANCELING,
        _T.FAIL: _S.FAILED,
        _T.CONFIRM_CANCEL: _S.CANCELED,
    },
    # Whatever the thread comes to meanwhile, it was cancelled.
    _S.CANCELING: {
        _T.INITIALIZE: _S.CANCELING,
        _T.RUN: _S.CANCELING,
        _T.CANCEL: _S.CANCELING,
        _T.FINISH: _S.CANCELED,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.CANCELED,
    },
    _S.FINISHED: {_T.CANCEL: _S.FINISHED},
    _S.CANCELED: {_T.CANCEL: _S.CANCELED},
    _S.FAILED: {_T.CANCEL: _S.FAILED},
}
del _S, _T


def next_state(state: TaskState, step: TaskStep) -> TaskState:
    """Return the state after a step.

    Raises
    ------
    RuntimeError
        No such step is possible in that state.

    Examples
    --------
    >>> next_state(TaskState.RUNNING, TaskStep.CANCEL)
    <TaskState.CANCELING: 'CANCELING'>
    """
    if step not in NEXT[state]:
        raise RuntimeError(f"a task that is {state.value} cannot {step.value}")
    return NEXT[state][step]
