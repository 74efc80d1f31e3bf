"""Restarts that wait: each subtask is in one at most, and begins again once. Flink: ExecutionVertexVersionerTest."""

from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.runtime.scheduler.restarts import Restarts


def subtasks(*numbers):
    return {(0, number) for number in numbers}


def closed(subtask):
    return False


def test_a_newer_failure_takes_over_what_it_concerns():
    restarts = Restarts()
    first = restarts.begin(subtasks(0, 1), 10, lambda subtask: True)
    second = restarts.begin(subtasks(1, 2), 5, closed)
    assert (first.subtasks, first.open) == (subtasks(0), subtasks(0))
    assert restarts.ready(20) == [second]
    restarts.ended((0, 0))
    assert restarts.ready(9) == [second]
    assert restarts.ready(10) == [first, second]


def test_one_that_nothing_is_left_of_is_forgotten():
    restarts = Restarts()
    restarts.begin(subtasks(0, 1), 10, closed)
    newer = restarts.begin(subtasks(0, 1, 2), 20, closed)
    assert restarts.waiting == [newer]
    restarts.done(newer)
    assert restarts.waiting == []


def test_a_restart_of_the_whole_job_stays_one():
    restarts = Restarts()
    restarts.begin(subtasks(0, 1, 2), 10, closed, is_global=True)
    newer = restarts.begin(subtasks(1), 30, closed)
    assert (newer.subtasks, newer.is_global, newer.needs_new_run) == (subtasks(0, 1, 2), True, False)
    restarts.begin(subtasks(0, 1, 2), 10, closed, is_global=True, needs_new_run=True)
    assert restarts.begin(subtasks(2), 30, closed).needs_new_run
    assert len(restarts.waiting) == 1


def test_other_processes_have_to_be_told_to_end_first():
    restarts = Restarts()
    restart = restarts.begin(subtasks(0), 10, lambda subtask: True, needs_new_run=True)
    assert restarts.to_release() == []
    restarts.ended((0, 0))
    assert restarts.to_release() == [restart]
    assert restarts.ready(10) == []
    restart.is_released = True
    assert (restarts.to_release(), restarts.ready(9), restarts.ready(10)) == ([], [], [restart])


@given(st.lists(st.tuples(st.sets(st.integers(0, 5), min_size=1), st.integers(0, 50), st.booleans()), max_size=8))
def test_each_subtask_waits_for_one_restart_the_newest(rows):
    restarts, newest = Restarts(), {}
    for numbers, due_ms, is_global in rows:
        restart = restarts.begin(subtasks(*range(6)) if is_global else subtasks(*numbers), due_ms, closed)
        newest.update(dict.fromkeys(restart.subtasks, restart))
    waiting = [subtask for restart in restarts.waiting for subtask in restart.subtasks]
    assert len(waiting) == len(set(waiting))
    assert all(subtask in newest[subtask].subtasks for subtask in newest)
