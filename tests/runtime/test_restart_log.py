"""The warning that a job begins again: once for each outage, and with the failure that was the cause."""

import logging

import pytest

from flinkbuf.common import Configuration, RestartStrategies
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.runtime.driver.checkpoint_log import RestartLog
from flinkbuf.runtime.master.failure_history import ECHO, LOSS, FailureEntry, Outage
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus

RESTARTING, RUNNING, FAILING = JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FAILING


def entry(text, **fields):
    return FailureEntry(Failure("builtins.ValueError", text), 0, "map (1/2)", **fields)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING, "flinkbuf")
    return RestartLog("counts"), lambda: [each.getMessage() for each in caplog.records]


def test_a_cause_is_said_at_once_and_only_once(log):
    look, said = log
    outages = [Outage(entry("no number"))]
    for status in (RESTARTING, RESTARTING, RUNNING):
        look.look(status, outages)
    assert said() == ["job counts begins again: ValueError: no number in map (1/2)"]


@pytest.mark.parametrize("weight", [ECHO, LOSS])
def test_what_only_lost_another_waits_for_the_cause(log, weight):
    look, said = log
    outage = Outage(entry("somebody is gone", weight=weight))
    look.look(RESTARTING, [outage])
    assert said() == []
    outage.root = entry("no number")
    look.look(RESTARTING, [outage])
    assert said() == ["job counts begins again: ValueError: no number in map (1/2)"]


def test_where_no_better_cause_comes_it_is_said_when_the_job_begins_again(log):
    look, said = log
    outage = Outage(entry("a process is gone", weight=LOSS))
    look.look(RESTARTING, [outage])
    look.look(RUNNING, [outage])
    assert said() == ["job counts begins again: ValueError: a process is gone in map (1/2)"]


def test_each_outage_is_said_and_none_of_a_job_that_fails(log):
    look, said = log
    first, second = Outage(entry("one")), Outage(entry("two"))
    look.look(RUNNING, [])
    look.look(RESTARTING, [first])
    look.look(RESTARTING, [first, second])
    look.look(FAILING, [first, second, Outage(entry("three"))])
    assert [text.split(": ")[2] for text in said()] == ["one in map (1/2)", "two in map (1/2)"]


def test_the_warning_of_a_local_job_names_the_operator_that_failed(caplog, tmp_path):
    """Others lose their connections to the task that failed, and tell sooner."""
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "pipeline.progress": "false"})
    ).set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(6, 1))

    def fail_now_and_then(number):
        attempts = len(list(tmp_path.iterdir()))
        if number == 500 and attempts < 6:
            (tmp_path / f"{attempts}").touch()
            raise ValueError("the flight has no number")
        return number

    failing = env.from_collection(list(range(2_000))).rebalance().map(fail_now_and_then).name("flights")
    failing.key_by(lambda number: number % 7).map(lambda number: number).name("behind").print()
    env.execute("counts")
    said = [each.getMessage() for each in caplog.records if "begins again" in each.getMessage()]
    assert len(said) == 6
    for text in said:
        assert text.startswith("job counts begins again: ValueError: the flight has no number in operator 'flights' of")
        assert "java" not in text
