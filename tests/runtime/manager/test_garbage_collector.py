"""How often the garbage collector looks while tasks run, and afterwards."""

import gc

import pytest

from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.runtime.manager.garbage_collector import THRESHOLDS, rare_collections


@pytest.fixture(autouse=True)
def threshold():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("before", [(700, 10, 10), (100_000, 5, 5), (0, 10, 10)])
def test_a_threshold_of_the_user_stays_and_all_is_as_it_was_afterwards(before):
    gc.set_threshold(*before)
    with rare_collections():
        assert gc.get_threshold() == (THRESHOLDS if before[0] == 700 else before)
    assert gc.get_threshold() == before


def test_an_error_leaves_it_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(ValueError), rare_collections():
        raise ValueError
    assert gc.get_threshold() == before


@pytest.mark.parametrize(("target", "is_ours"), [("local", True), ("embedded", False)])
def test_the_processes_of_a_job_are_ours_and_the_program_is_not(target, is_ours):
    configuration = Configuration().set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    with env.from_collection([1]).map(lambda _: gc.get_threshold()).execute_and_collect() as found:
        assert [tuple(each) == THRESHOLDS for each in found] == [is_ours]


def test_a_look_at_state_that_grows_is_short():
    looks = []

    def look(phase, info):
        if phase == "start" and info["generation"]:
            looks.append(info["generation"])

    with rare_collections():
        gc.collect()
        gc.callbacks.append(look)
        try:
            state = {key: [key] for key in range(700_000)}
        finally:
            gc.callbacks.remove(look)
    assert len(state) == 700_000 and looks == [1, 1]
