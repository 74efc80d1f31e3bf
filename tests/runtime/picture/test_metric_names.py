"""Metrics under Flink's names, with what they are of."""

from support.worlds.master_world import SESSION, MasterWorld, pipeline

from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.picture.metric_names import all_metrics, job_metrics, manager_metrics, task_metrics
from flinkbuf.runtime.protocol.messages import HeartbeatReport

OPERATOR = {
    "operator_id": "ab",
    "name": "Source: n",
    "records_in": 3,
    "records_out": 4,
    "rows_in": 30,
    "rows_out": None,
    "input_watermark": None,
    "output_watermark": 9,
    "metrics": {"seen": 5, "kind.late.lost": 1, "size": {"count": 2, "p99": 7.0}},
    "labels": {"kind.late.lost": {"kind": "late"}},
    "latency": {"source_id.00": {"count": 1, "p99": 2}},
}
REPORTED = {
    "alignment_ms": 5,
    "records_in": 3,
    "busy_ms": 100,
    "idle_ms": 300,
    "in_pool_usage": 0.5,
    "operators": [OPERATOR],
}


def picture():
    world = MasterWorld(pipeline())
    world.start().register_all()
    world.all_report("INITIALIZING", "RUNNING")
    attempt = world.attempt(0, 0)
    here = tuple(each for each, place in world.place.items() if place == "m1-0")
    for now_ms, records in ((1000, 1), (2000, 3)):
        world.now_ms = now_ms
        metrics = {str(attempt): {**REPORTED, "records_in": records, "busy_ms": 100 * records}}
        report = HeartbeatReport(SESSION, 1, here, metrics, manager_metrics={"resident_bytes": 9, "own": 1})
        world.say("m1-0", report)
    return PictureMaker(world.job).make(2500)


def test_tasks_and_their_operators_have_flinks_names():
    made = picture()
    metrics = task_metrics(made.vertices[0].subtasks[0].current)
    assert (metrics["numRecordsIn"], metrics["numRecordsInPerSecond"]) == (3, 2.0)
    assert (metrics["busyTimeMsPerSecond"], metrics["idleTimeMsPerSecond"]) == (1000, 0)
    assert (metrics["checkpointAlignmentTime"], metrics["checkpointStartDelayNanos"]) == (5_000_000, 0)
    assert metrics["Shuffle.Netty.Input.Buffers.inPoolUsage"] == 0.5
    assert (metrics["Source__n.numRecordsOut"], metrics["Source__n.seen"]) == (4, 5)
    assert metrics["Source__n.numRowsIn"] == 30 and "Source__n.numRowsOut" not in metrics
    assert metrics["Source__n.latency.source_id.00.latency"] == {"count": 1, "p99": 2}
    assert task_metrics(made.vertices[1].subtasks[1].current) == {}, "nothing was reported of it"


def test_managers_and_the_job():
    made = picture()
    assert manager_metrics(made.managers[0]) == {"Status.Process.Memory.Resident": 9, "own": 1}
    metrics = job_metrics(made)
    assert (metrics["numRestarts"], metrics["uptime"], metrics["downtime"], metrics["numRunningTasks"]) == (
        0,
        2500,
        0,
        4,
    )
    assert (metrics["lastCheckpointDuration"], metrics["runningTime"], metrics["failingTime"]) == (-1, 2500, 0)


def test_reporters_get_scopes_and_labels():
    found = {(each.scope, each.name): each for each in all_metrics(picture())}
    own = found["taskmanager.job.task.operator", "kind.late.lost"]
    assert own.labels == {
        "job_id": "0b" * 16,
        "job_name": "pipeline",
        "task_id": "736f75726365".ljust(32, "0"),
        "task_name": "source",
        "host": "host0",
        "tm_id": "m1-0",
        "subtask_index": "0",
        "task_attempt_num": "0",
        "operator_id": "ab",
        "operator_name": "Source: n",
        "kind": "late",
    }
    assert "kind" not in found["taskmanager.job.task.operator", "seen"].labels
    of_manager = found["taskmanager", "Status.Process.Memory.Resident"].labels
    assert of_manager == {"job_id": "0b" * 16, "job_name": "pipeline", "host": "host0", "tm_id": "m1-0"}
    assert found["jobmanager.job", "numRestarts"].value == 0
    assert found["taskmanager.job.task", "numRecordsIn"].value == 3
    assert ("taskmanager.job.task", "Source__n.seen") not in found, "it stands at its operator"


def test_of_too_many_subtasks_reporters_get_the_first_ones_of_each_vertex():
    made = picture()
    indexes = {each.labels["subtask_index"] for each in all_metrics(made, 2) if "subtask_index" in each.labels}
    assert indexes == {"0"}
