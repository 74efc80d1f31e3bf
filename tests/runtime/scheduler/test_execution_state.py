"""The states of an attempt: every step from every state, and what Flink's Execution does."""

import pytest

from flinkbuf.runtime.scheduler.execution_state import (
    FINAL_REPORTS,
    NEXT,
    STEP_OF_REPORT,
    ExecutionState,
    ExecutionStep,
    next_state,
)
from flinkbuf.streaming.task.task_state import TaskState

S, T = ExecutionState, ExecutionStep
REPORTED = (T.INITIALIZE, T.RUN, T.FINISH, T.CONFIRM_CANCEL, T.FAIL)
ORDER = [S.CREATED, S.SCHEDULED, S.DEPLOYING, S.INITIALIZING, S.RUNNING]


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("step", T)
def test_every_step_from_every_state(state, step):
    if step not in NEXT[state]:
        assert step in (T.SCHEDULE, T.DEPLOY), "what is reported, or found out, fits in every state"
        with pytest.raises(RuntimeError, match=f"{state.value} cannot {step.value}"):
            next_state(state, step)
        return
    after = next_state(state, step)
    if state.is_terminal:
        assert after is state, "nothing leads away from the end"
    if step is T.CANCEL and not state.is_terminal:
        assert after is (S.CANCELING if state.is_deployed else S.CANCELED)
    if step is T.FAIL and not state.is_terminal:
        assert after is (S.CANCELED if state is S.CANCELING else S.FAILED)
    if state is S.CANCELING and step in (T.FINISH, T.CONFIRM_CANCEL, T.FAIL):
        assert after is S.CANCELED, "however it ends, it was cancelled"
    if state in ORDER and after in ORDER:
        assert ORDER.index(after) >= ORDER.index(state), "a late report does not lead back"


@pytest.mark.parametrize(
    "before, step, after",
    [
        (S.CREATED, T.SCHEDULE, S.SCHEDULED),
        (S.SCHEDULED, T.DEPLOY, S.DEPLOYING),
        (S.DEPLOYING, T.INITIALIZE, S.INITIALIZING),
        (S.INITIALIZING, T.RUN, S.RUNNING),
        (S.RUNNING, T.FINISH, S.FINISHED),
        (S.DEPLOYING, T.FINISH, S.FINISHED),  # it overtook the others
        (S.INITIALIZING, T.FINISH, S.FINISHED),
        (S.CREATED, T.FINISH, S.FAILED),
        (S.SCHEDULED, T.FINISH, S.FAILED),
        (S.CANCELING, T.INITIALIZE, S.CANCELING),  # on their way when the cancel was sent
        (S.CANCELING, T.RUN, S.CANCELING),
        (S.RUNNING, T.CONFIRM_CANCEL, S.CANCELED),  # by itself
        (S.FINISHED, T.CANCEL, S.FINISHED),
    ],
)
def test_the_table_of_the_specification(before, step, after):
    assert next_state(before, step) is after


def test_deployment_is_the_job_masters_own_and_must_fit():
    for state in S:
        assert (T.DEPLOY in NEXT[state]) == (state is S.SCHEDULED)
        assert (T.SCHEDULE in NEXT[state]) == (state is S.CREATED)


def test_every_state_of_a_task_is_a_report_that_is_understood():
    for state in TaskState:
        assert state.is_terminal == (state.value in FINAL_REPORTS)
        step = STEP_OF_REPORT.get(state.value)
        assert (step is None) == (state in (TaskState.CREATED, TaskState.DEPLOYING, TaskState.CANCELING))
    assert {STEP_OF_REPORT[name] for name in STEP_OF_REPORT} == set(REPORTED)
    assert next_state(S.RUNNING, STEP_OF_REPORT["CANCELED"]) is S.CANCELED
