"""Joins of column streams give what polars gives of the two whole tables, whatever the batches were."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import MAX_WATERMARK
from flinkbuf.common.time import Time
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_joins import KINDS
from flinkbuf.testing import OperatorHarness

LEFT = pa.schema([("k", pa.string()), ("i", pa.int32()), ("n", pa.int64()), ("at", pa.int64())])
RIGHT = pa.schema([("w", pa.string()), ("j", pa.int32()), ("m", pa.int64()), ("seen", pa.int64())])
KEYS = [("k", "i"), ("w", "j")]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None, "a\0"]), st.sampled_from([0, 1, None]), st.integers(), st.integers(0, 40)
    ).map(lambda row: (row[0], row[1], row[2] % 100, row[3])),
    max_size=25,
)


def table(rows, schema):
    columns = zip(*rows, strict=True) if rows else [[]] * len(schema)
    return pa.record_batch([pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)], schema)


def joined(rule, sides, batch_rows):
    """The rows that come of both sides, batch by batch in turn; event time stands still until all are there."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    left, right = (env.from_collection([], schema).as_columns(schema) for schema in (LEFT, RIGHT))
    stream = rule(left.key_by(*KEYS[0]), right.key_by(*KEYS[1]))
    with OperatorHarness.of(stream._stream) as harness:
        for start in range(0, max(each.num_rows for each in sides), batch_rows):
            for number, side in enumerate(sides):
                batch = side.slice(start, batch_rows)
                if batch.num_rows:
                    harness.process_element(ColumnBatch(batch, batch.column(3).to_numpy()), 0, input=number + 1)
        for number in (1, 2):
            harness.process_watermark(MAX_WATERMARK, input=number)
        batches = [each.batch for each in harness.output_values]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def of_polars(how, sides, are_near=None):
    """The same of polars; `are_near` is an expression of both times."""
    left, right = (pl.from_arrow(pa.Table.from_batches([each])) for each in sides)
    left, right = left.with_row_index("x"), right.with_row_index("y")
    pairs = left.join(right, left_on=KEYS[0], right_on=KEYS[1], how="inner", nulls_equal=True, coalesce=False)
    if are_near is not None:
        pairs = pairs.filter(are_near)
    parts = {"left": left.join(pairs, "x", how="anti"), "right": right.join(pairs, "y", how="anti")}
    if how == "semi":
        found = [left.join(pairs, "x", how="semi")]
    elif how == "anti":
        found = [parts["left"]]
    else:
        found = [pairs, *(part for side, part in parts.items() if how in (side, "full"))]
    names = LEFT.names if how in ("semi", "anti") else LEFT.names + RIGHT.names
    return sorted(pl.concat(found, how="diagonal").select(names).rows(), key=repr)


@pytest.mark.parametrize("how", KINDS)
@settings(max_examples=25)
@given(left=ROWS, right=ROWS, batch_rows=st.sampled_from([1, 4, 100]))
def test_joins_of_all_rows(how, left, right, batch_rows):
    sides = table(left, LEFT), table(right, RIGHT)
    found = joined(lambda one, other: one.join(other, how).time_to_live(Time.hours(1)), sides, batch_rows)
    assert found == of_polars(how, sides)


@pytest.mark.parametrize("how", KINDS)
@settings(max_examples=25)
@given(
    left=ROWS, right=ROWS, batch_rows=st.sampled_from([1, 4, 100]), bounds=st.tuples(st.integers(-9, 9)) | st.tuples()
)
def test_interval_joins(how, left, right, batch_rows, bounds):
    lower, upper = (bounds[0], bounds[0] + 5) if bounds else (-40, 40)
    sides = table(left, LEFT), table(right, RIGHT)
    times = Time.milliseconds(lower), Time.milliseconds(upper)
    found = joined(lambda one, other: one.join(other, how).between(*times), sides, batch_rows)
    assert found == of_polars(how, sides, (pl.col("seen") - pl.col("at")).is_between(lower, upper))
