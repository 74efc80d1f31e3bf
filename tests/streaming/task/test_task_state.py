"""The table of a task's states: every state with every step. Flink: ExecutionState, TaskTest."""

import pytest

from flinkbuf.streaming.task.task_state import NEXT, TaskState, TaskStep, next_state


@pytest.mark.parametrize("state", TaskState)
@pytest.mark.parametrize("step", TaskStep)
def test_each_step_leads_to_a_state_or_is_refused(state, step):
    if step in NEXT[state]:
        assert isinstance(next_state(state, step), TaskState)
    else:
        with pytest.raises(RuntimeError, match=f"{state.value} cannot {step.value}"):
            next_state(state, step)


@pytest.mark.parametrize("state", TaskState)
def test_it_can_be_cancelled_in_every_state(state):
    after = next_state(state, TaskStep.CANCEL)
    assert after in (TaskState.CANCELING, TaskState.CANCELED) or (after is state and state.is_terminal)


@pytest.mark.parametrize("state", [state for state in TaskState if state.is_terminal])
def test_nothing_leads_out_of_the_end(state):
    assert set(NEXT[state].values()) <= {state}


def test_a_cancelled_task_ends_cancelled_whatever_its_thread_comes_to():
    for step in (TaskStep.FINISH, TaskStep.FAIL, TaskStep.CONFIRM_CANCEL):
        assert next_state(TaskState.CANCELING, step) is TaskState.CANCELED


def test_the_way_of_a_healthy_task():
    state = TaskState.CREATED
    for step in (TaskStep.DEPLOY, TaskStep.INITIALIZE, TaskStep.RUN, TaskStep.FINISH):
        state = next_state(state, step)
    assert state is TaskState.FINISHED


def test_every_state_can_be_reached():
    reached, new = set(), {TaskState.CREATED}
    while new:
        reached |= new
        new = {after for state in new for after in NEXT[state].values()} - reached
    assert reached == set(TaskState)
