"""Whether and when a job goes on. Behaviours of Flink's tests of its four strategies."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.runtime.master.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
)


class Draws:
    """Chance that is told what comes."""

    def __init__(self, *shares):
        self.shares = list(shares)

    def uniform(self, low, high):
        return low + (high - low) * self.shares.pop(0)


def play(config, failures, chance=None):
    """(is new, can restart, backoff) for failures at these times."""
    strategy, out = config.create(chance or Random(1)), []
    for now_ms in failures:
        is_new = strategy.notify_failure(now_ms)
        out.append((is_new, strategy.can_restart(), strategy.backoff_ms(now_ms)))
    return out


def test_none():
    assert play(NoRestart(), [0, 5]) == [(True, False, 0)] * 2


def test_fixed_delay():
    assert play(FixedDelayRestart(2, 700), [0, 1, 2]) == [(True, True, 700), (True, True, 700), (True, False, 700)]
    assert play(FixedDelayRestart(), [0, 1]) == [(True, True, 1000), (True, False, 1000)]
    assert play(FixedDelayRestart(0), [0])[0][1] is False


def test_failure_rate():
    """Flink: testManyFailuresWithinRate, testFailuresExceedingRate; the interval itself counts."""
    config = FailureRateRestart(max_failures=2, failure_interval_ms=100, delay_ms=7)
    assert [can for _, can, _ in play(config, [0, 60, 101, 162])] == [True] * 4
    assert [can for _, can, _ in play(config, [0, 60, 100])] == [True, True, False]
    assert [can for _, can, _ in play(config, [0, 10, 20, 300])] == [True, True, False, True]
    assert play(config, [0])[0][2] == 7


EXPONENTIAL = ExponentialDelayRestart(
    initial_backoff_ms=100,
    max_backoff_ms=1000,
    backoff_multiplier=2.0,
    reset_backoff_threshold_ms=5000,
    jitter_factor=0,
)


def after_each(config, gap_ms, count, chance=None):
    """Backoffs of failures that each come so long after the restart for the one before."""
    strategy, now_ms, delays = config.create(chance or Random(1)), 0, []
    for _ in range(count):
        assert strategy.notify_failure(now_ms)
        delays.append(strategy.backoff_ms(now_ms))
        now_ms += delays[-1] + gap_ms
    return delays


def test_exponential_delay_grows_to_its_maximum():
    assert after_each(EXPONENTIAL, 1, 6) == [100, 200, 400, 800, 1000, 1000]


def test_exponential_delay_begins_anew_after_a_good_time():
    assert after_each(EXPONENTIAL, 5000, 3) == [100, 100, 100]
    assert after_each(EXPONENTIAL, 4999, 3) == [100, 200, 400]


def test_failures_within_the_backoff_are_one():
    """Flink: testMergeMultipleExceptionsIntoOneAttempt."""
    strategy = EXPONENTIAL.create(Random(1))
    assert strategy.notify_failure(0)
    assert [strategy.notify_failure(now_ms) for now_ms in (0, 40, 100)] == [False] * 3
    assert [strategy.backoff_ms(now_ms) for now_ms in (40, 100, 120)] == [60, 0, 0]
    assert strategy.notify_failure(101)
    assert strategy.backoff_ms(101) == 200


def test_attempts_in_a_row_are_limited():
    """Flink: testMaxAttempts, testResetBackoff; merged ones do not count."""
    config = ExponentialDelayRestart(100, 1000, 2.0, 5000, 0.0, attempts_before_reset=2)
    assert [can for _, can, _ in play(config, [0, 50, 101, 150, 302])] == [True, True, True, True, False]
    assert [can for _, can, _ in play(config, [0, 101, 301 + 5000, 301 + 5101])] == [True] * 4


def test_jitter_stays_within_initial_and_maximum():
    config = ExponentialDelayRestart(100, 1000, 2.0, 5000, jitter_factor=0.5)
    # The first is never shorter than the initial one, the last never longer than the maximum: chance acts before that.
    assert after_each(config, 1, 4, Draws(0.0, 0.0, 1.0, 0.5)) == [100, 100, 600, 800]
    assert after_each(config, 1, 1, Draws(1.0)) == [150]
    assert after_each(config, 1, 5, Draws(0.5, 0.5, 0.5, 1.0, 0.0)) == [100, 200, 400, 1000, 800]


@given(
    st.integers(1, 500),
    st.integers(0, 5000),
    st.floats(1.01, 4),
    st.floats(0, 1),
    st.lists(st.integers(0, 3000), max_size=30),
    st.integers(0, 2**32),
)
def test_every_delay_lies_between_initial_and_maximum(initial_ms, more_ms, multiplier, jitter, gaps, seed):
    config = ExponentialDelayRestart(initial_ms, initial_ms + more_ms, multiplier, 10_000, jitter)
    strategy, now_ms, restart_ms = config.create(Random(seed)), 0, -1
    for gap_ms in gaps:
        now_ms += gap_ms
        is_new = strategy.notify_failure(now_ms)
        assert is_new == (restart_ms < now_ms)
        if is_new:
            restart_ms = now_ms + strategy.backoff_ms(now_ms)
            assert initial_ms <= restart_ms - now_ms <= initial_ms + more_ms
        assert now_ms + strategy.backoff_ms(now_ms) == max(now_ms, restart_ms)


def test_a_thousand_failures_do_not_overflow():
    config = ExponentialDelayRestart(1, 10, 1e200, 10**9, 1.0)
    assert max(after_each(config, 1, 1000)) == 10


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: FixedDelayRestart(-1), "attempts must be at least 0, got -1"),
        (lambda: FailureRateRestart(0), "max_failures must be at least 1, got 0"),
        (lambda: FailureRateRestart(1, 0), "failure_interval_ms must be at least 1"),
        (lambda: ExponentialDelayRestart(backoff_multiplier=1.0), "backoff_multiplier must be more than 1, got 1.0"),
        (lambda: ExponentialDelayRestart(max_backoff_ms=999), r"at least initial_backoff_ms \(1000\), got 999"),
        (lambda: ExponentialDelayRestart(jitter_factor=1.1), "jitter_factor must be from 0 to 1, got 1.1"),
        (lambda: ExponentialDelayRestart(attempts_before_reset=0), "attempts_before_reset must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
