"""What a program holds of a job, restart strategies, and types by PyFlink's names."""

from concurrent.futures import Future
from datetime import timedelta

import pytest

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.common import CompletableFuture, JobID, JobStatus, RestartStrategies, RowKind, Types
from flinkbuf.common.job_client import JobClient, JobEnd
from flinkbuf.common.job_execution_result import JobExecutionResult
from flinkbuf.common.typeinfo import BasicType, BasicTypeInfo, ExternalTypeInfo, LocalTimeTypeInfo, RowTypeInfo
from flinkbuf.runtime.driver.savepoint_requests import SavepointError
from flinkbuf.runtime.protocol.failure import JobCanceledError, JobSuspendedError


class FakeJob:
    job_id = "ab" * 16
    net_runtime_ms = 12
    status = JobStatus.RUNNING
    why_suspended = "another job master has taken the job over"

    class graph:
        class settings:
            job_name = "flights"

    def __init__(self):
        self.end = JobEnd()
        self.end.job = self
        self.is_canceled = False
        self.savepoints = []

    def trigger_savepoint(self, directory=None, kind=SnapshotKind.SAVEPOINT):
        self.savepoints.append((directory, kind, Future()))
        return self.savepoints[-1][2]

    def cancel(self):
        self.is_canceled = True

    def accumulators(self):
        return {"rows": 3}

    def details(self):
        return {"jid": self.job_id, "name": "flights", "state": self.status.name}

    def finish(self, status, error=None):
        self.status = status
        self.end(error)


@pytest.fixture
def job():
    return FakeJob()


def test_the_result_comes_when_the_job_has_ended(job):
    client = JobClient(job, job.end)
    result = client.get_job_execution_result()
    assert not result.done() and client.get_job_status().result() is JobStatus.RUNNING
    job.finish(JobStatus.FINISHED)
    assert result.done() and result.result().get_net_runtime() == 12
    assert str(result.result().get_job_id()) == "ab" * 16 and client.get_job_id() == JobID("ab" * 16)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_accumulators().result() == {"rows": 3} == result.result().get_all_accumulator_results()
    assert client.details()["state"] == "FINISHED"


def test_accumulators_that_cannot_be_merged_are_told_to_whoever_asks(job):
    def accumulators():
        raise TypeError("an IntCounter and a Histogram")

    job.accumulators = accumulators
    client = JobClient(job, job.end)
    job.finish(JobStatus.FINISHED)
    for future in (client.get_accumulators(), client.get_job_execution_result()):
        with pytest.raises(TypeError, match="IntCounter"):
            future.result()


def test_who_waits_no_more_takes_nothing_from_others(job):
    client = JobClient(job, job.end)
    given_up, other, over = client.get_job_execution_result(), client.get_job_execution_result(), client.cancel()
    assert given_up.cancel() and over.cancel()
    job.finish(JobStatus.FINISHED)
    assert given_up.cancelled() and other.result().get_net_runtime() == 12


def test_the_result_raises_what_the_job_failed_with(job):
    error = ZeroDivisionError("by zero")
    job.finish(JobStatus.FAILED, error)
    result = JobClient(job, job.end).get_job_execution_result()
    assert result.exception() is error
    with pytest.raises(ZeroDivisionError):
        result.result()


def test_cancelling_is_over_when_the_job_has_ended(job):
    client = JobClient(job, job.end)
    over = client.cancel()
    assert job.is_canceled and not over.done()
    job.finish(JobStatus.CANCELED)
    assert over.result() is None
    with pytest.raises(JobCanceledError, match="'flights' was canceled"):
        client.get_job_execution_result().result()


def test_a_savepoint_is_asked_of_the_job(job):
    client = JobClient(job, job.end)
    future = client.trigger_savepoint("/savepoints")
    (asked,) = job.savepoints
    assert asked[:2] == ("/savepoints", SnapshotKind.SAVEPOINT) and not future.done()
    asked[2].set_result("/savepoints/savepoint-1")
    assert future.result() == "/savepoints/savepoint-1"


@pytest.mark.parametrize(
    ("is_drain", "kind"), [(False, SnapshotKind.SAVEPOINT_SUSPEND), (True, SnapshotKind.SAVEPOINT_TERMINATE)]
)
def test_a_job_stops_with_a_savepoint(job, is_drain, kind):
    JobClient(job, job.end).stop_with_savepoint(is_drain)
    assert job.savepoints[0][:2] == (None, kind)


def test_a_job_is_cancelled_once_its_savepoint_is_made(job):
    future = JobClient(job, job.end).cancel_with_savepoint("/s")
    assert not job.is_canceled
    job.savepoints[0][2].set_result("/s/savepoint-1")
    assert job.is_canceled and not future.done()
    job.finish(JobStatus.CANCELED)
    assert future.result() == "/s/savepoint-1"


def test_a_job_whose_savepoint_comes_to_nothing_goes_on(job):
    future = JobClient(job, job.end).cancel_with_savepoint("/s")
    job.savepoints[0][2].set_exception(SavepointError("disk full"))
    assert isinstance(future.exception(), SavepointError) and not job.is_canceled


def test_a_job_that_goes_on_elsewhere_has_no_result_here(job):
    result = JobClient(job, job.end).get_job_execution_result()
    job.finish(JobStatus.SUSPENDED)
    assert isinstance(result.exception(), JobSuspendedError)
    assert str(result.exception()) == "job 'flights' was suspended: another job master has taken the job over"


def test_a_future_can_be_cancelled_and_says_how_it_is():
    future = CompletableFuture(Future())
    assert str(future) == "CompletableFuture(not completed)" and future.exception() is None
    assert future.cancel() and future.cancelled() and future.done()


def test_accumulators_are_given_by_name():
    result = JobExecutionResult(JobID("0" * 32), 5, {"rows": 3})
    assert result.get_accumulator_result("rows") == 3 and result.get_accumulator_result("x") is None
    assert result.get_all_accumulator_results() == {"rows": 3} and "- rows: 3" in str(result)


def test_restart_strategies_compare_and_describe_themselves():
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=2))
    assert fixed == RestartStrategies.fixed_delay_restart(3, 2000) and fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=2)
    assert fixed.get_description() == "Restart with fixed delay (2000 ms). #3 restart attempts."
    rate = RestartStrategies.failure_rate_restart(3, 5000, 1000)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (3, timedelta(seconds=5))
    assert "3 failures within interval 5000 ms and fixed delay 1000 ms" in rate.get_description()
    assert RestartStrategies.no_restart().get_description() == "Restart deactivated."
    assert RestartStrategies.fall_back_restart() != RestartStrategies.no_restart()


@pytest.mark.parametrize("interval", ["x", 1.5, None, True])
def test_a_restart_strategy_refuses_what_is_no_time(interval):
    with pytest.raises(TypeError, match="only supports integer and datetime.timedelta"):
        RestartStrategies.fixed_delay_restart(3, interval)
    with pytest.raises(TypeError, match="failure_interval"):
        RestartStrategies.failure_rate_restart(3, interval, 1)


def test_types_are_made_and_asked_for_by_pyflinks_classes():
    assert BasicTypeInfo(BasicType.INT) is Types.INT() and BasicTypeInfo.STRING_TYPE_INFO() is Types.STRING()
    assert isinstance(Types.INT(), BasicTypeInfo) and not isinstance(Types.SQL_DATE(), BasicTypeInfo)
    row = RowTypeInfo([Types.INT(), Types.LONG()], ["a", "b"])
    assert isinstance(row, RowTypeInfo) and not isinstance(Types.INT(), RowTypeInfo) and not isinstance(5, RowTypeInfo)
    assert (row.get_field_names(), row.get_field_index("b")) == (["a", "b"], 1)
    assert str(row) == "RowTypeInfo(a: Integer, b: Long)" and row == Types.ROW_NAMED(["a", "b"], row.get_field_types())
    assert LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME) is Types.LOCAL_TIME()
    assert ExternalTypeInfo(row) is row and not isinstance(row, ExternalTypeInfo)
    assert str(Types.MAP(Types.STRING(), Types.LIST(Types.INT()))) == "MapTypeInfo<String, ListTypeInfo<Integer>>"


def test_kinds_of_rows_print_as_in_flink():
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
