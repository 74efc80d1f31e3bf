"""One batch with all rows, through a filter, an exchange by key and windows, beside polars on the whole table.

``make test-large`` has it with 10 million rows.
"""

import os

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkbuf.common.time import Time
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.columns import count, max_, mean, sum_, window_end
from flinkbuf.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

IS_LARGE = "FLINKBUF_LARGE_BYTES" in os.environ
ROWS = 10_000_000 if IS_LARGE else 60_000
KEYS = ROWS // 20
COLUMNS = "k bigint, word string, n bigint, x double, at bigint"


def whole_batch():
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, KEYS, ROWS)
    return pa.record_batch(
        {
            "k": numbers,
            "word": pa.array([f"word {number}" for number in range(50)]).take(pa.array(numbers % 50)),
            "n": pa.array(rng.integers(-1000, 1000, ROWS), mask=numbers % 7 == 3),
            "x": rng.random(ROWS),
            "at": rng.integers(0, 10_000, ROWS),
        }
    )


def results_of(parallelism, assigner):
    """All windows as a table of polars, by key and end."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    rows = env.from_collection([0]).map(lambda _: whole_batch()).as_columns(COLUMNS)
    rows = rows.assign_timestamps_and_watermarks("at").filter(pc.field("x") < 0.75)
    windows = rows.key_by("k", "word").window(assigner)
    results = windows.aggregate(end=window_end(), rows=count(), total=sum_("n"), most=max_("x"), mean=mean("n"))
    with results.set_parallelism(parallelism).execute_and_collect_batches() as batches:
        return pl.from_arrow(pa.Table.from_batches(batches)).sort("k", "end")


def of_polars(size, slide):
    rows = pl.from_arrow(whole_batch()).filter(pl.col("x") < 0.75)
    ends = [(pl.col("at") // slide + 1 + step) * slide for step in range(size // slide)]
    spread = pl.concat([rows.with_columns(end=each) for each in ends])
    groups = spread.group_by("k", "word", "end").agg(
        rows=pl.len().cast(pl.Int64), total=pl.col("n").sum(), most=pl.col("x").max(), mean=pl.col("n").mean()
    )
    has_value = spread.group_by("k", "end").agg(has=pl.col("n").count() > 0)
    groups = groups.join(has_value, ["k", "end"]).with_columns(total=pl.when("has").then("total"))
    return groups.drop("has").with_columns(end=pl.col("end").cast(pl.Datetime("ms"))).sort("k", "end")


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(("size", "slide"), [(2500, 2500), (5000, 2500)])
def test_one_batch_of_all_rows(parallelism, size, slide):
    if size == slide:
        assigner = TumblingEventTimeWindows.of(Time.milliseconds(size))
    else:
        assigner = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide))
    found, wanted = results_of(parallelism, assigner), of_polars(size, slide)
    assert found.drop("mean").equals(wanted.select(found.columns).drop("mean"))
    assert ((found["mean"] - wanted["mean"]).abs().max() or 0) < 1e-9
    assert found["mean"].is_null().equals(wanted["mean"].is_null())
