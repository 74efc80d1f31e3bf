"""Which of several failures is the cause, what it took down, and how many are remembered."""

from random import Random

import pytest
from support.worlds.master_world import echo, error

from flinkbuf.runtime.master.failure_history import (
    AFTER_CANCEL,
    CAUSE,
    ECHO,
    HISTORY_SIZE,
    LOSS,
    FailureEntry,
    FailureHistory,
)
from flinkbuf.runtime.master.restart_strategy import NoRestart


def history(*entries):
    found = FailureHistory(NoRestart().create(Random(1)))
    for place, entry in enumerate(entries):
        if place:
            found.add(entry)
        else:
            found.restart_delay_ms(entry)
    return found


def entry(text, weight=CAUSE, **fields):
    return FailureEntry(error(text, **fields), 5, weight=weight)


@pytest.mark.parametrize(
    ("weights", "cause"),
    [
        ((CAUSE, CAUSE), 0),  # the first of equals
        ((LOSS, CAUSE), 1),
        ((AFTER_CANCEL, LOSS), 1),
        ((ECHO, AFTER_CANCEL), 1),
        ((LOSS, AFTER_CANCEL, CAUSE), 2),
    ],
)
def test_the_failure_that_says_most_is_the_cause_and_the_others_came_with_it(weights, cause):
    found = history(*(entry(str(place), weight) for place, weight in enumerate(weights)))
    (outage,) = found.outages
    assert outage.root.failure.message == found.cause.message == str(cause)
    assert sorted(each.failure.message for each in outage.concurrent) == sorted(
        str(place) for place in range(len(weights)) if place != cause
    )


def test_an_echo_weighs_least_whatever_was_said_of_it():
    found = history(FailureEntry(echo("gone"), 5), entry("boom", AFTER_CANCEL))
    assert found.cause.message == "boom"
    assert found.outages[0].concurrent[0].weight == ECHO


def test_what_ended_the_job_stays_the_cause():
    found = history(entry("final", LOSS, can_restart=False), entry("later"))
    assert found.cause.message == "final"
    found = history(entry("final", LOSS, can_restart=False), entry("final, too", can_restart=False))
    assert found.cause.message == "final, too"


def test_of_several_answers_the_widest_says_what_was_taken_down():
    found = history(entry("boom"))
    for count, names in ((2, "ab"), (3, "abc"), (1, "x"), (3, "xyz")):
        found.took_down(count, names)
    assert (found.outages[0].taken_down_count, found.outages[0].taken_down) == (3, ("a", "b", "c"))
    found.took_down(100, map(str, range(100)))
    assert found.outages[0].taken_down_count == 100 and len(found.outages[0].taken_down) == HISTORY_SIZE


def test_before_anything_failed_nothing_was_taken_down():
    found = FailureHistory(NoRestart().create(Random(1)))
    found.took_down(3, "abc")
    assert found.outages == [] and found.cause is None


def test_the_newest_are_remembered():
    found = FailureHistory(NoRestart().create(Random(1)))
    for number in range(HISTORY_SIZE + 3):
        assert found.restart_delay_ms(entry(str(number), can_restart=False)) is None
    assert [each.root.failure.message for each in found.outages] == [str(n) for n in range(3, HISTORY_SIZE + 3)]
    for number in range(HISTORY_SIZE + 3):
        found.add(entry(f"with {number}"))
    assert len(found.outages[-1].concurrent) == HISTORY_SIZE


def test_a_better_explanation_takes_the_place_of_the_cause_only():
    found = history(entry("it is gone", LOSS), entry("later", ECHO))
    found.explain(error("it was killed"))
    assert found.cause.message == "it was killed"
    assert [each.failure.message for each in found.outages[0].concurrent] == ["later"]
