"""The picture of a job: Flink's shapes and names, and numbers that agree with what happened."""

import json

from support.worlds.master_world import SESSION, MasterWorld, error, pipeline

from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.picture.job_details import job_details
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import HeartbeatReport
from flinkbuf.runtime.scheduler.master_actions import CancelJob

# Names that Flink's REST API 2.x gives, from its description (rest_v1_dispatcher).
JOB = "jid name isStoppable state job-type start-time end-time duration maxParallelism now timestamps vertices"
VERTEX = "id slotSharingGroupId name maxParallelism parallelism status start-time end-time duration tasks metrics"
SUBTASK = "subtask status attempt endpoint start-time end-time duration metrics taskmanager-id status-duration"
METRICS = (
    "read-bytes read-bytes-complete write-bytes write-bytes-complete read-records read-records-complete write-records "
    "write-records-complete accumulated-backpressured-time accumulated-idle-time accumulated-busy-time"
)
EXCEPTION = "exceptionName stacktrace timestamp failureLabels taskName endpoint taskManagerId concurrentExceptions"
BACK_PRESSURE = "subtask backpressureLevel ratio idleRatio busyRatio"


def running(restart=None):
    world = MasterWorld(pipeline(), restart)
    world.now_ms = 100
    world.start().register_all()
    world.now_ms = 150
    world.all_report("INITIALIZING")
    world.now_ms = 200
    return world.all_report("RUNNING")


def details_of(world):
    details = job_details(world.job, world.now_ms)
    assert json.loads(json.dumps(details, allow_nan=False)) == details, "JSON, and nothing that it changes"
    return details


def test_names_are_flinks():
    world = running(FixedDelayRestart(1, 0))
    world.report(world.attempt(0, 0), "FAILED", error())
    details = details_of(world)
    assert set(JOB.split()) <= set(details)
    for vertex in details["vertices"]:
        assert set(VERTEX.split()) <= set(vertex)
        assert set(METRICS.split()) == set(vertex["metrics"])
        for subtask in vertex["subtasks"]:
            assert set(SUBTASK.split()) <= set(subtask)
    (entry,) = details["exceptions"]["exceptionHistory"]["entries"]
    assert set(entry) == {*EXCEPTION.split(), "restarted", "message"}, "the last two are not Flink's"


def test_a_job_before_its_start():
    details = details_of(MasterWorld(pipeline()))
    assert (details["state"], details["end-time"], details["duration"]) == ("CREATED", -1, 0)
    vertex = details["vertices"][0]
    assert (vertex["status"], vertex["start-time"], vertex["duration"]) == ("CREATED", -1, -1)
    assert vertex["subtasks"][0]["endpoint"] == "(unassigned)"
    assert details["exceptions"]["root-exception"] is None


def test_times_places_and_counts_of_a_job_that_runs():
    world = running()
    world.now_ms = 1000
    details = details_of(world)
    assert (details["state"], details["start-time"], details["duration"]) == ("RUNNING", 0, 1000)
    assert details["timestamps"]["RUNNING"] == 100
    assert set(details["timestamps"]) == {status.name for status in JobStatus} | {"INITIALIZING"}
    assert details["timestamps"]["INITIALIZING"] == details["start-time"]
    assert details["status-counts"]["RUNNING"] == 2
    sink = details["vertices"][1]
    assert (sink["tasks"]["RUNNING"], sink["tasks"]["FAILED"], sink["tasks"]["RECONCILING"]) == (2, 0, 0)
    assert (sink["start-time"], sink["end-time"], sink["duration"]) == (100, -1, 900)
    subtask = sink["subtasks"][1]
    assert (subtask["endpoint"], subtask["taskmanager-id"], subtask["attempt"]) == ("host1:5001", "m1-1", 0)
    assert subtask["status-duration"] == {
        "CREATED": 100,
        "SCHEDULED": 0,
        "DEPLOYING": 50,
        "INITIALIZING": 50,
        "RUNNING": 800,
    }
    assert [manager["slotsNumber"] for manager in details["taskmanagers"]] == [1, 1]
    node = details["plan"]["nodes"][1]
    assert node["inputs"] == [
        {"num": 0, "id": world.plan.vertices[0].id, "ship_strategy": "", "exchange": "pipelined_bounded"}
    ]


def heartbeat(world, manager_id, metrics, accumulators=None):
    world.say(
        manager_id,
        HeartbeatReport(
            SESSION,
            1,
            tuple(attempt for attempt, place in world.place.items() if place == manager_id),
            {str(attempt): each for attempt, each in metrics.items()},
            {str(attempt): each for attempt, each in (accumulators or {}).items()},
        ),
    )


def numbers(records_in, busy_ms, idle_ms, held_ms, **more):
    return {
        "records_in": records_in,
        "records_out": 2 * records_in,
        "busy_ms": busy_ms,
        "idle_ms": idle_ms,
        "back_pressured_ms": held_ms,
        **more,
    }


def test_metrics_watermarks_and_back_pressure():
    world = running()
    first, second = world.attempt(1, 0), world.attempt(1, 1)
    operators = [
        {"operator_id": "sink", "name": "sink", "records_in": 7, "records_out": 3, "rows_in": 70, "rows_out": None}
    ]
    heartbeat(world, "m1-0", {first: numbers(10, 100, 900, 0, watermark=None)})
    world.now_ms = 1200
    heartbeat(world, "m1-0", {first: numbers(30, 200, 1200, 600, watermark=55, operators=operators)})
    heartbeat(world, "m1-1", {second: numbers(5, 960, 40, 0, watermark=70, operators=operators)})
    sink = details_of(world)["vertices"][1]
    assert (sink["metrics"]["read-records"], sink["metrics"]["write-records"]) == (35, 70)
    assert (sink["metrics"]["read-records-complete"], sink["metrics"]["read-bytes-complete"]) == (True, False)
    assert sink["metrics"]["accumulated-busy-time"] == 1160
    counts = {"records_in": 14, "records_out": 6, "rows_in": 140, "rows_out": None}
    assert sink["operators"] == [{"operator_id": "sink", "name": "sink", **counts}]
    assert sink["watermarks"] == [
        {"id": "0.currentInputWatermark", "value": "55"},
        {"id": "1.currentInputWatermark", "value": "70"},
    ]
    pressure = sink["backpressure"]
    assert (pressure["status"], pressure["backpressureLevel"], pressure["end-timestamp"]) == ("ok", "high", 1200)
    assert all(set(each) == set(BACK_PRESSURE.split()) for each in pressure["subtasks"])
    held, free = pressure["subtasks"]
    assert (held["busyRatio"], held["idleRatio"], held["ratio"]) == (0.1, 0.3, 0.6)
    assert (free["busyRatio"], free["ratio"], free["backpressureLevel"]) == (0.96, 0.0, "ok")


def counter(value, type="IntCounter"):
    return {"type": type, "value": value}


def test_accumulators_are_merged_and_what_cannot_be_says_so():
    world = running()
    first, second = world.attempt(1, 0), world.attempt(1, 1)
    heartbeat(world, "m1-0", {}, {first: {"lines": counter(3), "odd": counter(1)}})
    heartbeat(world, "m1-1", {}, {second: {"lines": counter(4), "odd": counter(1.0, "DoubleCounter")}})
    found = {each["name"]: each for each in details_of(world)["accumulators"]["user-task-accumulators"]}
    assert found["lines"] == {"name": "lines", "type": "IntCounter", "value": 7}
    assert found["odd"]["type"] == "failed"
    assert "odd" in found["odd"]["value"]


def test_failures_and_former_attempts():
    world = running(FixedDelayRestart(2, 0))
    failure = error("boom", traceback="Traceback ...\nValueError: boom", location={"operator": "split"})
    world.now_ms = 500
    world.report(world.attempt(0, 1), "FAILED", failure)
    world.report(world.attempt(1, 1), "FAILED", error("another"))
    world.confirm_cancels()
    details = details_of(world)
    assert details["restarts"] == 1
    exceptions = details["exceptions"]
    assert (exceptions["root-exception"], exceptions["timestamp"]) == (failure.traceback, 500)
    (entry,) = exceptions["exceptionHistory"]["entries"]
    assert (entry["exceptionName"], entry["taskName"]) == ("builtins.ValueError", "source (2/2)")
    assert (entry["taskManagerId"], entry["endpoint"]) == ("m1-1", "host1")
    assert entry["failureLabels"] == {"operator": "split"}
    (concurrent,) = entry["concurrentExceptions"]
    assert concurrent["stacktrace"] == "builtins.ValueError: another"
    subtask = details["vertices"][0]["subtasks"][1]
    assert (subtask["attempt"], subtask["status"]) == (1, "DEPLOYING")
    (former,) = subtask["former_attempts"]
    assert (former["attempt"], former["status"], former["end-time"], former["duration"]) == (0, "FAILED", 500, 400)


def test_the_newest_failure_comes_first():
    world = running(FixedDelayRestart(5, 0))
    for number in range(3):
        world.report(world.attempt(0, 0, number), "FAILED", error(f"boom {number}"))
        world.confirm_cancels().wait(1)
    entries = details_of(world)["exceptions"]["exceptionHistory"]["entries"]
    assert [entry["stacktrace"][-6:] for entry in entries] == ["boom 2", "boom 1", "boom 0"]


def test_a_job_that_has_ended_does_not_grow_older():
    world = running()
    world.now_ms = 900
    world.all_report("FINISHED")
    world.now_ms = 5000
    details = details_of(world)
    assert (details["state"], details["end-time"], details["duration"]) == ("FINISHED", 900, 900)
    vertex = details["vertices"][0]
    assert (vertex["status"], vertex["end-time"], vertex["duration"]) == ("FINISHED", 900, 800)
    assert vertex["subtasks"][0]["status-duration"]["RUNNING"] == 700


def test_a_job_that_was_canceled():
    world = MasterWorld(pipeline()).start()
    world.now_ms = 7
    world.tell(CancelJob())
    details = details_of(world)
    assert (details["state"], details["vertices"][0]["status"], details["taskmanagers"]) == ("CANCELED", "CANCELED", [])
