"""How long a thread keeps the interpreter while tasks run, and afterwards."""

import sys

import pytest

from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.runtime.manager.interpreter_turns import TURN_S, short_turns


@pytest.fixture(autouse=True)
def interval():
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("before", [0.005, 0.0005])
def test_a_shorter_interval_of_the_user_stays_and_all_is_as_it_was_afterwards(before):
    sys.setswitchinterval(before)
    with pytest.raises(ValueError), short_turns():
        assert sys.getswitchinterval() == pytest.approx(min(before, TURN_S))
        raise ValueError
    assert sys.getswitchinterval() == pytest.approx(before)


@pytest.mark.parametrize(("target", "expected"), [("local", TURN_S), ("embedded", 0.005)])
def test_the_processes_of_a_job_are_ours_and_the_program_is_not(target, expected):
    configuration = Configuration().set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    with env.from_collection([1]).map(lambda _: sys.getswitchinterval()).execute_and_collect() as found:
        assert list(found) == [pytest.approx(expected)]
