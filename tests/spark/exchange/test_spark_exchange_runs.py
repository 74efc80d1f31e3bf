"""What is decided about the runs of an exchange: a script of what is heard of, and what each task is told of it."""

import dataclasses
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.spark.exchange import exchange_runs
from flinkbuf.spark.exchange.exchange_runs import (
    ExchangeRuns,
    FindStage,
    GiveUp,
    Note,
    PeerGone,
    PeerSaid,
    StageFound,
    Tell,
)
from flinkbuf.spark.exchange.messages import ExchangeFailed, Goodbye, Peer, Peers, Register, TaskDone, TaskFailed
from flinkbuf.spark.exchange.summary import TaskFigures
from flinkbuf.spark.stage.stage_attempts import StageAttempts, TaskAdmission
from flinkbuf.spark.stage.stage_progress import AttemptTasks, StageProgress, TaskEnd

ID = "00000000000000ab"


def peer(index, port=None):
    return Peer(index, "127.0.0.1", 5000 + index if port is None else port, f"{index:02x}" * 60, 100 + index)


class Driver:
    """The decider, for exchanges of three tasks; what it wants to know is answered by `spark`."""

    def __init__(self, spark=None, task_count=3):
        self.runs, self.now_ms, self.task_count = ExchangeRuns(), 0, task_count
        self.spark = spark or Spark()
        self.told = defaultdict(list)  # by connection
        self.notes, self.summaries, self.given_up = [], [], []

    def handle(self, stimulus=None):
        waiting = [stimulus]
        while waiting:
            for action in self.runs.handle(waiting.pop(0), self.now_ms):
                if isinstance(action, Tell):
                    for connection in action.connections:
                        self.told[connection].append(action.message)
                elif isinstance(action, FindStage):
                    waiting.append(self.spark.find(action))
                elif isinstance(action, GiveUp):
                    self.given_up.append((action.stage, action.reason))
                elif isinstance(action, Note):
                    self.notes.append(action.text)
                    self.summaries += [action.summary] if action.summary else []

    def come(self, index, task=None, connection=None, stage=7, exchange_id=ID, changes=None, earlier_failures=()):
        """A task registers; its connection has its index for a name, unless another one is given."""
        task = 10 + index if task is None else task
        connection = index if connection is None else connection
        message = Register(dataclasses.replace(peer(index), **changes or {}), stage, task)
        is_known = self.runs.knows_attempt_of(exchange_id, message)
        attempt = None if is_known else self.spark.attempt_of(task, self.task_count)
        self.handle(PeerSaid(connection, exchange_id, self.task_count, message, attempt, earlier_failures))

    def all_come(self, first_task=10, prefix="", **where):
        for index in range(self.task_count):
            self.come(index, first_task + index, f"{prefix}{index}" if prefix else index, **where)

    def say(self, connection, message):
        self.handle(PeerSaid(connection, ID, self.task_count, message))

    def lose(self, connection):
        self.handle(PeerGone(connection, "it went away without a word"))

    def wait(self, ms):
        """Let time pass, as a clock would that rings when it is asked to."""
        until = self.now_ms + ms
        while (due := self.runs.next_deadline_ms) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            self.handle()
        self.now_ms = until

    def failure(self, connection):
        (told,) = [message.reason for message in self.told[connection] if isinstance(message, ExchangeFailed)]
        return told

    def has_peers(self, connection):
        return [message for message in self.told[connection] if isinstance(message, Peers)] == [
            Peers(tuple(map(peer, range(self.task_count))))
        ]


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
        return StageFound(asked.exchange_id, asked.stage, self.progress, self.failures, self.ends.get(asked.task))


# ---------------------------------------------------------------- the way in


def test_all_tasks_learn_where_all_listen_when_the_last_is_there():
    driver = Driver()
    driver.come(2)
    driver.come(0)
    assert not driver.told
    driver.come(1)
    assert all(driver.has_peers(index) for index in range(3))


WRONG = [{"index": 3}, {"index": -1}, {"port": 0}, {"port": 65536}, {"partition_id": "zz" * 60}, {"host": "h" * 300}]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_registration_that_makes_no_sense_is_refused(wrong):
    driver = Driver()
    driver.come(0, changes=wrong)
    assert "no sense" in driver.failure(0)
    assert driver.runs.next_deadline_ms is None, "nothing is kept of it"


def test_who_says_something_else_first_is_refused():
    driver = Driver()
    driver.say(0, TaskDone(TaskFigures(0)))
    assert "no sense" in driver.failure(0)


def test_a_task_that_fails_before_it_registers_is_none_of_the_run():
    driver = Driver()
    driver.come(0)
    driver.say("another", TaskFailed("OSError: no port is free"))
    driver.lose("another")
    assert not driver.told


def test_tasks_of_two_jobs_over_one_exchange_do_not_meet():
    driver = Driver(Spark(first_tasks=(10, 13)))
    for index in range(3):
        driver.come(index, 10 + index, f"one {index}", stage=1)
        driver.come(index, 13 + index, f"two {index}", stage=2)
    assert all(driver.has_peers(f"{which} {index}") for which in ("one", "two") for index in range(3))


# ---------------------------------------------------------------- failures


def test_a_failure_is_told_to_all_others_with_its_reason():
    driver = Driver()
    driver.all_come()
    driver.say(1, TaskFailed("ValueError: record 17: field 'delay' is None"))
    reason = "task 1 (process 101 at 127.0.0.1:5001) failed with ValueError: record 17: field 'delay' is None"
    assert driver.failure(0) == driver.failure(2) == reason
    assert not [message for message in driver.told[1] if isinstance(message, ExchangeFailed)]
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
    driver.say(0, TaskFailed("OSError: the first"))
    driver.say(1, TaskFailed("the second"))
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
    driver.say(0, TaskFailed("the cause"))
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
    assert not any(isinstance(message, ExchangeFailed) for message in driver.told[0])
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


def test_a_run_is_summed_up_when_its_last_task_is_done_and_each_is_answered_after_that():
    driver = Driver()
    driver.all_come()
    driver.now_ms = 1500
    for index in range(3):
        assert not driver.summaries
        driver.say(index, TaskDone(TaskFigures(9, records_in=10 * index, buffers_in=1)))
        assert driver.told[index][-1] == Goodbye()
        driver.lose(index)
    (summary,) = driver.summaries
    assert [(one.index, one.records_in) for one in summary.tasks] == [(0, 0), (1, 10), (2, 20)]
    assert (summary.exchange_id, summary.stage, summary.seconds) == (ID, 7, 1.5)
    assert driver.notes == [str(summary)]


def test_the_counts_are_kept_before_the_last_task_is_told_to_go():
    driver = Driver(task_count=1)
    driver.come(0)
    actions = driver.runs.handle(PeerSaid(0, ID, 1, TaskDone(TaskFigures(0))), 0)
    assert [type(action) for action in actions] == [Note, Tell]


def test_a_task_that_is_done_may_go_while_others_work_on():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    driver.say(0, TaskDone(TaskFigures(0)))
    driver.lose(0)
    driver.wait(5000)
    assert len(driver.told[1]) == 1
    driver.spark.progress = None
    driver.say(2, TaskFailed("something"))
    assert "something" in driver.failure(1)


# ---------------------------------------------------------------- attempts


def test_a_stage_that_spark_runs_again_starts_afresh():
    driver = Driver(Spark(3, 0, first_tasks=(10, 13)))
    driver.all_come()
    driver.say(0, TaskFailed("the first attempt"))
    driver.all_come(13, "again ")
    for index in range(3):
        assert driver.has_peers(f"again {index}")
        driver.say(f"again {index}", TaskDone(TaskFigures(0)))
    assert len(driver.summaries) == 1
    assert "the first attempt" in driver.failure(1), "told at the latest now"


@pytest.mark.parametrize("knows", [True, False])
def test_a_new_attempt_ends_the_old_one_that_has_not_noticed(knows):
    driver = Driver(Spark(first_tasks=(10, 20) if knows else ()))
    driver.all_come()
    driver.all_come(20, "again ")
    for index in range(3):
        assert driver.failure(index) == "Spark has started stage 7 again"
        assert len(driver.told[f"again {index}"]) == 1
        assert driver.has_peers(f"again {index}")


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
    assert all(driver.has_peers(index) for index in range(3))


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
    assert all(driver.has_peers(index) for index in range(3))


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
    assert all(driver.has_peers(index) for index in range(3))


def test_who_waits_for_the_records_of_a_task_that_has_ended_is_told():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    driver.say(0, TaskDone(TaskFigures(0)))
    for progress in ((2, 1), (0, 2), (0, 3), (2, 0), (3, 0)):  # as it should be, and figures of another attempt
        driver.spark.progress = StageProgress(*progress)
        driver.wait(5000)
        assert len(driver.told[2]) == 1
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


# ---------------------------------------------------------------- what is kept


def test_nothing_is_kept_of_exchanges_whose_runs_are_over():
    driver = Driver(Spark(3, 0, first_tasks=range(0, 3000, 3)))
    driver.come(0, 0, "waits", exchange_id="waits")
    for number in range(1, 200):
        driver.all_come(3 * number, f"{number} ", stage=number, exchange_id=f"{number:016x}")
        for index in range(3):
            driver.say(f"{number} {index}", TaskDone(TaskFigures(0)))
            driver.lose(f"{number} {index}")
    assert len(driver.summaries) == 199
    driver.wait(exchange_runs.RUNS_KEPT_MS)
    assert len(driver.runs._runs) == len(driver.runs._members) == 1
    driver.spark.progress = None
    driver.lose("waits")
    driver.wait(exchange_runs.RUNS_KEPT_MS)
    assert not driver.runs._runs
    assert not driver.runs._members
    assert driver.runs.next_deadline_ms is None
    driver.all_come(3, "again ", stage=1, exchange_id=f"{1:016x}")
    assert driver.has_peers("again 0")


def test_spark_is_not_asked_about_runs_in_which_nobody_waits():
    driver = Driver(Spark(3, 0))
    driver.all_come()
    for index in range(3):
        driver.say(index, TaskDone(TaskFigures(0)))
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
def test_in_whatever_order_things_happen_each_task_hears_one_answer_and_none_waits_for_ever(events):
    driver, here = Driver(AnyStage()), set()
    for event, index, age in events:
        first = driver.spark.first_tasks[-1 - min(age, len(driver.spark.first_tasks) - 1)]
        task = first + index
        if event == "come" and task not in driver.told and task not in here:
            here.add(task)
            driver.come(index, task, task)
        elif event == "done" and isinstance((driver.told.get(task) or [None])[-1], Peers):
            driver.say(task, TaskDone(TaskFigures(0)))
        elif event == "fail" and task in here:
            driver.say(task, TaskFailed("something"))
        elif event == "lose" and task in here:
            driver.lose(task)
        elif event == "again" and len(driver.spark.first_tasks) < 5:
            driver.spark.run_again()
        else:
            driver.wait(700)
    driver.spark.progress = dataclasses.replace(driver.spark.progress, failed=1)  # and so Spark gives it up
    driver.wait(5000)
    for messages in driver.told.values():
        kinds = [type(message) for message in messages if not isinstance(message, Goodbye)]
        assert kinds in ([Peers], [ExchangeFailed], [Peers, ExchangeFailed]), "a failure is the last that is heard"
    assert not [run for run in driver.runs._runs.values() if run.is_watched], "nobody waits any more"
    driver.wait(exchange_runs.RUNS_KEPT_MS)
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
    assert driver.has_peers(0)
