"""Pictures of a job: frozen, shared where nothing changed, and true to what was reported."""

import dataclasses
import itertools
import json

import pytest
from support.worlds.master_world import SESSION, MasterWorld, edge, error, vertex

from flinkbuf.runtime.checkpoint.checkpoint_statistics import COMPLETED, FAILED, CheckpointStatistics
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.picture.job_details import job_details
from flinkbuf.runtime.picture.job_picture import HISTORY_LENGTH, LOST_MANAGERS, PictureMaker
from flinkbuf.runtime.picture.page_picture import page_picture, skew_of
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import HeartbeatReport
from flinkbuf.runtime.scheduler.master_actions import CancelJob, ManagerLost


def plan_of(width=2):
    vertices = (vertex("source", width, is_source=True), vertex("sink", width))
    return JobPlan("0b" * 16, "pipeline", vertices, (edge(0, 1),))


def running(width=2, restart=None):
    world = MasterWorld(plan_of(width), restart)
    world.now_ms = 100
    world.start().register_all()
    return world.all_report("INITIALIZING", "RUNNING")


def beat(world, metrics):
    """A heartbeat of all managers, with what `metrics(vertex, subtask)` gives."""
    by_manager = {}
    for attempt, place in world.place.items():
        by_manager.setdefault(place, []).append(attempt)
    names = {each.id: each.name for each in world.plan.vertices}
    for manager_id, attempts in by_manager.items():
        told = {str(each): metrics(names[each.vertex_id], each.subtask_index) for each in attempts}
        world.say(manager_id, HeartbeatReport(SESSION, 1, tuple(attempts), told, manager_metrics={"resident_bytes": 7}))


def counted(records_in=0, records_out=0, busy=0, idle=0, held=0, watermark=None):
    return {
        "records_in": records_in,
        "records_out": records_out,
        "bytes_in": 10 * records_in,
        "busy_ms": busy,
        "idle_ms": idle,
        "back_pressured_ms": held,
        "watermark": watermark,
    }


def page_of(picture, **options):
    page = page_picture(picture, **options)
    assert json.loads(json.dumps(page, allow_nan=False)) == page
    return page


def test_what_has_not_changed_is_shared_with_the_picture_before():
    world = running()
    maker = PictureMaker(world.job)
    first = maker.make(1000)
    second = maker.make(2000)
    before, after = (
        [subtask for vertex in picture.vertices for subtask in vertex.subtasks] for picture in (first, second)
    )
    assert all(one is other for one, other in zip(before, after, strict=True))
    world.now_ms = 2500
    here = tuple(attempt for attempt, place in world.place.items() if place == "m1-0")
    world.say("m1-0", HeartbeatReport(SESSION, 1, here, {str(world.attempt(0, 0)): counted(1)}))
    third = maker.make(3000)
    changed = [subtask is not old for subtask, old in zip(third.vertices[0].subtasks, after, strict=False)]
    assert changed == [True, False]
    assert first.vertices[0].subtasks[0].current.metrics == {}, "an old picture stays as it was"


def test_a_picture_cannot_be_changed():
    picture = PictureMaker(running().job).make(1000)
    for frozen in (
        picture,
        picture.vertices[0],
        picture.vertices[0].subtasks[0],
        picture.vertices[0].subtasks[0].current,
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, dataclasses.fields(frozen)[0].name, None)


def test_an_old_picture_does_not_see_later_states_failures_and_checkpoints():
    world = running(restart=FixedDelayRestart(3, 0))
    maker = PictureMaker(world.job)
    old = maker.make(1000)
    shown = json.dumps(job_details(old))
    world.report(world.attempt(0, 0), "FAILED", error())
    world.tell(CancelJob())
    maker.make(2000)
    assert json.dumps(job_details(old)) == shown


def test_the_checkpoint_that_a_restart_begins_from_stays_in_the_list_however_many_fail():
    picture = PictureMaker(running().job).make(90_000)
    made = [CheckpointStatistics(each, "checkpoint", False, False, 1000 * each, {}, {}) for each in range(1, 13)]
    for each in made:
        each.status, each.end_ms = (FAILED if each.id > 1 else COMPLETED), 1000 * each.id + 10
    shown = dataclasses.replace(picture.checkpoints, history=tuple(made[2:]), latest={"completed": made[0]})
    page = page_of(dataclasses.replace(picture, checkpoints=shown))
    assert [each["id"] for each in page["checkpoints"]["history"]] == [*range(12, 2, -1), 1]
    shown = dataclasses.replace(shown, history=tuple(made[:3]))
    page = page_of(dataclasses.replace(picture, checkpoints=shown))
    assert [each["id"] for each in page["checkpoints"]["history"]] == [3, 2, 1]


def test_rates_are_taken_between_reports_and_shares_add_up():
    world = running()
    maker = PictureMaker(world.job)
    world.now_ms = 1000
    beat(world, lambda vertex, subtask: counted(100, 200, busy=500, idle=500))
    maker.make(1000)
    world.now_ms = 3000
    beat(world, lambda vertex, subtask: counted(1100, 2200 * (subtask + 1), busy=1000, idle=500, held=1500))
    picture = maker.make(3000)
    source = picture.vertices[0]
    assert source.rates["records_in"] == 2 * 500.0 and source.rates["records_out"] == 1000 + 2100
    assert source.subtasks[0].current.rates[:2] == (500.0, 1000.0)
    assert source.subtasks[0].current.shares == (0.25, 0.0, 0.75)
    assert source.totals["records_in"] == 2200 and source.totals["bytes_in"] == 22_000
    assert [sample.records_in for sample in source.samples] == [0.0, 1000.0]
    world.report(world.attempt(0, 0), "FINISHED")
    assert maker.make(4000).vertices[0].rates["records_in"] == 500.0, "what has ended has no rate any more"


def test_history_has_one_sample_a_second_and_is_bounded():
    maker = PictureMaker(running().job)
    for now_ms in range(0, 1000 * (HISTORY_LENGTH + 10), 200):  # asked for five times a second
        picture = maker.make(now_ms)
    times = [sample.time_ms for sample in picture.vertices[0].samples]
    assert len(times) == HISTORY_LENGTH and times[-1] - times[0] >= 600 * (HISTORY_LENGTH - 1)
    assert all(late - early >= 500 for early, late in itertools.pairwise(times))


def test_the_page_shows_who_is_behind_who_is_busy_and_how_skewed_it_is():
    world = running(width=3)
    maker = PictureMaker(world.job)
    beat(world, lambda vertex, subtask: counted())
    world.now_ms = 10_000

    def metrics(vertex, subtask):
        if vertex == "source":
            return counted(records_out=90, busy=10, idle=10, held=80, watermark=9_000)
        return counted([90, 0, 0][subtask], busy=[95, 0, 0][subtask], idle=5, watermark=[4_000, 8_000, 8_000][subtask])

    beat(world, metrics)
    page = page_of(maker.make(10_000))
    source, sink = page["vertices"]
    assert (source["most_held_back"]["level"], source["back_pressured"], source["skew"]) == ("high", 0.8, 0.0)
    assert (sink["busiest"], sink["skew"]) == ({"subtask": 0, "ratio": 0.95}, 100.0)
    assert sink["watermark"] == {"lowest": 4_000, "highest": 8_000, "subtask": 0, "lag": 6_000, "known": 3}
    assert page["tasks"]["RUNNING"] == page["subtask-count"] == 6
    assert page["edges"][0]["source"] == source["id"] and page["edges"][0]["target"] == sink["id"]
    columns, rows = sink["subtasks"]["columns"], sink["subtasks"]["rows"]
    first = dict(zip(columns, rows[0], strict=True))
    assert (first["records_in"], first["busy"], first["watermark"], first["taskmanager"]) == (90, 0.95, 4_000, "m1-0")
    manager = page["taskmanagers"][0]
    assert (manager["tasks"], manager["heartbeat-age"], manager["metrics"]) == (2, 0, {"resident_bytes": 7})


def test_of_many_subtasks_the_page_has_those_that_stand_out():
    world = running(width=20, restart=FixedDelayRestart(1, 10_000))
    beat(world, lambda vertex, subtask: counted(subtask))
    world.now_ms = 2000
    beat(world, lambda vertex, subtask: counted(subtask, busy=subtask == 7, idle=1, held=3 * (subtask == 11)))
    maker = PictureMaker(world.job)
    page = page_of(maker.make(2000), rows=2)
    sink = page["vertices"][1]["subtasks"]
    assert ([row[0] for row in sink["rows"]], sink["count"]) == ([7, 11], 20)
    assert page_of(maker.make(2000), vertices=[page["vertices"][0]["id"]])["vertices"][1]["subtasks"]["rows"] == []
    assert page_of(maker.make(2000), rows=0)["vertices"][0]["subtasks"]["rows"] == []


def test_what_nobody_looks_at_is_left_out_and_changes_no_answer():
    world = running()
    maker = PictureMaker(world.job)
    for second in range(1, 30):
        world.now_ms = 1_000 * second
        beat(world, lambda name, subtask, n=second: counted(n, n, 500 * n, 500 * n, 0, 10_000))
        picture = maker.make(world.now_ms)
    page = page_of(picture)
    source, sink = page["vertices"]
    assert "falls behind" in page["answers"][2]["detail"], "that needs its history"
    less = page_of(picture, vertices=["none"])
    assert less["answers"] == page["answers"]
    assert [len(each["history"]["time"]) for each in less["vertices"]] == [0, 29], "of the last one only"
    assert [each["operators"] for each in less["vertices"]] == [[], []]
    chosen = page_of(picture, vertices=[source["id"]])["vertices"][0]
    assert chosen == source and sink["subtasks"]["rows"]


def test_a_failure_says_what_it_took_down_and_a_lost_manager_is_remembered():
    world = running(restart=FixedDelayRestart(3, 0))
    maker = PictureMaker(world.job)
    maker.make(1000)
    world.now_ms = 1500
    world.tell(ManagerLost("m1-1", "killed"))
    page = page_of(maker.make(2000))
    (entry,) = page["exceptions"]["exceptionHistory"]["entries"]
    assert entry["restarted"] == {"count": 4, "tasks": ["source (1/2)", "source (2/2)", "sink (1/2)", "sink (2/2)"]}
    assert [(each["id"], each["lost-time"]) for each in page["lost-taskmanagers"]] == [("m1-1", 2000)]
    assert "m1-1" not in [each["id"] for each in page["taskmanagers"]]


def test_a_failed_job_names_what_ended_with_it():
    world = running()
    world.report(world.attempt(1, 0), "FAILED", error())
    (entry,) = page_of(PictureMaker(world.job).make(2000))["exceptions"]["exceptionHistory"]["entries"]
    assert entry["restarted"] == {"count": 3, "tasks": ["source (1/2)", "source (2/2)", "sink (2/2)"]}


def test_managers_that_were_there_at_the_end_stay_in_the_last_picture():
    world = running()
    maker = PictureMaker(world.job)
    maker.make(1000)
    world.tell(CancelJob())
    world.all_report("CANCELED")
    picture = maker.make(2000)
    assert (picture.status, picture.is_over) == (JobStatus.CANCELED, True)
    assert [each.id for each in picture.managers] == ["m1-0", "m1-1"] and not picture.lost_managers
    assert LOST_MANAGERS == 16


@pytest.mark.parametrize(("counts", "skew"), [((5, 5, 5), 0.0), ((9, 0, 0), 100.0), ((6, 3, 0), 50.0)])
def test_skew(counts, skew):
    world = running(width=3)
    beat(world, lambda vertex, subtask: counted(counts[subtask]))
    assert skew_of(PictureMaker(world.job).make(1).vertices[1]) == skew
