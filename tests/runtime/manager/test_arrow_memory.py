"""Which allocator Arrow has while tasks run, and afterwards."""

import os
import sys

import pyarrow as pa
import pytest

from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.runtime.manager.arrow_memory import prefer_system_memory, system_memory

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
BEFORE = pa.default_memory_pool().backend_name  # of this process


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_columns_lie_in_the_systems_memory_and_all_is_as_it_was_afterwards():
    with pytest.raises(ValueError), system_memory():
        assert pa.default_memory_pool().backend_name == "system"
        assert VARIABLE not in os.environ
        raise ValueError
    assert pa.default_memory_pool().backend_name == BEFORE


def test_arrow_finds_it_in_the_environment_when_it_is_loaded_later(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyarrow")
    with system_memory():
        assert os.environ[VARIABLE] == "system" and "pyarrow" not in sys.modules
    assert VARIABLE not in os.environ


def test_what_the_environment_says_stays(monkeypatch):
    monkeypatch.setenv(VARIABLE, "mimalloc")
    prefer_system_memory(os.environ)
    with system_memory():
        assert pa.default_memory_pool().backend_name == BEFORE
    assert os.environ[VARIABLE] == "mimalloc"


@pytest.mark.parametrize(("target", "expected"), [("local", "system"), ("embedded", BEFORE)])
def test_the_processes_of_a_job_are_ours_and_the_program_is_not(target, expected):
    configuration = Configuration().set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    rows = env.from_collection([(1,)]).as_columns("n int")
    used = rows.map_batches(lambda batch: {"pool": pa.array([pa.default_memory_pool().backend_name])})
    assert used.execute_and_collect(limit=1) == [(expected,)]
