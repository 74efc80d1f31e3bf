"""Records by ranges: what a sample says, and that channels after channels hold greater keys."""

import pickle
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf.records.range_partitioner import KeySample, range_bounds, sample_keys, sample_size

DDL = "name string, delay double"


def bounded(partitioner, source, channel_count, type=DDL):
    return partitioner.with_bounds(range_bounds([sample_keys(source, partitioner, type)], partitioner, channel_count))


def channels_of(source, partitioner, channel_count, type=DDL):
    found = [[] for _ in range(channel_count)]
    for channel, buffer in fb.write_buffers(source, type, channel_count, partitioner, config=SMALL):
        found[channel].append(buffer)
    return [list(fb.read_buffers(buffers, type)) for buffers in found]


SMALL = fb.NetworkConfig(segment_size=4096)


def rows(count, seed=5):
    chance = random.Random(seed)
    return [(f"n{chance.randrange(50)}", chance.choice([None, chance.gauss(0, 9)])) for _ in range(count)]


def in_order(row):
    return (row[1] is not None, row[1] or 0)


@pytest.mark.parametrize("channel_count", [1, 2, 7])
def test_each_channel_has_greater_records_than_the_one_before(channel_count):
    records = rows(3000)
    partitioner = bounded(fb.by_range("delay"), records, channel_count)
    channels = channels_of(records, partitioner, channel_count)
    flat = [row for channel in channels for row in sorted(channel, key=in_order)]
    assert [row[1] for row in flat] == [row[1] for row in sorted(records, key=in_order)]
    assert Counter(flat) == Counter(records)


def test_channels_are_about_as_full_as_each_other():
    numbers = np.random.default_rng(3).normal(size=40_000)
    partitioner = fb.by_range("x")
    sample = sample_keys({"x": numbers}, partitioner, "x double", size=sample_size(partitioner, 8, 1))
    assert len(sample.keys) == 2400
    partitioner = partitioner.with_bounds(range_bounds([sample], partitioner, 8))
    counts = [len(each) for each in channels_of({"x": numbers}, partitioner, 8, "x double")]
    assert sum(counts) == 40_000
    assert max(counts) < 1.25 * 5000 and min(counts) > 0.75 * 5000


@pytest.mark.parametrize(
    "order", [{}, {"ascending": False}, {"ascending": [False, True], "nulls_first": [True, False]}]
)
def test_batches_go_where_their_records_go(order):
    records = rows(2000)
    partitioner = bounded(fb.by_range("delay", "name", **order), records, 5)
    batch = pa.record_batch({"name": [row[0] for row in records], "delay": [row[1] for row in records]})
    assert channels_of(batch, partitioner, 5) == channels_of(records, partitioner, 5)
    assert bounded(fb.by_range("delay", "name", **order), batch, 5).bounds == partitioner.bounds


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_record_writer_takes_ranges(is_batch):
    partitioner = bounded(fb.by_range("n"), {"n": np.arange(100)}, 4, "n bigint")
    partition = fb.ResultPartition(fb.NetworkBufferPool(32), 4)
    with fb.RecordWriter(partition, "n bigint", partitioner) as writer:
        if is_batch:
            writer.emit_batch({"n": np.arange(100)})
        else:
            writer.emit_all([(n,) for n in range(100)])
    found = [[row.n for row in fb.RecordReader(fb.InputGate([(partition, i)]), "n bigint")] for i in range(4)]
    assert found == [list(range(25)), list(range(25, 50)), list(range(50, 75)), list(range(75, 100))]


def test_the_whole_record_and_functions_are_keys():
    numbers = list(range(100))
    partitioner = bounded(fb.by_range("*", ascending=False), numbers, 2, "bigint")
    assert channels_of(numbers, partitioner, 2, "bigint") == [list(range(50, 100)), list(range(50))]
    partitioner = bounded(fb.by_range(lambda n: -n, key_type="int"), numbers, 2, "bigint")
    assert channels_of(numbers, partitioner, 2, "bigint") == [list(range(50, 100)), list(range(50))]
    with pytest.raises(TypeError, match="cannot be asked for rows of a batch"):
        channels_of({"value": np.arange(3)}, partitioner, 2, "bigint")


def test_a_sample_is_the_same_for_a_seed_and_another_for_another():
    records = rows(5000)
    samples = [sample_keys(records, fb.by_range("delay", seed=seed), DDL, size=50) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert samples[0].count == 5000 and len(samples[0].keys) == 50
    assert sample_keys(records, fb.by_range("delay", seed=1), DDL, size=50, producer_index=1) != samples[0]


@given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 5))
def test_a_sample_has_each_record_as_likely_and_none_twice(size, count, seed):
    partitioner = fb.by_range("*", seed=seed)
    sample = sample_keys(range(count), partitioner, "bigint", size=size)
    assert sample.count == count
    assert len(set(sample.keys)) == len(sample.keys) == min(size, count)
    assert sample == sample_keys({"value": np.arange(count)}, partitioner, "bigint", size=size)


def test_every_place_of_the_stream_is_as_likely_to_be_in_the_sample():
    seen = np.zeros(100)
    for seed in range(600):
        for key in sample_keys(range(100), fb.by_range("*", seed=seed), "tinyint", size=10).keys:
            seen[key[-1]] += 1  # 1, then eight bytes
    assert seen.sum() == 6000
    assert seen.min() > 25 and seen.max() < 105  # 60 expected, within six deviations


def test_producers_count_by_how_many_records_they_have():
    large, small = KeySample(900, (b"\1a", b"\1b", b"\1c")), KeySample(100, (b"\1x", b"\1y", b"\1z"))
    assert range_bounds([large, small], fb.by_range("*"), 2) == (b"\1b",)
    assert range_bounds([small, large], fb.by_range("*"), 3) == (b"\1b", b"\1c")


def test_bounds_are_fewer_where_few_keys_differ():
    assert range_bounds([KeySample(90, (b"\1a",) * 9)], fb.by_range("*"), 4) == (b"\1a",)
    assert range_bounds([], fb.by_range("*"), 4) == ()
    assert range_bounds([KeySample(0, ())], fb.by_range("*"), 4) == ()


def test_batches_of_key_columns_are_a_sample():
    batches = [pa.record_batch({"delay": np.arange(0.0, 50.0)}), pa.record_batch({"delay": np.arange(50.0, 100.0)})]
    partitioner = fb.by_range("delay")
    assert range_bounds(batches, partitioner, 2) == range_bounds(
        [sample_keys({"delay": np.arange(100.0)}, partitioner, "delay double")], partitioner, 2
    )


def test_it_can_be_pickled_and_says_when_bounds_are_missing():
    partitioner = fb.by_range("delay")
    assert pickle.loads(pickle.dumps(partitioner)) == partitioner
    assert partitioner.needs_bounds and not partitioner.with_bounds(()).needs_bounds
    with pytest.raises(ValueError, match="no bounds between the channels yet"):
        fb.write_buffers([], DDL, 2, partitioner)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((), {}, "needs a column"),
        ((-1,), {}, "counts from 0"),
        (("a",), {"ascending": [True, False]}, "ascending must be a bool, or 1 of them"),
        (("a", "b"), {"nulls_first": [True]}, "nulls_first must be a bool, or 2 of them"),
        (("a",), {"samples_per_channel": 0}, "at least 1"),
    ],
)
def test_arguments_are_checked(arguments, options, error):
    with pytest.raises(ValueError, match=error):
        fb.by_range(*arguments, **options)
    with pytest.raises(TypeError, match="a column is a field's name or index"):
        fb.by_range(1.5)


@pytest.mark.parametrize(
    ("column", "type", "error"),
    [
        ("speed", DDL, "no field 'speed': the fields are name, delay"),
        (2, DDL, "no field 2: there are 2 fields"),
        ("n", "bigint", "have no field 'n'"),
        ("m", "m map<string, int>", "have no order"),
        (len, "string", "key_type"),
    ],
)
def test_columns_are_looked_for_when_the_type_is_known(column, type, error):
    with pytest.raises(ValueError, match=error):
        sample_keys([], fb.by_range(column), type)
