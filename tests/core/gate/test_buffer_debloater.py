"""Buffer sizes that follow the throughput, through the binding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.gate.buffer_debloater import BufferDebloater
from flinkbuf.config import NetworkConfig

KNOBS = {"target_ms": 1000, "min_size": 256, "max_size": 32768, "threshold_percentages": 25, "samples": 20}


def debloater(**changes):
    return BufferDebloater(**{**KNOBS, **changes})


def test_flinks_defaults_are_accepted():
    config = NetworkConfig()
    knobs = {
        "target_ms": config.buffer_debloat_target_ms,
        "min_size": config.min_segment_size,
        "max_size": config.segment_size,
        "threshold_percentages": config.buffer_debloat_threshold_percentages,
        "samples": config.buffer_debloat_samples,
    }
    assert knobs == KNOBS
    assert BufferDebloater(**knobs).announced_size == config.segment_size


def test_a_consumer_that_gets_slower_gets_smaller_buffers_and_then_larger_ones_again():
    sizes = debloater(samples=1)
    for now_ms in range(0, 1000, 10):  # 100 buffers of 32 KiB in a second, 80 in use
        sizes.receive(32768, now_ms)
    assert sizes.throughput(1000) == 3_276_800
    assert sizes.recalculate(3_276_800, 80) is None  # 40 KiB would do; 32 KiB is the limit
    assert sizes.recalculate(327_680, 80) == 4096
    assert sizes.recalculate(327_680, 80) is None
    assert sizes.announced_size == 4096
    assert sizes.recalculate(3_276_800, 80) == 8192  # at most twice as large at a time


def test_time_in_which_there_was_nothing_is_not_counted():
    sizes = debloater()
    sizes.receive(1000, 0)
    sizes.pause(10)
    sizes.receive(1000, 5010)
    assert sizes.throughput(5020) == 100_000


def test_changes_are_announced_from_the_threshold_on():
    sizes = debloater(samples=1)
    assert sizes.recalculate(16384, 1) == 16384
    assert sizes.is_negligible(16384 + 4095) and not sizes.is_negligible(16384 + 4096)


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1)), max_size=30), st.integers(1, 50))
def test_whatever_the_throughput_the_size_is_within_its_limits(steps, samples):
    sizes = debloater(samples=samples)
    for throughput, buffers in steps:
        before = sizes.announced_size
        size = sizes.recalculate(throughput, buffers)
        assert sizes.announced_size == (before if size is None else size) and 256 <= sizes.announced_size <= 32768


@pytest.mark.parametrize(
    "change", [{"target_ms": 0}, {"samples": 0}, {"threshold_percentages": -1}, {"min_size": 0}, {"max_size": 255}]
)
def test_knobs_that_make_no_sense_are_named(change):
    (name, value) = next(iter(change.items()))
    with pytest.raises(ValueError, match=f"{name}={value}"):
        debloater(**change)


def test_impossible_samples_are_refused():
    with pytest.raises(ValueError):
        debloater().average(-1, 1)
    with pytest.raises(ValueError):
        debloater().average(1, 0)
    with pytest.raises(ValueError, match="throughput must not be below 0"):
        debloater().recalculate(-1, 1)
