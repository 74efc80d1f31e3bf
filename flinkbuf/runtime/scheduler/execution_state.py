"""The states of one attempt, as the job master sees them, and what leads from one to another, as one table.

A report may be late, doubled, or overtaken by a later one: none of that is an error. What the job master itself wants
(schedule, deploy) is one, where it does not fit. Flink: ExecutionState, Execution.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ExecutionState(Enum):
    """Where an attempt is in its life."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"  # the slot was asked for
    DEPLOYING = "DEPLOYING"  # its task manager was told
    INITIALIZING = "INITIALIZING"  # its operators are made and opened
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"  # its task manager was told to end it
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    # Plain attributes, set below: a property of an enum member costs several times as much.
    is_terminal: bool
    is_deployed: bool  # its task manager has it, or is about to


class ExecutionStep(Enum):
    """What happens to an attempt."""

    SCHEDULE = "be scheduled"
    DEPLOY = "be deployed"
    INITIALIZE = "initialize"  # reported, as the next two
    RUN = "run"
    FINISH = "finish"
    CANCEL = "be cancelled"
    CONFIRM_CANCEL = "end as it was told to"  # reported
    FAIL = "fail"  # reported, or found by the job master


_S, _T = ExecutionState, ExecutionStep
for _state in ExecutionState:
    _state.is_terminal = _state in (_S.FINISHED, _S.CANCELED, _S.FAILED)
    _state.is_deployed = _state in (_S.DEPLOYING, _S.INITIALIZING, _S.RUNNING, _S.CANCELING)

_OVER: Final = (_T.INITIALIZE, _T.RUN, _T.FINISH, _T.CANCEL, _T.CONFIRM_CANCEL, _T.FAIL)
NEXT: Final[dict[ExecutionState, dict[ExecutionStep, ExecutionState]]] = {
    # No task manager knows of the attempt yet: a cancel needs no confirmation, and a report about it is a lie.
    _S.CREATED: {
        _T.SCHEDULE: _S.SCHEDULED,
        _T.CANCEL: _S.CANCELED,
        _T.INITIALIZE: _S.FAILED,
        _T.RUN: _S.FAILED,
        _T.FINISH: _S.FAILED,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.FAILED,
    },
    _S.SCHEDULED: {
        _T.DEPLOY: _S.DEPLOYING,
        _T.CANCEL: _S.CANCELED,
        _T.INITIALIZE: _S.FAILED,
        _T.RUN: _S.FAILED,
        _T.FINISH: _S.FAILED,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.FAILED,
    },
    _S.DEPLOYING: {
        _T.INITIALIZE: _S.INITIALIZING,
        _T.RUN: _S.RUNNING,
        _T.FINISH: _S.FINISHED,
        _T.CANCEL: _S.CANCELING,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.FAILED,
    },
    _S.INITIALIZING: {
        _T.INITIALIZE: _S.INITIALIZING,
        _T.RUN: _S.RUNNING,
        _T.FINISH: _S.FINISHED,
        _T.CANCEL: _S.CANCELING,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.FAILED,
    },
    _S.RUNNING: {
        _T.INITIALIZE: _S.RUNNING,
        _T.RUN: _S.RUNNING,
        _T.FINISH: _S.FINISHED,
        _T.CANCEL: _S.CANCELING,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.FAILED,
    },
    # Whatever it comes to meanwhile, it was cancelled. INITIALIZE and RUN were on their way: the cancel is sent again.
    _S.CANCELING: {
        _T.INITIALIZE: _S.CANCELING,
        _T.RUN: _S.CANCELING,
        _T.FINISH: _S.CANCELED,
        _T.CANCEL: _S.CANCELING,
        _T.CONFIRM_CANCEL: _S.CANCELED,
        _T.FAIL: _S.CANCELED,
    },
    _S.FINISHED: dict.fromkeys(_OVER, _S.FINISHED),
    _S.CANCELED: dict.fromkeys(_OVER, _S.CANCELED),
    _S.FAILED: dict.fromkeys(_OVER, _S.FAILED),
}
del _S, _T, _state

# What the report of a task in this state makes of its attempt; the others say only that it was heard.
STEP_OF_REPORT: Final = {
    "INITIALIZING": ExecutionStep.INITIALIZE,
    "RUNNING": ExecutionStep.RUN,
    "FINISHED": ExecutionStep.FINISH,
    "CANCELED": ExecutionStep.CONFIRM_CANCEL,
    "FAILED": ExecutionStep.FAIL,
}
FINAL_REPORTS: Final = ("FINISHED", "CANCELED", "FAILED")


def next_state(state: ExecutionState, step: ExecutionStep) -> ExecutionState:
    """Return the state after a step.

    Raises
    ------
    RuntimeError
        No such step is possible in that state.

    Examples
    --------
    >>> next_state(ExecutionState.CANCELING, ExecutionStep.FINISH)
    <ExecutionState.CANCELED: 'CANCELED'>
    """
    if step not in NEXT[state]:
        raise RuntimeError(f"an attempt that is {state.value} cannot {step.value}")
    return NEXT[state][step]
