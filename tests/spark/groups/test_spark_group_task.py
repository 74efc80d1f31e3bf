"""A function over groups inside its task: what it may give, what is refused, and with which words.

Spark runs no job for this, it reads the DDL of schemas.
"""

import datetime
import traceback
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql")
from pyspark.sql.types import StructType

from flinkbuf.spark.exchange.frame_schema import crossing_schema
from flinkbuf.spark.exchange.frame_tasks import FrameSource
from flinkbuf.spark.groups.group_results import MAX_ROWS, GroupSchema
from flinkbuf.spark.groups.group_task import GroupTask

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def schema_of(ddl):
    fields = StructType.fromDDL(ddl)
    return GroupSchema(pa.schema([field.with_nullable(True) for field in crossing_schema(fields)]), fields.fields)


def run(function, batches, schema="k bigint, n bigint", takes_key=False):
    task = GroupTask(function, takes_key, [0], ["k"], FrameSource(), schema_of(schema))
    return task(iter(batches))


def batch_of(*keys):
    return pa.record_batch({"k": pa.array(keys, pa.int64()), "n": pa.array(range(len(keys)), pa.int64())})


def rows(batches):
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def refused(kind, function, schema="v bigint"):
    with pytest.raises(kind) as caught:
        list(run(function, [batch_of(7, 7)], schema))
    return str(caught.value)


def test_a_function_may_give_a_generator_an_iterator_a_list_or_nothing():
    given = [batch_of(1, 1), batch_of(1, 2)]
    everything = [(1, 0), (1, 1), (1, 0), (2, 1)]
    assert rows(run(lambda batches: batches, given)) == everything
    assert rows(run(lambda batches: list(batches), given)) == everything
    assert rows(run(lambda key, batches: (each for each in batches), given, takes_key=True)) == everything
    assert rows(run(lambda batches: [], given)) == []
    assert rows(run(lambda batches: [next(batches)], given)) == [(1, 0), (1, 1), (2, 1)]
    assert list(run(lambda batches: batches, [])) == []


def test_a_key_is_a_tuple_of_scalars():
    keys = []
    list(run(lambda key, batches: keys.append(key) or [], [batch_of(None, 3)], takes_key=True))
    assert keys == [(pa.scalar(None, pa.int64()),), (pa.scalar(3, pa.int64()),)]


def test_small_results_go_to_spark_together_and_large_ones_alone():
    given = [batch_of(*range(5000)), batch_of(*range(5000, 8000), *[9000] * 4000)]
    sizes = [batch.num_rows for batch in run(lambda batches: batches, given)]
    assert sizes == [5000, 3000, 4000]
    many = [pa.nulls(1, pa.int64())] * 2
    twice = run(lambda batches: [pa.record_batch(many, ["k", "n"])] * 5, [batch_of(*range(MAX_ROWS // 4))])
    assert [batch.num_rows for batch in twice] == [MAX_ROWS, MAX_ROWS // 4]


def test_small_results_are_what_they_were_though_the_function_uses_its_arrays_again():
    key, size = np.zeros(1, np.int64), np.zeros(1, np.int64)

    def sizes(of, batches):
        key[0], size[0] = of[0].as_py(), sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"k": key, "n": size})

    assert rows(run(sizes, [batch_of(1, 2, 2), batch_of(2, 3)], takes_key=True)) == [(1, 1), (2, 3), (3, 1)]


def test_results_wait_no_longer_than_the_batch_that_they_are_slices_of():
    """A result that keeps the memory of a batch must not do so while others are read."""
    read = 0

    def reading():
        nonlocal read
        for number in range(50):
            read += 1
            yield batch_of(*[number] * 900)

    for number, batch in enumerate(run(lambda batches: (each.slice(0, 1) for each in batches), reading())):
        assert batch.num_rows == 1
        assert read <= number + 2


def test_columns_are_taken_by_name_and_types_that_hold_the_same_are_one():
    at = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc)
    columns = {
        "at": pa.array([at], pa.timestamp("ns", "Europe/Berlin")),
        "text": pa.array(["é"]).dictionary_encode(),
        "none": pa.nulls(1),
        "price": pa.array([Decimal("1.50")], pa.decimal128(38, 10)),
        "tags": pa.array([["a", None]], pa.large_list(pa.large_string())),
        "part": pa.array([{"a": None, "b": [b"x"]}], pa.struct([("a", pa.null()), ("b", pa.list_(pa.large_binary()))])),
        "map": pa.array([[("k", Decimal(1))]], pa.map_(pa.large_string(), pa.decimal128(38, 0))),
    }
    schema = (
        "text string, none array<int>, price decimal(5,2), tags array<string>, part struct<a: int, b: array<binary>>, "
        "map map<string, decimal(3,1)>, at timestamp"
    )
    (found,) = run(lambda batches: [pa.record_batch(columns)], [batch_of(1)], schema)
    assert found.schema == schema_of(schema).schema
    assert found.to_pylist() == [
        {
            "text": "é",
            "none": None,
            "price": Decimal("1.50"),
            "tags": ["a", None],
            "part": {"a": None, "b": [b"x"]},
            "map": [("k", Decimal("1.0"))],
            "at": at,
        }
    ]


@pytest.mark.parametrize(
    ("declared", "column", "told"),
    [
        ("v int", pa.array([1]), "gave int64 in column 'v' for the group k=7, where schema= says int32: cast it"),
        ("v string", pa.array([1]), "gave int64 in column 'v' for the group k=7, where schema= says string"),
        ("v double", pa.array([1.0], pa.float32()), "gave float in column 'v' .* says double"),
        ("v timestamp", pa.array([0], pa.timestamp("us")), r"gave timestamp\[us\] in column 'v'"),
        ("v struct<a: int>", pa.array([{"b": 1}]), "gave struct<b: int64> in column 'v'"),
        ("v array<int>", pa.array([["x"]]), "gave list<item: string> in column 'v'"),
    ],
)
def test_a_column_of_another_type_is_refused(declared, column, told):
    with pytest.raises(TypeError, match=told):
        list(run(lambda batches: [pa.record_batch({"v": column})], [batch_of(7)], declared))


def test_a_value_that_does_not_fit_is_refused():
    instant = pa.array([1], pa.timestamp("ns", "UTC"))
    told = refused(ValueError, lambda batches: [pa.record_batch({"v": instant})], "v timestamp")
    assert "in column 'v' for the group k=7" in told and "does not hold each value" in told
    price = pa.array([Decimal("1000.00")])
    assert "column 'v'" in refused(ValueError, lambda batches: [pa.record_batch({"v": price})], "v decimal(5,2)")


def test_other_columns_are_refused():
    told = refused(ValueError, lambda batches: [pa.record_batch({"w": [1]})])
    assert "with the columns w for the group k=7, where schema= says v" in told
    assert "columns v, v " in refused(ValueError, lambda batches: [pa.record_batch([pa.array([1])] * 2, ["v", "v"])])


@pytest.mark.parametrize(
    ("declared", "value", "path"),
    [
        ("v bigint not null", None, "column 'v'"),
        ("v struct<a: bigint not null>", {"a": None}, r"field 'v\.a'"),
    ],
)
def test_a_null_where_none_may_be_is_refused(declared, value, path):
    kind = schema_of(declared).schema.field(0).type
    batch = pa.record_batch([pa.array([value], kind)], ["v"])
    with pytest.raises(ValueError, match=f"gave a null in {path} for the group k=7, which is declared NOT NULL"):
        list(run(lambda batches: [batch], [batch_of(7)], declared))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "gave None, where an iterator or a list of pyarrow.RecordBatches is needed: yield each batch"),
        (pa.record_batch({"v": [1]}), "gave a pyarrow.RecordBatch, where"),
        (pa.table({"v": [1]}), "gave a pyarrow.Table, where"),
        ([pa.table({"v": [1]})], r"gave a pyarrow.Table for the group k=7, .* yield from table.to_batches\(\)"),
        (["text"], "gave a str for the group k=7"),
        ([None], "gave None for the group k=7"),
    ],
)
def test_what_is_no_batch_is_refused(given, told):
    with pytest.raises(TypeError, match=told):
        list(run(lambda batches: given, [batch_of(7)], "v bigint"))


@pytest.mark.parametrize("is_late", [False, True], ids=["when called", "when read"])
def test_an_error_of_the_function_goes_on_with_the_group_in_a_note(is_late):
    def fail(batches):
        raise KeyError("theirs")

    def fail_late(batches):
        yield next(batches)
        fail(batches)

    with pytest.raises(KeyError, match="theirs") as caught:
        list(run(fail_late if is_late else fail, [batch_of(7, 8)]))
    if hasattr(caught.value, "__notes__"):  # Python 3.11
        assert "for the group k=7" in "".join(traceback.format_exception(caught.value))


def test_a_task_that_is_closed_early_closes_the_function_of_its_group():
    ended = []

    def function(batches):
        try:
            yield from batches
        finally:
            ended.append(True)

    results = run(function, [batch_of(*[1] * 1000), batch_of(1)])
    assert next(results).num_rows == 1000
    results.close()
    assert ended == [True]


def test_batches_that_are_kept_for_later_are_refused():
    kept = []
    with pytest.raises(RuntimeError, match="the batches of the group k=1 can be read while its turn lasts"):
        list(run(lambda batches: kept.append(batches) or (list(kept[0]) if len(kept) > 1 else []), [batch_of(1, 2)]))
