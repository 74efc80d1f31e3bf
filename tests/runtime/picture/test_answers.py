"""The five answers, over made-up jobs: what is said, and how good that is."""

import pytest
from support.pages.page_pictures import NOW, QUIET_CHECKPOINTS, after_a_loss, held_back, manager, picture

from flinkbuf.runtime.picture.answers import answers_of


def changed(**more):
    made = picture()
    made.update(more)
    return made


def test_a_job_that_is_well_gives_five_good_answers():
    found = answers_of(picture())
    assert [each["level"] for each in found] == ["good"] * 5
    assert [each["answer"] for each in found] == [
        "Running for 10 min",
        "Nowhere",
        "3.5 s behind",
        "Saved 4 s ago",
        "Nobody",
    ]


def test_who_holds_others_back_is_found_behind_all_that_are_held_back():
    stuck = answers_of(held_back())[1]
    assert (stuck["level"], stuck["answer"], stuck["vertex"]) == ("bad", "join: CoProcess", f"{4:032x}")
    assert stuck["detail"].startswith("subtask 1 is 100 % busy · holds back 3 tasks, by up to ")


def test_after_a_loss_it_says_what_happened_and_that_it_goes_on():
    found = answers_of(after_a_loss())
    assert [each["level"] for each in found] == ["fair", "good", "good", "good", "fair"]
    assert found[0]["detail"] == "11 of 11 subtasks · 1 restart · failed 31 s ago"
    assert (found[4]["answer"], found[4]["detail"]) == ("worker-1 was lost", "31 s ago · 2 task managers left")


@pytest.mark.parametrize(
    ("state", "tasks", "restarts", "level", "answer"),
    [
        ("CREATED", {}, 0, "quiet", "Created"),
        ("RUNNING", {"RUNNING": 3, "DEPLOYING": 8}, 0, "quiet", "Starting"),
        ("RUNNING", {"RUNNING": 3, "SCHEDULED": 8}, 2, "bad", "Starting again"),
        ("RESTARTING", {"CANCELED": 11}, 2, "bad", "Restarting"),
        ("FAILED", {"FAILED": 11}, 2, "bad", "Failed"),
        ("FINISHED", {"FINISHED": 11}, 0, "good", "Finished"),
        ("CANCELED", {"CANCELED": 11}, 0, "quiet", "Canceled"),
    ],
)
def test_whether_it_runs(state, tasks, restarts, level, answer):
    made = changed(state=state, tasks=tasks, restarts=restarts, **{"end-time": NOW})
    found = answers_of(made)[0]
    assert (found["level"], found["answer"]) == (level, answer)


def test_how_far_event_time_is():
    made = picture()
    for each in made["vertices"]:
        each["watermark"].update(lowest=1_373_791_200_000, lag=NOW - 1_373_791_200_000)
    found = answers_of(made)[2]
    assert (found["answer"], found["detail"].split(" · ")[0]) == ("2013-07-14 08:40:00", "UTC, 12.4 years ago")
    made["vertices"][2]["watermark"].update(lowest=1_300_000_000_000, known=1)
    found = answers_of(made)[2]
    assert found["level"] == "fair" and found["detail"].endswith(
        "1 subtask of by airport: Window(TumblingEventTimeWindows, 1 h) without"
    )
    made = picture()
    last = made["vertices"][5]
    last["history"]["watermark_lag"] = [place * 900 for place in range(120)]
    found = answers_of(made)[2]
    assert found["level"] == "fair" and found["detail"].startswith("falls behind")
    for each in made["vertices"]:
        each["watermark"].update(lowest=2**63 - 1, lag=None)
    assert answers_of(made)[2]["answer"] == "At its end"
    for each in made["vertices"]:
        each["watermark"].update(lowest=None, known=0)
    assert answers_of(made)[2]["answer"] == "No watermarks"


def test_whether_it_is_safe():
    found = answers_of(changed(checkpoints=QUIET_CHECKPOINTS))[3]
    assert (found["level"], found["answer"], found["detail"]) == (
        "quiet",
        "No checkpoints",
        "after a failure it would begin anew",
    )
    found = answers_of(changed(checkpoints=QUIET_CHECKPOINTS, **{"job-type": "BATCH"}))[3]
    assert found["detail"] == "a batch job repeats what was lost"
    made = picture()
    made["checkpoints"]["latest"]["completed"]["trigger_timestamp"] = NOW - 41_000
    assert answers_of(made)[3]["level"] == "bad"  # four times the interval
    made["checkpoints"]["latest"]["completed"]["end_to_end_duration"] = 15_000  # as long as another one may take
    assert answers_of(made)[3]["level"] == "good"
    made = after_a_loss()
    made["checkpoints"]["latest"]["completed"] = made["checkpoints"]["history"][2]
    found = answers_of(made)[3]
    assert (found["level"], found["detail"]) == (
        "fair",
        "checkpoint 13 failed: the subtask join: CoProcess (1/2) has failed",
    )


def test_who_is_ill():
    full = manager(1)
    full["metrics"]["resident_bytes"] = 990 << 20
    found = answers_of(changed(taskmanagers=[manager(0), full]))[4]
    assert (found["level"], found["answer"], found["detail"]) == ("fair", "worker-1", "memory 97 % full")
    found = answers_of(changed(taskmanagers=[manager(0, age_ms=21_000), full]))[4]
    assert (found["answer"], found["detail"]) == ("worker-0", "not heard for 21 s · and 1 more")
