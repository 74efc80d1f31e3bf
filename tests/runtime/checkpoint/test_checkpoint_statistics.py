"""What there is to see of checkpoints. Flink: CheckpointStatsTrackerTest, CheckpointingStatisticsTest."""

import json

from support.worlds.checkpoint_world import CheckpointWorld, file, keyed, state
from support.worlds.master_world import error

from flinkbuf.checkpoints.options import CheckpointMetrics
from flinkbuf.runtime.picture.job_details import job_details
from flinkbuf.runtime.scheduler.master_actions import CheckpointEnded


def running(**checkpointing):
    return CheckpointWorld(**{"tolerable_failures": -1} | checkpointing).begin()


def seen(world):
    found = job_details(world.job, world.now_ms)["checkpoints"]
    json.dumps(found)
    return found


def test_before_the_first_one():
    world = CheckpointWorld()
    found = seen(world)
    assert set(found["counts"].values()) == {0}
    assert found["latest"] == {"completed": None, "savepoint": None, "failed": None, "restored": None}
    assert (found["history"], found["summary"]["state_size"]["min"]) == ([], 0)
    assert (found["config"]["mode"], found["config"]["interval"]) == ("exactly_once", 1_000)


def test_one_under_way_shows_who_is_missing():
    world = running()
    world.trigger()
    world.acknowledge(1, world.attempt(0, 0))
    world.now_ms += 30
    [shown] = seen(world)["history"]
    assert (shown["status"], shown["num_acknowledged_subtasks"], shown["num_subtasks"]) == ("IN_PROGRESS", 1, 4)
    assert shown["end_to_end_duration"] == 30
    assert [each["num_acknowledged_subtasks"] for each in shown["tasks"].values()] == [1, 0]


def test_a_complete_one_has_sizes_times_and_what_alignment_cost():
    world = running()
    world.trigger()
    world.now_ms += 40
    metrics = CheckpointMetrics(5, 17, 3, 20, 1_000, 200, is_unaligned=True)
    sized = state("sink", operator=file("x", 100), keyed=[keyed(0, 63, files=("shared",))])
    for attempt in list(world.tasks)[:-1]:
        world.acknowledge(1, attempt)
    world.now_ms += 2
    world.acknowledge(1, world.attempt(1, 1), sized, metrics=metrics)
    world.now_ms += 8
    world.stored(1)
    found = seen(world)
    shown = found["latest"]["completed"]
    assert (shown["checkpointed_size"], shown["state_size"]) == (110, 120)
    assert (shown["end_to_end_duration"], shown["latest_ack_timestamp"]) == (50, 42)
    assert (shown["processed_data"], shown["persisted_data"]) == (1_000, 200)
    assert shown["external_path"].endswith("/chk-1")
    subtask = shown["tasks"][world.plan.vertices[1].id]["subtasks"][1]
    assert (subtask["checkpoint"], subtask["alignment"]["duration"]) == ({"sync": 3, "async": 20}, 17)
    assert found["summary"]["state_size"] == dict.fromkeys(
        ("min", "max", "avg", "p50", "p90", "p95", "p99", "p999"), 120
    )
    [ended] = world.of(CheckpointEnded)
    record = ended.record
    assert (record.size, record.metadata_size, record.duration_ms, record.slowest) == (120, 99, 50, "sink (2/2)")
    assert (record.alignment_ms, record.sync_ms, record.is_unaligned) == (17, 3, True)


def test_a_failed_one_says_why_and_who_had_not_answered():
    world = running()
    world.trigger()
    for attempt in list(world.tasks)[:-1]:
        world.acknowledge(1, attempt)
    world.decline(1, world.attempt(1, 1), failure=error("disk full"))
    shown = seen(world)["latest"]["failed"]
    assert shown["failure_message"] == "a task declined it: sink (2/2): disk full"
    assert world.of(CheckpointEnded)[0].record.slowest == "sink (2/2)"


def test_counts_and_the_newest_of_the_history():
    world = running(history_size=3)
    world.complete()
    world.savepoint()
    world.complete()
    for _ in range(2):
        world.decline(world.trigger(1_000), world.attempt(0, 0))
    world.complete(span_ms=1_000)
    world.begin_again()
    found = seen(world)
    assert found["counts"] == {"restored": 1, "total": 6, "in_progress": 1, "completed": 3, "failed": 2}
    assert [each["id"] for each in found["history"]] == [6, 5, 4]
    assert found["latest"]["savepoint"]["id"] == 2
    assert found["latest"]["savepoint"]["checkpoint_type"] == "SAVEPOINT"
    assert found["latest"]["restored"]["id"] == 5


def test_one_that_is_not_kept_any_more_says_so():
    world = running()
    world.complete()
    world.complete(span_ms=1_000)
    assert [(each["id"], each["discarded"]) for each in seen(world)["history"]] == [(2, False), (1, True)]


def test_what_could_not_begin_counts_as_failed():
    world = CheckpointWorld().start().register_all()
    world.savepoint()
    assert seen(world)["counts"]["failed"] == 1
