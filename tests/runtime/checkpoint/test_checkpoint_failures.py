"""How many checkpoints may fail. Flink: CheckpointFailureManagerTest."""

import pytest

from flinkbuf.checkpoints.failure_reason import CheckpointFailureReason
from flinkbuf.runtime.checkpoint.checkpoint_config import UNLIMITED, CheckpointCoordinatorConfig, RestoredCheckpoint
from flinkbuf.runtime.checkpoint.checkpoint_failures import CheckpointFailures

EXPIRED = CheckpointFailureReason.CHECKPOINT_EXPIRED
COUNTED = {"CHECKPOINT_DECLINED", "CHECKPOINT_ASYNC_EXCEPTION", "CHECKPOINT_EXPIRED", "IO_EXCEPTION"}


def test_only_failures_that_follow_each_other_are_counted():
    failures = CheckpointFailures(2)
    assert [failures.failed(number, EXPIRED) for number in (1, 2)] == [False, False]
    failures.succeeded(3)
    assert [failures.failed(number, EXPIRED) for number in (4, 5, 6)] == [False, False, True]
    assert failures.count == 0, "the job begins again, and so does the count"


def test_one_checkpoint_is_counted_once():
    failures = CheckpointFailures(1)
    assert [failures.failed(1, EXPIRED) for _ in range(5)] == [False] * 5


def test_failures_older_than_the_last_success_are_not_counted():
    failures = CheckpointFailures(0)
    failures.succeeded(5)
    assert not failures.failed(4, EXPIRED)
    assert failures.failed(6, EXPIRED)


def test_a_success_older_than_the_last_clears_nothing():
    failures = CheckpointFailures(1)
    failures.succeeded(5)
    failures.failed(6, EXPIRED)
    failures.succeeded(4)
    assert failures.failed(7, EXPIRED)


@pytest.mark.parametrize("reason", CheckpointFailureReason)
def test_only_what_is_a_checkpoints_own_fault_is_counted(reason):
    assert CheckpointFailures(0).failed(1, reason) is (reason.name in COUNTED)


def test_any_number_may_fail():
    failures = CheckpointFailures(UNLIMITED)
    assert not any(failures.failed(number, EXPIRED) for number in range(100))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"interval_ms": -1}, "interval_ms"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"retained": 0}, "retained"),
        ({"tolerable_failures": -2}, "tolerable_failures"),
        ({"retention": "KEEP"}, "RETAIN_ON_CANCELLATION"),
        ({"is_unaligned": True, "max_concurrent": 2}, "under way together"),
        ({"is_unaligned": True, "is_exactly_once": False}, "exactly once"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        CheckpointCoordinatorConfig(**fields)


def test_a_pause_allows_one_at_a_time_and_a_longer_interval():
    config = CheckpointCoordinatorConfig(interval_ms=100, min_pause_ms=300, max_concurrent=4)
    assert (config.period_ms, config.concurrency) == (300, 1)


def test_a_claim_mode_must_be_known():
    with pytest.raises(ValueError, match="CLAIM, NO_CLAIM"):
        RestoredCheckpoint(None, claim_mode="LEGACY")
