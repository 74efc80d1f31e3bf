"""How a job ended, as text, and what a program is given of a job that had ended before it was started."""

import pytest
from support.programs.restarts import graph_of

from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.driver.ended_job import EndedJob
from flinkbuf.runtime.driver.job_result import JobResult
from flinkbuf.runtime.driver.savepoint_requests import SavepointError
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.runtime.protocol.failure import Failure, JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.streaming.sinks.sink_factories import CallableSinkFactory
from flinkbuf.streaming.sources.source_factories import IterableSourceFactory

COUNTED = {"records": {"type": "IntCounter", "value": 3}}


@pytest.mark.parametrize(
    "result",
    [
        JobResult("a" * 32, "FINISHED", 12, COUNTED),
        JobResult("a" * 32, "CANCELED"),
        JobResult("a" * 32, "FAILED", failure=Failure.of(KeyError("thirty"))),
    ],
)
def test_it_is_read_as_it_was_written(result):
    assert JobResult.of_text(result.to_text()) == result


@pytest.mark.parametrize("text", ["", "FINISHED", "[]", "{}", '{"failure": null, "color": 1}', '{"failure": 3}'])
def test_another_text_is_refused(text):
    with pytest.raises(CorruptDataError, match="not the result of a job"):
        JobResult.of_text(text)


def ended(result, *on_end):
    numbers = OperatorTransformation("numbers", None, [], factory=IterableSourceFactory([1]), is_source=True)
    end = OperatorTransformation("sink", None, [numbers], factory=CallableSinkFactory(print), is_sink=True)
    return EndedJob(graph_of(end), result, "/ha/default/job", on_end)


def test_a_finished_job_is_not_run_again_but_has_its_result(caplog):
    told = []
    job = ended(JobResult("a" * 32, "FINISHED", 12, COUNTED), told.append)
    job.run()
    assert told == [None] and job.status is JobStatus.FINISHED and job.accumulators() == {"records": 3}
    assert "cluster-id to run it as another job, or remove /ha/default/job" in caplog.text
    assert isinstance(job.trigger_savepoint().exception(), SavepointError)


def test_a_failed_job_fails_again_with_what_it_failed_with():
    job = ended(JobResult("a" * 32, "FAILED", failure=Failure.of(KeyError("thirty"))))
    with pytest.raises(KeyError, match="thirty"):
        job.run()


def test_a_canceled_job_is_canceled():
    with pytest.raises(JobCanceledError):
        ended(JobResult("a" * 32, "CANCELED")).run()
