"""Groups by key: what comes out of some of them, whatever came in which batch."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.datastream.columns import count, last, sum_
from flinkbuf.streaming.columns import row_store
from flinkbuf.streaming.columns.column_groups import ColumnGroups, GroupPlan, columns_read

AGGREGATES = (("rows", count()), ("total", sum_("n")), ("last", last("n")))
BATCHES = st.lists(
    st.lists(st.tuples(st.text("abc", max_size=3), st.integers(-9, 9)), min_size=1, max_size=9), min_size=1
)


def batch_of(rows):
    keys, numbers = zip(*rows, strict=True)
    return pa.record_batch({"k": list(keys), "n": pa.array(numbers, pa.int64())})


def groups_of(batches):
    first = batch_of(batches[0])
    groups = ColumnGroups(GroupPlan.of(first.select(["k"]), AGGREGATES, columns_read(first, AGGREGATES)))
    for rows in batches:
        batch = batch_of(rows)
        groups.add(batch.select(["k"]), columns_read(batch, AGGREGATES))
    return groups


def model_of(batches):
    found = {}
    for key, number in (row for rows in batches for row in rows):
        rows, total, _ = found.get(key, (0, 0, None))
        found[key] = rows + 1, total + number, number
    return found


@given(BATCHES, st.data())
def test_some_groups_are_those_of_all(batches, data):
    groups, model = groups_of(batches), list(model_of(batches).items())
    slots = np.array(sorted(data.draw(st.sets(st.integers(0, len(model) - 1)))), np.int64)
    keys, results = groups.results(slots)
    found = zip(keys["k"].to_pylist(), *(column.to_pylist() for column in results), strict=True)
    assert list(found) == [(model[slot][0], *model[slot][1]) for slot in slots.tolist()]
    assert groups.keys()["k"].to_pylist() == [key for key, _ in model]


@given(BATCHES, BATCHES)
def test_a_state_is_merged_as_if_its_rows_had_come(one, other):
    groups = groups_of(one)
    groups.merge_state(groups_of(other).state())
    keys, results = groups.results()
    found = zip(keys["k"].to_pylist(), *(column.to_pylist() for column in results), strict=True)
    assert list(found) == [(key, *values) for key, values in model_of(one + other).items()]


def test_keys_are_copied_a_few_times_however_many_batches_bring_them(monkeypatch):
    copied, put_together = [], row_store.one_batch
    monkeypatch.setattr(
        row_store, "one_batch", lambda batches: copied.append(sum(map(len, batches))) or put_together(batches)
    )
    groups = groups_of([[("first", 0)]])
    for start in range(0, 64_000, 64):
        batch = batch_of([(str(n), n) for n in range(start, start + 64)])
        slots = groups.add(batch.select(["k"]), columns_read(batch, AGGREGATES))
        keys, _ = groups.results(np.unique(slots).astype(np.int64))
        assert keys["k"].to_pylist() == batch["k"].to_pylist()
    assert sum(copied) < 64_000 * 20
