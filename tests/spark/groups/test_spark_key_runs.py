"""Batches cut into groups: compared with `itertools.groupby` over Python's values, whatever is read of a group."""

import datetime
import itertools
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.spark.groups.key_runs import KeyRuns, unequal

NAN = math.nan
UTC = datetime.timezone.utc

# By type, values whose equal ones are one key.
VALUES = {
    pa.int64(): [None, 0, 1, -1, 2**62],
    pa.bool_(): [None, True, False],
    pa.float64(): [None, 0.0, -0.0, NAN, -NAN, 1.5],
    pa.float32(): [None, 0.0, -0.0, NAN, 1.5],
    pa.string(): [None, "", "a", "ab", "é"],
    pa.large_string(): [None, "", "a"],
    pa.binary(): [None, b"", b"\0", b"\0\0"],
    pa.decimal128(20, 2): [None, Decimal("0.00"), Decimal("-1.10"), Decimal("1.10")],
    pa.date32(): [None, datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)],
    pa.timestamp("us", "UTC"): [
        None,
        datetime.datetime(1960, 1, 1, tzinfo=UTC),
        datetime.datetime(2024, 1, 1, tzinfo=UTC),
    ],
    pa.timestamp("us"): [None, datetime.datetime(1960, 1, 1), datetime.datetime(2024, 1, 1)],
    pa.time64("ns"): [None, datetime.time(0), datetime.time(23, 59)],
    pa.duration("us"): [None, datetime.timedelta(0), datetime.timedelta(microseconds=-1)],
    pa.null(): [None],
    pa.struct([("a", pa.float64()), ("b", pa.string())]): [
        None,
        {"a": None, "b": None},
        {"a": 0.0, "b": "x"},
        {"a": -0.0, "b": "x"},
        {"a": NAN, "b": None},
        {"a": None, "b": "x"},
    ],
    pa.list_(pa.float64()): [None, [], [None], [0.0], [-0.0], [NAN], [0.0, 1.5], [0.0, None], [1.5, 0.0]],
    pa.list_(pa.list_(pa.string())): [None, [], [[]], [None], [["a"]], [["a"], ["b"]], [["a", "b"]]],
    pa.large_list(pa.int32()): [None, [], [1], [1, 2], [2, 1]],
    pa.struct([("in", pa.struct([("a", pa.list_(pa.float32()))]))]): [
        None,
        {"in": None},
        {"in": {"a": None}},
        {"in": {"a": [0.0]}},
        {"in": {"a": [-0.0]}},
    ],
    pa.struct([]): [None, {}],
}


def same(value):
    """Return what is equal for values that Spark groups together."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(map(same, value.values()))
    return tuple(map(same, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_each_pair_of_values_is_equal_or_not(kind):
    pairs = list(itertools.product(VALUES[kind], repeat=2))
    # Slices of larger arrays, as a task has them.
    arrays = [
        pa.array([VALUES[kind][-1], *values, None], kind).slice(1, len(pairs)) for values in zip(*pairs, strict=True)
    ]
    assert unequal(*arrays).tolist() == [same(left) != same(right) for left, right in pairs]


def runs_of(batches, *places):
    names = [f"k{place}" for place in places]
    return KeyRuns(batches, places, names)


@st.composite
def sorted_rows(draw):
    """Keys of two columns, equal ones side by side, and where they are cut into batches."""
    kinds = draw(st.tuples(*[st.sampled_from([kind for kind in VALUES if VALUES[kind][1:]])] * 2))
    keys = draw(st.lists(st.tuples(*[st.sampled_from(VALUES[kind]) for kind in kinds]), max_size=30))
    keys.sort(key=lambda key: repr(same(list(key))))
    cuts = sorted(draw(st.lists(st.integers(0, len(keys)), max_size=5)))
    return kinds, keys, [0, *cuts, len(keys)]


@given(sorted_rows(), st.lists(st.integers(0, 3), max_size=30))
def test_groups_are_those_of_python_however_much_is_read_of_each(given_rows, reads):
    kinds, keys, bounds = given_rows
    columns = [pa.array([key[place] for key in keys], kind) for place, kind in enumerate(kinds)]
    whole = pa.RecordBatch.from_arrays([*columns, pa.array(range(len(keys)), pa.int64())], ["k0", "k1", "n"])
    batches = [whole.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
    found = []
    for group, count in itertools.zip_longest(runs_of(batches, 0, 1).groups(), reads, fillvalue=10):
        if group == 10:
            break
        rows = [batch["n"].to_pylist() for batch in itertools.islice(group, count)]
        assert all(rows)  # no batch is empty
        key = same([value.as_py() for value in group.key])
        found.append((key, list(itertools.chain(*rows)), count < 10))
    wanted = [
        (key, [row for row, _ in rows])
        for key, rows in itertools.groupby(enumerate(keys), key=lambda pair: same(list(pair[1])))
    ]
    assert [key for key, _, _ in found] == [key for key, _ in wanted]
    for (_, rows, is_part), (_, all_rows) in zip(found, wanted, strict=True):
        assert rows == (all_rows[: len(rows)] if is_part else all_rows)


def batches_of(*lists):
    return [pa.record_batch({"k": keys, "n": range(len(keys))}) for keys in lists]


def test_a_group_is_a_slice_and_shares_memory():
    (batch,) = batches_of([1, 1, 2, 2, 2])
    first, second = [next(iter(group)) for group in runs_of([batch], 0).groups()]
    assert second["n"].buffers()[1].address == first["n"].buffers()[1].address == batch["n"].buffers()[1].address
    (whole,) = [next(iter(group)) for group in runs_of(batches_of([1, 1]), 0).groups()]
    assert whole.num_rows == 2


def test_no_batch_is_read_before_it_is_asked_for():
    taken = []

    def read():
        for batch in batches_of([1], [1], [1, 2], [2]):
            taken.append(batch)
            yield batch

    runs = runs_of(read(), 0)
    groups = runs.groups()
    one = next(groups)
    assert (len(taken), next(one).num_rows, len(taken)) == (1, 1, 1)
    assert (next(one).num_rows, len(taken), runs.batch_count) == (1, 2, 2)
    assert [batch.num_rows for batch in one] == [1]
    assert [batch.num_rows for batch in next(groups)] == [1, 1]
    assert next(groups, None) is None


def test_batches_of_a_group_whose_turn_is_over_are_refused():
    early, read, late = runs_of(batches_of([1, 2, 3]), 0).groups()
    with pytest.raises(RuntimeError, match=r"the batches of the group k0=1 can be read while its turn lasts"):
        next(early)
    groups = runs_of(batches_of([1, 1], [1, 2]), 0).groups()
    read = next(groups)
    assert len(list(read)) == 2
    next(groups)
    assert list(read) == []  # it has been read to its end, and stays there
    with pytest.raises(RuntimeError, match="k0=3"):
        list(late)
