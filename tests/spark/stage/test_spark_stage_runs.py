"""What is decided about stages that Spark computes on its own: a script of what is heard, and what each is told."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import NO_SESSION, RegisterManager, TaskStateReport
from flinkbuf.spark.stage import stage_runs
from flinkbuf.spark.stage.stage_attempts import StageAttempts, TaskAdmission
from flinkbuf.spark.stage.stage_progress import AttemptTasks, StageProgress, TaskEnd
from flinkbuf.spark.stage.stage_runs import (
    Begin,
    FailRun,
    FindStage,
    Finished,
    GiveUp,
    JobOver,
    Join,
    Note,
    PassOn,
    Refuse,
    StageFound,
    StageProgram,
    StageRuns,
    TaskCame,
    TaskGone,
    TaskReported,
)

ID = "00000000000000ab"


def finished(**counts):
    return TaskStateReport(NO_SESSION, AttemptId("ab" * 16, 0, 0), "FINISHED", metrics=counts)


def failing(error):
    return TaskStateReport(NO_SESSION, AttemptId("ab" * 16, 0, 0), "FAILED", Failure.of(error))


class Driver:
    """The decider, for stages of three tasks, and their jobs; what it wants to know is answered by `spark`."""

    def __init__(self, spark=None, task_count=3, ends_by_task=True):
        self.runs, self.now_ms, self.task_count = StageRuns(), 0, task_count
        self.spark, self.ends_by_task = spark or Spark(), ends_by_task
        self.joined = {}  # run by name of the task
        self.told = {}  # why it is to end, by name of the task
        self.notes, self.summaries, self.given_up, self.passed_on = [], [], [], []
        self.begun = []  # runs

    def handle(self, stimulus=None):
        waiting = [stimulus]
        while waiting:
            for action in self.runs.handle(waiting.pop(0), self.now_ms):
                self._perform(action, waiting)

    def _perform(self, action, waiting):
        if isinstance(action, Begin):
            self.begun.append(action.run)
        elif isinstance(action, Join):
            assert action.run in self.begun
            self.joined[action.manager_id] = action.run
        elif isinstance(action, Refuse):
            assert action.manager_id not in self.told
            self.told[action.manager_id] = action.reason
        elif isinstance(action, FailRun):
            for name, run in self.joined.items():
                if run == action.run:
                    assert name not in self.told, "a failure is the last that is heard"
                    self.told[name] = action.reason
        elif isinstance(action, PassOn):
            self.passed_on.append((action.run, action.manager_id, action.report.state))
        elif isinstance(action, Finished):
            self.summaries.append(action)
        elif isinstance(action, FindStage):
            waiting.append(self.spark.find(action))
        elif isinstance(action, GiveUp):
            self.given_up.append((action.stage, action.reason))
        elif isinstance(action, Note):
            self.notes.append(action.text)

    def come(self, index, task=None, name=None, stage=7, exchange_id=ID, earlier_failures=()):
        """A task registers; it is called by its index, unless another name is given."""
        task = 10 + index if task is None else task
        name = str(index if name is None else name)
        finished = self.summaries.append if self.ends_by_task else None
        kind = "a pipelined exchange"
        program = StageProgram(exchange_id, f"exchange {exchange_id}", kind, self.task_count, print, finished)
        me = RegisterManager(name, 0, index, "127.0.0.1", 5000 + index, 1, 100 + index)
        is_known = self.runs.knows_attempt_of(exchange_id, stage, task)
        attempt = None if is_known else self.spark.attempt_of(task, self.task_count)
        self.handle(TaskCame(program, me, stage, task, attempt, earlier_failures))

    def all_come(self, first_task=10, prefix="", **where):
        for index in range(self.task_count):
            self.come(index, first_task + index, f"{prefix}{index}", **where)

    def done(self, name, **counts):
        self.handle(TaskReported(str(name), finished(**counts)))

    def fail(self, name, error):
        self.handle(TaskReported(str(name), failing(error)))

    def lose(self, name):
        self.handle(TaskGone(str(name), "the connection broke"))

    def wait(self, ms):
        """Let time pass, as a clock would that rings when it is asked to."""
        until = self.now_ms + ms
        while (due := self.runs.next_deadline_ms) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            self.handle()
        self.now_ms = until

    def is_deployed(self, name):
        """Whether all tasks of its job have come, and it was not told to end."""
        run = self.joined.get(name)
        return run is not None and list(self.joined.values()).count(run) == self.task_count and name not in self.told

    def failure(self, name):
        return self.told[str(name)]

    def has_met(self, *names):
        """Whether these tasks are in one job, and no other is."""
        (run,) = {self.joined[str(name)] for name in names}
        return sorted(name for name, each in self.joined.items() if each == run) == sorted(map(str, names))


class Spark:
    """A stage of which the test says how far it is; None: Spark cannot be asked."""

    def __init__(self, *progress, first_tasks=(10,), failures=(), ends=()):
        self.progress = StageProgress(*progress) if progress else None
        self.first_tasks = first_tasks  # of each attempt, from 0 on
        self.failures, self.ends = failures, {end.task: end for end in ends}
        self.asked = 0

    def attempt_of(self, task, task_count):
        attempts = [AttemptTasks(number, first, task_count) for number, first in enumerate(self.first_tasks)]
        return next((attempt for attempt in attempts if task in attempt), None)

    def find(self, asked):
        self.asked += 1
        return StageFound(asked.run, self.progress, self.failures, self.ends.get(asked.task))


# ---------------------------------------------------------------- the way in


def test_all_tasks_of_an_attempt_are_in_one_job_begun_by_the_first():
    driver = Driver()
    driver.come(2)
    assert driver.begun == [1]
    driver.come(0)
    driver.come(1)
    assert driver.has_met(0, 1, 2)
    assert driver.begun == [1]


@pytest.mark.parametrize("index", [3, -1])
def test_a_registration_that_makes_no_sense_is_refused(index):
    driver = Driver()
    driver.come(index)
    assert "no sense" in driver.failure(index)
    assert driver.runs.next_deadline_ms is None, "nothing is kept of it"


def test_who_is_not_known_is_not_heard():
    driver = Driver()
    driver.come(0)
    driver.done("another")
    driver.fail("another", OSError("no port is free"))
    driver.lose("another")
    assert not driver.told
    assert not driver.passed_on


def test_tasks_of_two_jobs_over_one_exchange_do_not_meet():
    driver = Driver(Spark(first_tasks=(10, 13)))
    for index in range(3):
        driver.come(index, 10 + index, f"one {index}", stage=1)
        driver.come(index, 13 + index, f"two {index}", stage=2)
    assert all(driver.has_met(*(f"{which} {index}" for index in range(3))) for which in ("one", "two"))


# ---------------------------------------------------------------- failures


def test_a_failure_is_told_to_all_others_with_its_reason():
    driver = Driver()
    driver.all_come()
    driver.fail(1, ValueError("record 17: field 'delay' is None"))
    reason = "task 1 (process 101 at 127.0.0.1:5001) failed with ValueError: record 17: field 'delay' is None"
    assert driver.failure(0) == driver.failure(2) == reason
    assert driver.passed_on == [(1, "1", "FAILED")], "the job knows which of its tasks failed, and how"
    assert driver.notes == [f"exchange {ID}, stage 7: {reason}"]


def test_a_task_that_goes_without_a_word_is_told_to_all_others():
    driver = Driver()
    driver.all_come()
    driver.lose(2)
    for index in (0, 1):
        assert "task 2 (process 102 at 127.0.0.1:5002) went away without a word" in driver.failure(index)


def test_of_several_failures_the_first_is_told_and_each_is_told_of_one():
    driver = Driver()
    driver.all_come()
    driver.fail(0, OSError("the first"))
    driver.fail(1, OSError("the second"))
    driver.lose(0)
    driver.lose(1)
    assert "the first" in driver.failure(1)
    assert "the first" in driver.failure(2)


def test_a_failure_while_others_wait_for_peers_is_told_to_them_and_to_who_comes_late():
    driver = Driver()
    driver.come(0)
    driver.come(1)
    driver.lose(1)
    driver.come(2)
    assert all("task 1 (process 101" in driver.failure(index) for index in (0, 2))


@pytest.mark.parametrize("way", ["failed", "another attempt", "after a while"])
def test_the_others_are_told_of_a_failure_when_spark_knows_of_its_cause(way):
    driver = Driver(Spark(3, 0))
    driver.come(0)
    driver.come(1)
    driver.fail(0, OSError("the cause"))
    driver.come(2)  # who comes late learns of it no earlier
    driver.wait(1900)
    assert not driver.told
    if way != "after a while":
        driver.spark.progress = StageProgress(2, 0, failed=1) if way == "failed" else StageProgress(3, 0, attempt=1)
        driver.wait(20)
    else:
        driver.wait(100)
    assert all("the cause" in driver.failure(index) for index in (1, 2))


ENDS = {
    "Python worker exited": TaskEnd(11, True, "Python worker exited unexpectedly (crashed)"),
    "Spark wanted no more of its records, as for the limit": TaskEnd(11),
}


@pytest.mark.parametrize("says", ENDS)
def test_spark_says_why_a_task_went_without_a_word(says):
    driver = Driver(Spark(3, 0))
    driver.all_come()
    driver.lose(1)
    driver.wait(500)
    assert not driver.told
    driver.spark.ends = {11: ENDS[says]}
    driver.wait(20)
    assert says in driver.failure(0)
    assert "task 1 (process 101" in driver.failure(0)


def test_of_a_task_that_was_killed_for_what_another_one_did_the_cause_is_told():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    driver.lose(1)
    driver.spark.failures = (TaskEnd(12, True, "KeyError: 7"),)
    driver.wait(20)
    assert driver.failure(0) == driver.failure(2) == "task 2 (process 102 at 127.0.0.1:5002) failed with KeyError: 7"


@pytest.mark.parametrize("count", [2, 3])
def test_what_spark_knows_to_have_failed_ends_the_others_whether_it_ever_came_or_not(count):
    driver = Driver(Spark(3, 0))
    for index in range(count):
        driver.come(index)
    driver.spark.progress = StageProgress(2, 0, failed=1)
    driver.spark.failures = (TaskEnd(12, True, "OSError: no input"),)
    driver.wait(1000)
    who = "task 2 (process 102 at 127.0.0.1:5002)" if count == 3 else "task 12 of Spark, which had not come yet,"
    assert driver.failure(0) == f"{who} failed with OSError: no input"


# ---------------------------------------------------------------- the end, and what was counted


def test_a_run_is_summed_up_when_its_last_task_is_done_before_the_job_hears_of_it():
    driver = Driver()
    driver.all_come()
    driver.now_ms = 1500
    for index in (2, 0, 1):
        assert not driver.summaries
        actions = driver.runs.handle(TaskReported(str(index), finished(records_in=10 * index)), driver.now_ms)
        for action in actions:
            driver._perform(action, [])
        driver.lose(index)
    assert [type(action) for action in actions] == [Finished, PassOn]
    (summary,) = driver.summaries
    assert [counts["records_in"] for counts in summary.metrics] == [0, 10, 20]
    assert (summary.name, summary.stage, summary.seconds) == (f"exchange {ID}", 7, 1.5)
    assert driver.passed_on == [(1, str(index), "FINISHED") for index in (2, 0, 1)]
    assert not driver.told


def test_a_task_that_is_done_may_go_while_others_work_on():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    driver.done(0)
    driver.lose(0)
    driver.wait(5000)
    assert not driver.told
    driver.spark.progress = None
    driver.fail(2, OSError("something"))
    assert "something" in driver.failure(1)


# ---------------------------------------------------------------- attempts


def test_a_stage_that_spark_runs_again_starts_afresh():
    driver = Driver(Spark(3, 0, first_tasks=(10, 13)))
    driver.all_come()
    driver.fail(0, OSError("the first attempt"))
    driver.all_come(13, "again ")
    assert driver.has_met("again 0", "again 1", "again 2")
    for index in range(3):
        driver.done(f"again {index}")
    assert len(driver.summaries) == 1
    assert "the first attempt" in driver.failure(1), "told at the latest now"


@pytest.mark.parametrize("knows", [True, False])
def test_a_new_attempt_ends_the_old_one_that_has_not_noticed(knows):
    driver = Driver(Spark(first_tasks=(10, 20) if knows else ()))
    driver.all_come()
    driver.all_come(20, "again ")
    for index in range(3):
        assert driver.failure(index) == "Spark has started stage 7 again"
    assert len(driver.told) == 3
    assert driver.has_met("again 0", "again 1", "again 2")


def test_an_attempt_that_spark_has_given_up_ends_though_nobody_of_the_next_one_has_come():
    driver = Driver(Spark(3, 0))
    driver.come(0)
    driver.spark.progress = StageProgress(0, 0, attempt=1)
    driver.wait(1000)
    assert driver.failure(0) == "Spark has started stage 7 again"


@pytest.mark.parametrize("knows", [True, False])
def test_a_straggler_of_an_old_attempt_is_sent_away(knows):
    driver = Driver(Spark(first_tasks=(1, 10) if knows else ()))
    driver.come(0)
    driver.come(1)
    driver.come(2, 3, "old")
    assert driver.failure("old") == "Spark has started a later attempt of stage 7 than this task's"
    driver.come(2)
    assert driver.has_met(0, 1, 2)


def test_tasks_of_two_attempts_that_look_like_a_whole_one_are_told_apart():
    """Two of the next attempt with one that came late: their numbers are in a row."""
    driver = Driver(Spark(first_tasks=(10, 13)))
    driver.come(1, 11, "old 1")
    driver.come(0, 13)
    assert driver.failure("old 1") == "Spark has started stage 7 again"
    driver.come(2, 12, "old 2")
    assert "a later attempt of stage 7" in driver.failure("old 2")
    driver.come(1, 14)
    driver.come(2, 15)
    assert driver.has_met(0, 1, 2)


def test_spark_is_asked_once_which_attempt_tasks_are_of():
    attempts = StageAttempts(3)
    assert not attempts.knows(10)
    assert attempts.admit(0, 10, AttemptTasks(0, 10, 3)) is TaskAdmission.NEW
    assert attempts.knows(12)
    assert not attempts.knows(13)
    assert attempts.admit(2, 12, None) is TaskAdmission.SAME


# ---------------------------------------------------------------- who never comes, or ends without a word


def test_who_waits_for_tasks_that_have_ended_is_told_after_three_looks():
    driver = Driver(Spark(2, 1))
    driver.come(0)
    driver.come(1)
    driver.wait(2999)
    assert not driver.told
    driver.wait(1)
    for index in (0, 1):
        assert driver.failure(index).startswith("1 of the 3 tasks ended without taking part, which the others wait for")
        assert "unpersist()" in driver.failure(index)


@pytest.mark.parametrize("progress", [(3, 0), (2, 0), (0, 3), (1, 2)])
def test_tasks_that_have_not_ended_are_waited_for_whatever_an_earlier_attempt_did(progress):
    driver = Driver(Spark(*progress, first_tasks=()))
    driver.come(0)
    driver.come(1)
    driver.wait(60_000)
    assert not driver.told
    driver.come(2)
    assert driver.has_met(0, 1, 2)


def test_who_waits_for_the_records_of_a_task_that_has_ended_is_told():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    driver.done(0)
    for progress in ((2, 1), (0, 2), (0, 3), (2, 0), (3, 0)):  # as it should be, and figures of another attempt
        driver.spark.progress = StageProgress(*progress)
        driver.wait(5000)
        assert not driver.told
    driver.spark.progress = StageProgress(1, 2)
    driver.wait(3000)
    assert driver.failure(2).startswith("1 of the 3 tasks ended without having sent the others all that is theirs")


def test_a_look_that_shows_nothing_begins_the_count_anew():
    driver = Driver(Spark(2, 1))
    driver.come(0)
    driver.come(1)
    for _ in range(10):
        driver.spark.progress = StageProgress(2, 1)
        driver.wait(2000)
        driver.spark.progress = StageProgress(3, 0)
        driver.wait(1000)
    assert not driver.told


def test_a_job_whose_tasks_go_together_is_over_when_it_says_so():
    driver = Driver(Spark(3, 0), ends_by_task=False)
    driver.all_come()
    driver.spark.progress = StageProgress(2, 1)  # Spark has enough of one task's records; it works on for the others
    driver.wait(10_000)
    assert not driver.told
    driver.handle(JobOver(1))
    asked = driver.spark.asked
    for index in range(3):
        driver.lose(index)
    driver.wait(10_000)
    assert not driver.told
    assert driver.spark.asked == asked


# ---------------------------------------------------------------- what is kept


def test_nothing_is_kept_of_exchanges_whose_runs_are_over():
    driver = Driver(Spark(3, 0, first_tasks=range(0, 3000, 3)))
    driver.come(0, 0, "waits", exchange_id="waits")
    for number in range(1, 200):
        driver.all_come(3 * number, f"{number} ", stage=number, exchange_id=f"{number:016x}")
        for index in range(3):
            driver.done(f"{number} {index}")
            driver.lose(f"{number} {index}")
    assert len(driver.summaries) == 199
    driver.wait(stage_runs.RUNS_KEPT_MS)
    assert len(driver.runs._runs) == len(driver.runs._members) == 1
    driver.spark.progress = None
    driver.lose("waits")
    driver.wait(stage_runs.RUNS_KEPT_MS)
    assert not driver.runs._runs
    assert not driver.runs._members
    assert driver.runs.next_deadline_ms is None
    driver.all_come(3, "again ", stage=1, exchange_id=f"{1:016x}")
    assert driver.has_met("again 0", "again 1", "again 2")


def test_spark_is_not_asked_about_runs_in_which_nobody_waits():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    for index in range(3):
        driver.done(index)
    asked = driver.spark.asked
    driver.wait(10_000)
    assert driver.spark.asked == asked


# ---------------------------------------------------------------- whatever happens


class AnyStage(Spark):
    """A stage of three tasks that Spark runs again and again, told what becomes of its tasks."""

    def __init__(self):
        super().__init__(3, 0)
        self.first_tasks = [10]

    def run_again(self):
        self.first_tasks.append(self.first_tasks[-1] + 3)
        self.progress = StageProgress(3, 0, len(self.first_tasks) - 1)


EVENTS = st.tuples(
    st.sampled_from(["come", "come", "come", "come", "done", "fail", "lose", "again", "wait", "wait"]),
    st.integers(0, 2),
    st.integers(0, 1),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=40))
def test_in_whatever_order_things_happen_each_task_is_told_once_and_none_waits_for_ever(events):
    driver, here = Driver(AnyStage()), set()
    for event, index, age in events:
        first = driver.spark.first_tasks[-1 - min(age, len(driver.spark.first_tasks) - 1)]
        task = first + index
        if event == "come" and task not in here:
            here.add(task)
            driver.come(index, task, task)
        elif event == "done" and driver.is_deployed(str(task)):
            driver.done(task)
        elif event == "fail" and task in here:
            driver.fail(task, OSError("something"))
        elif event == "lose" and task in here:
            driver.lose(task)
        elif event == "again" and len(driver.spark.first_tasks) < 5:
            driver.spark.run_again()
        else:
            driver.wait(700)
    driver.spark.progress = dataclasses.replace(driver.spark.progress, failed=1)  # and so Spark gives it up
    driver.wait(5000)
    assert not [run for run in driver.runs._runs.values() if run.is_watched], "nobody waits any more"
    driver.wait(stage_runs.RUNS_KEPT_MS)
    assert not driver.runs._runs


def failed(*reasons, is_raised=True):
    return [TaskEnd(task, True, reason, is_raised) for task, reason in enumerate(reasons)]


IN_PART = (
    "flinkbuf.errors.PeerFailedError: exchange ab: Spark has started 1 of its 2 tasks again, having kept the output of "
    "the others; a pipelined exchange is computed whole or not at all"
)


def third_attempt(*earlier_failures):
    """The first task of an attempt comes before which these have failed."""
    driver = Driver(Spark(3, 0, 2, 0, first_tasks=(10, 20, 30)))
    driver.come(0, 30, earlier_failures=earlier_failures)
    return driver


@pytest.mark.parametrize(
    "earlier_failures",
    [
        (failed("KeyError: 7"), failed("KeyError: 7")),
        (failed("KeyError: 7", "KeyError: 8"), failed("flinkbuf.errors.PeerFailedError: task 0 failed", "KeyError: 7")),
        (failed("KeyError: 7"), failed(IN_PART), failed("KeyError: 7")),
        (failed("OSError: busy"), failed("KeyError: 7"), failed("KeyError: 7"), failed(IN_PART)),
    ],
)
def test_what_has_failed_twice_in_the_same_way_is_not_tried_a_third_time(earlier_failures):
    driver = third_attempt(*earlier_failures)
    ((stage, reason),) = driver.given_up
    assert stage == 7
    assert "a task failed with KeyError: 7, and so did one of the attempt before" in reason
    driver.come(1, 31)
    assert "KeyError: 7" in driver.failure(0) and "KeyError: 7" in driver.failure(1)
    assert len(driver.given_up) == 1


def test_an_attempt_that_spark_tells_late_is_given_up_as_well():
    driver = Driver(Spark(3, 0, 2, 0, first_tasks=()))
    driver.come(0, 30)
    assert driver.given_up == []
    driver.spark.first_tasks = (10, 20, 30)
    driver.come(1, 31, earlier_failures=(failed("KeyError: 7"),) * 2)
    assert len(driver.given_up) == 1
    assert "KeyError: 7" in driver.failure(0) and "KeyError: 7" in driver.failure(1)


@pytest.mark.parametrize(
    "earlier_failures",
    [
        (),
        (failed(), failed()),
        (failed("KeyError: 7"), failed("OSError: busy")),
        (failed("flinkbuf.errors.PeerFailedError: task 2 is gone"),) * 2,
        (failed("KeyError: 7"), failed(IN_PART)),
        (failed("KeyError: 7"), failed("OSError: busy"), failed(IN_PART)),
        (failed("KeyError: 7"), failed(), failed("KeyError: 7")),
        (failed("FetchFailed(the files are gone)", is_raised=False),) * 2,
        (
            failed("OSError: the stream was cut"),
            failed("OSError: the stream was cut") + failed("lost", is_raised=False),
        ),
    ],
)
def test_what_may_go_well_the_next_time_is_left_to_spark(earlier_failures):
    driver = third_attempt(*earlier_failures)
    driver.come(1, 31)
    driver.come(2, 32)
    assert driver.given_up == []
    assert not driver.told
