"""What a user says of columns: names, expressions and functions, and what is refused."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkbuf.datastream import MapBatchFunction, StreamExecutionEnvironment
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_functions import MapRows, RenameColumns, SelectColumns, column_as


def batch_of(call, batch):
    (element,) = call(ColumnBatch(batch))
    return element.batch


def test_no_two_columns_have_one_name():
    """Else with_columns() and the like would leave one of them out, and nobody would know which."""
    batch = pa.record_batch({"a": [1], "b": [2]})
    with pytest.raises(ValueError, match=r"rename\(\): two columns would be called 'b'; .* the columns are b, b"):
        batch_of(RenameColumns((("a", "b"),)), batch)
    assert batch_of(RenameColumns((("a", "b"), ("b", "a"))), batch).to_pydict() == {"b": [1], "a": [2]}
    twice = pa.record_batch([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(ValueError, match=r"with_columns\(\): two columns would be called 'a'"):
        batch_of(SelectColumns((("c", lambda batch: pa.array([3])),), keeps=True), twice)


def test_columns_stay_in_the_place_where_they_are_said():
    """Whatever makes them: those of one library are made together."""
    polars = pytest.importorskip("polars")
    batch = pa.record_batch({"a": [1, 2], "b": [3, 4]}, metadata={"of": "the batch"})
    said = (("x", pc.field("a") + 1), ("b", "a"), ("y", polars.col("b") * 2), ("a", lambda batch: batch["b"]))
    made = batch_of(SelectColumns((*said, ("z", pc.field("b") > 3))), batch)
    assert made.to_pydict() == {"x": [2, 3], "b": [1, 2], "y": [6, 8], "a": [3, 4], "z": [False, True]}
    assert made.schema.names == ["x", "b", "y", "a", "z"]
    kept = batch_of(SelectColumns(said, keeps=True), batch)
    assert kept.to_pydict() == {"a": [3, 4], "b": [1, 2], "x": [2, 3], "y": [6, 8]}
    assert kept.schema.names == ["a", "b", "x", "y"]
    assert list(batch_of(SelectColumns(said, keeps=True), batch.slice(1, 1)).to_pydict().values()) == [
        [4],
        [2],
        [3],
        [8],
    ]


def test_a_batch_of_many_parts_is_evaluated_whole():
    """An engine gives what is long in several parts."""
    batch = pa.record_batch({"a": pa.array(range(200_000), pa.int64())})
    made = batch_of(SelectColumns((("b", pc.field("a") * 2),), keeps=True), batch)
    assert made["b"].to_pylist() == list(range(0, 400_000, 2))


def test_rows_without_columns_are_not_selected():
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([(1,)]).as_columns("n int")
    with pytest.raises(ValueError, match=r"select\(\) needs a column"):
        stream.select()


def test_expressions_and_frames_of_polars():
    polars = pytest.importorskip("polars")
    batch = pa.record_batch({"a": ["x", "y"], "n": [1, 2]})
    made = batch_of(
        SelectColumns((("a", polars.lit(7)), ("m", polars.col("n") * 2), ("all", polars.col("n").sum()))), batch
    )
    assert made.to_pydict() == {"a": [7, 7], "m": [2, 4], "all": [3, 3]}
    assert batch_of(SelectColumns((("b", polars.lit(7)),), keeps=True), batch)["b"].to_pylist() == [7, 7]
    made = batch_of(MapRows(lambda each: polars.from_arrow(each).with_columns(b=polars.lit("z"))), batch)
    assert made.take([1]).to_pylist() == [{"a": "y", "n": 2, "b": "z"}]


def test_texts_of_polars_come_as_arrow_can_take_them():
    class Frame:
        """As polars has it: its stream has views."""

        __module__ = "polars.dataframe.frame"

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": pa.array(["x", "y"], pa.string_view())}).__arrow_c_stream__()

        def to_arrow(self):
            return pa.table({"a": pa.array(["x", "y"], pa.large_string())})

    made = batch_of(MapRows(lambda batch: Frame()), pa.record_batch({"a": ["x", "y"]}))
    assert ColumnBatch(made).take([1]).batch.to_pylist() == [{"a": "y"}]


def test_what_no_program_can_be_made_of_is_refused_where_it_is_said():
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([(1,)]).as_columns("n int")
    with pytest.raises(ValueError, match=r"key_by\(\) is told of the column 'n' twice"):
        stream.key_by("n", "n")
    with pytest.raises(TypeError, match=r"union\(\) of a column stream takes column streams, got .*; say as_columns"):
        stream.union(stream.as_records())


class Added(MapBatchFunction):
    def open(self, runtime_context):
        self.number = 100

    def map_batch(self, batch):
        return {"n": batch["n"].to_numpy() + self.number}


@pytest.mark.parametrize("name", ["map_batches", "flat_map_batches"])
def test_a_function_with_a_life_of_its_own_is_opened(name):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    numbers = env.from_collection([(1,), (2,)]).as_columns("n bigint")
    found = getattr(numbers, name)(Added()).execute_and_collect(limit=2)
    assert sorted(row.n for row in found) == [101, 102]
    with pytest.raises(TypeError, match=rf"{name}\(\) takes a function of a batch, or a MapBatchFunction, got int 5"):
        getattr(numbers, name)(5)


STRUCT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float32()))])


@pytest.mark.parametrize(
    ("one", "other", "keeps"),
    [
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True),
        (pa.list_(pa.float32()), pa.large_list(pa.float64()), True),
        (pa.large_list(pa.int64()), pa.list_(pa.int64()), True),
        (pa.list_(pa.float64()), pa.list_(pa.float32()), False),
        (pa.list_(pa.string()), pa.list_(pa.int64()), False),
        (pa.list_(pa.int64()), pa.int64(), False),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), True),
        (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float32()), False),
        (pa.map_(pa.float64(), pa.string()), pa.map_(pa.float32(), pa.string()), False),
        (STRUCT, pa.struct([("y", pa.list_(pa.float64())), ("x", pa.int64())]), True),
        (STRUCT, pa.struct([("x", pa.int64())]), False),
        (STRUCT, pa.struct([*STRUCT, ("z", pa.int64())]), False),
        (pa.struct([*STRUCT, *STRUCT]), pa.struct([*STRUCT, *STRUCT]).field(0).type, False),
        (pa.struct([("x", pa.float64())]), pa.struct([("x", pa.float32())]), False),
        (pa.null(), STRUCT, True),
        (pa.list_(pa.decimal32(5, 2)), pa.list_(pa.decimal128(38, 20)), True),
        (pa.decimal128(20, 2), pa.decimal256(76, 50), True),
        (pa.decimal128(38, 20), pa.decimal128(38, -18), True),
        (pa.decimal128(38, 20), pa.decimal128(38, -19), False),
        (pa.decimal128(38, -(2**31) + 2), pa.decimal128(38, 2), False),  # Arrow reads beyond its table of powers
        (pa.list_(pa.decimal128(38, 2)), pa.list_(pa.decimal128(38, 2**26)), False),
        (pa.int64(), pa.decimal128(38, -(2**31)), False),
        (pa.decimal128(38, 2**31 - 1), pa.float64(), False),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), pa.list_(pa.string()), True),
    ],
)
def test_parts_of_a_column_keep_their_values_or_it_is_refused(one, other, keeps):
    column = pa.nulls(1, one)
    if keeps:
        assert column_as(column, other, "c", "is told").type.equals(other)
    else:
        with pytest.raises(TypeError, match="column 'c' is told and .* a cast would change values"):
            column_as(column, other, "c", "is told")
