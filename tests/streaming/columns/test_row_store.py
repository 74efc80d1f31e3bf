"""Rows that are kept as columns are found under their numbers, whatever else was let go."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.streaming.columns import row_store
from flinkbuf.streaming.columns.row_store import RowStore

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def batch_of(numbers):
    return pa.record_batch(
        [pa.array(numbers, pa.int64()), pa.array([None if n % 3 == 0 else str(n) for n in numbers], pa.string())],
        schema=SCHEMA,
    )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 20) | st.floats(0, 1) | st.sampled_from(["keep", "all"]), max_size=30),
    st.randoms(),
    st.sampled_from([8, 64, 1 << 17]),
)
def test_rows_are_those_that_came(steps, random, chunk_rows):
    """A whole number adds so many rows; a part of one lets such a part of the rows go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_store, "CHUNK_ROWS", chunk_rows)
        store, live, count = RowStore(SCHEMA), [], 0
        for step in steps:
            if isinstance(step, int):
                numbers = list(range(count, count + step))
                assert store.append(batch_of(numbers)) == count
                live += numbers
                count += step
            elif step == "keep":
                live = sorted(random.sample(live, random.randint(0, len(live))))
                store.keep(np.array(random.sample(live, len(live)), np.int64))
            elif step == "all":
                assert store.all().equals(batch_of(live))
            else:
                gone = random.sample(live, int(step * len(live)))
                store.release(np.array(gone, np.int64))
                live = [number for number in live if number not in set(gone)]
            assert len(store) == len(live)
            wanted = random.choices(live, k=min(20, len(live))) if live else []
            assert store.take(np.array(wanted, np.int64)).equals(batch_of(wanted))
            assert store.next_number == count
        found = list(store.live())
        assert [number for numbers, _ in found for number in numbers] == live
        assert [n for _, batch in found for n in batch["n"].to_pylist()] == live


def test_memory_is_that_of_the_rows_that_are_there():
    """Also where single rows stay out of each batch, and where each batch has one row."""
    store = RowStore(SCHEMA)
    for start in range(0, 100_000, 1000):
        store.append(batch_of(list(range(start, start + 1000))))
        store.release(np.arange(start + 1, start + 1000))
    assert len(store) == 100
    assert store.nbytes < 20_000
    assert len(store._chunks) < 20
    store = RowStore(SCHEMA)
    for number in range(3000):
        store.append(batch_of([number]))
    assert len(store._chunks) < 20
