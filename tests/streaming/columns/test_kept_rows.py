"""Rows under rising numbers: what is taken is what was added, whatever was forgotten between."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flinkbuf.streaming.columns import kept_rows
from flinkbuf.streaming.columns.kept_rows import KeptRows

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batch_of(numbers):
    return pa.record_batch(
        [pa.array(numbers, pa.int64()), pa.array(list(map(str, numbers)), pa.string())], SCHEMA.names
    )


@pytest.mark.parametrize("most_bytes", [kept_rows._MOST_BYTES, 100])
@given(st.lists(st.integers(0, 9), max_size=12), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_taken_is_what_was_added(monkeypatch, most_bytes, sizes, data):
    monkeypatch.setattr(kept_rows, "_MOST_BYTES", most_bytes)
    rows, model, next_ = KeptRows(SCHEMA), [], 0
    for size in sizes:
        assert rows.add(batch_of(range(next_, next_ + size))) == len(model)
        model += range(next_, next_ + size)
        next_ += size
        wanted = data.draw(st.lists(st.integers(0, len(model) - 1), max_size=9)) if model else []
        assert rows.take(np.array(wanted, np.int64))["n"].to_pylist() == [model[number] for number in wanted]
        if data.draw(st.booleans()):
            kept = sorted(set(wanted))
            rows.keep(np.array(kept, np.int64))
            model = [model[number] for number in kept]
        assert len(rows) == len(model)
        assert all(each.nbytes <= max(most_bytes, 200) for each in rows._batches)
    assert rows.all() == batch_of(model)
