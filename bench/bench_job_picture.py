"""How many subtasks a second does a job master put into a picture of its job, and how many does a page get?

A job of ten tasks with 1,000 subtasks each. A picture for which all subtasks have reported since the last one, and one
for which none has; what the page draws of it; what a heartbeat's report of one subtask, with three operators, costs to
write and to read. The rival: Flink's job details made each second, as before there were pictures. Flink has none of it.
"""

import json
from random import Random

import pytest
from measure import measure, scaled

from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.picture.job_details import job_details
from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.picture.page_picture import page_picture
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.messages import KINDS, HeartbeatReport
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

TASKS, PARALLELISM = 10, scaled(1_000)
SUBTASKS = TASKS * PARALLELISM
OPERATORS = tuple(OperatorPlan(f"{number:032x}", f"Map {number}") for number in range(3))


def reported(index: int, round_: int) -> dict[str, object]:
    """What a subtask says of itself."""
    count = 1_000 * round_ + index
    operators = [
        {
            "operator_id": each.id,
            "name": each.name,
            "records_in": count,
            "records_out": count,
            "input_watermark": None,
            "output_watermark": 1_700_000_000_000,
            "metrics": {"seen": count, "rate": 2.5},
        }
        for each in OPERATORS
    ]
    counts = dict.fromkeys(("records_in", "records_out", "bytes_in", "bytes_out", "buffers_in", "buffers_out"), count)
    times = {"busy_ms": 600 * round_, "idle_ms": 300 * round_, "back_pressured_ms": 100 * round_}
    queues = {"queued_in": 1, "queued_out": 2, "in_pool_usage": 0.5, "out_pool_usage": 0.25}
    return {**counts, **times, **queues, "watermark": 1_700_000_000_000 + index, "operators": operators}


def running_job() -> JobMaster:
    vertices = tuple(
        VertexPlan(f"{number:032x}", f"task {number}", PARALLELISM, 32_768, operators=OPERATORS)
        for number in range(TASKS)
    )
    edges = tuple(EdgePlan(number, number + 1, 0, 0, True) for number in range(TASKS - 1))
    plan = JobPlan("c" * 32, "wide", vertices, edges)
    job = JobMaster(plan, session_id="d" * 32, restart_strategy=NoRestart().create(Random(1)))
    for execution in job.graph.executions():
        execution.state = ExecutionState.RUNNING
    return job


JOB = running_job()
MAKER = PictureMaker(JOB)
ROUNDS = [[reported(index, round_) for index in range(PARALLELISM)] for round_ in range(2)]
now_ms = 0


def report_all() -> None:
    global now_ms
    now_ms += 1_000
    reports = ROUNDS[now_ms // 1_000 % 2]
    for execution in JOB.graph.executions():
        execution.keep(reports[execution.vertex.index], None, now_ms)


def picture_after_reports() -> None:
    report_all()
    MAKER.make(now_ms)


def picture_without_reports() -> None:
    MAKER.make(now_ms)


def details_after_reports() -> None:
    report_all()
    job_details(JOB, now_ms)


def page() -> None:
    json.dumps(page_picture(PICTURE))


CODEC = MessageCodec(KINDS)
ATTEMPT = AttemptId("ab" * 16, 0, 0)
REPORT = HeartbeatReport("cd" * 16, 1, (ATTEMPT,), {str(ATTEMPT): reported(1, 1)}, {}, {"threads": 5})
WRITTEN = CODEC.encode(REPORT)


def write_report() -> None:
    CODEC.encode(REPORT)


def read_report() -> None:
    CODEC.decode(WRITTEN)


picture_after_reports()
report_all()
PICTURE = MAKER.make(now_ms)

CASES = {
    "job_picture.after_reports": (picture_after_reports, SUBTASKS, "subtasks"),
    "job_picture.without_reports": (picture_without_reports, SUBTASKS, "subtasks"),
    "job_picture.details_instead": (details_after_reports, SUBTASKS, "subtasks"),
    "job_picture.page": (page, SUBTASKS, "subtasks"),
    "job_picture.write_report": (write_report, 1, "subtasks"),
    "job_picture.read_report": (read_report, 1, "subtasks"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
