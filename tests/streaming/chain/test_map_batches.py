"""Functions over batches in an operator: when a batch ends, what its rows are, which timestamps they have."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.common import Duration, Types
from flinkbuf.datastream import MapBatchFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkbuf.streaming.chain.map_batches import MapBatchesOperatorFactory
from flinkbuf.testing import ManualClock, OperatorHarness
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus

PAIR = "id bigint, name string"


def harness_of(function, input_type=PAIR, *, harness=None, **options):
    factory = MapBatchesOperatorFactory(function, input_type, **options)
    factory.check()
    return OperatorHarness(factory(), is_keyed=False, **(harness or {}))


class Batches(list):
    """A function that gives its batches back and remembers them."""

    def __call__(self, batch):
        self.append(batch.to_pylist())
        return batch

    @property
    def sizes(self):
        return [len(batch) for batch in self]


def pairs(*numbers):
    return [(number, f"n{number}") for number in numbers]


# --- when a batch ends


def test_a_batch_ends_with_its_rows_and_keeps_the_order():
    seen = Batches()
    with harness_of(seen, max_rows=2, output_type=PAIR) as harness:
        harness.process_elements(pairs(1, 2, 3, 4, 5))
        assert seen.sizes == [2, 2]
        harness.end_input()
        harness.finish()
        assert seen.sizes == [2, 2, 1]
        assert harness.output_values == pairs(1, 2, 3, 4, 5)


def test_a_batch_ends_soon_behind_the_row_that_brings_the_bytes():
    seen = Batches()
    with harness_of(seen, max_bytes=1 << 20) as harness:
        for number in range(8):
            harness.process_element((number, "x" * 300_000))
        assert seen.sizes == [4, 4]


@pytest.mark.parametrize("output_type", [PAIR, None])
def test_columns_of_a_dict_may_be_of_any_library(output_type):
    polars = pytest.importorskip("polars")

    def mixed(batch):
        yield {"id": batch["id"].to_numpy(), "name": batch["name"]}
        yield {"id": pa.chunked_array([batch["id"]]), "name": polars.Series(["x"] * batch.num_rows)}

    with harness_of(mixed, timestamps="latest", output_type=output_type) as harness:
        harness.process_elements(pairs(1, 2))
        harness.end_input()
        assert [tuple(each) for each in harness.output_values] == [*pairs(1, 2), (1, "x"), (2, "x")]


@pytest.mark.parametrize("count", [511, 512, 513, 1024, 3000])
def test_more_records_than_are_made_into_columns_at_once_are_one_batch(count):
    seen = Batches()
    with harness_of(seen) as harness:
        harness.process_elements(pairs(*range(count)))
        harness.process_watermark(1)
        assert seen == [[{"id": number, "name": f"n{number}"} for number in range(count)]]
        assert harness.output_values == pairs(*range(count))


def test_what_came_before_a_watermark_or_a_status_leaves_before_it():
    with harness_of(Batches()) as harness:
        harness.process_element((1, "a"), 10)
        harness.process_watermark(10)
        harness.process_element((2, "b"), 20)
        harness.process_watermark_status(is_idle=True)
        assert harness.output == [
            StreamRecord((1, "a"), 10),
            Watermark(10),
            StreamRecord((2, "b"), 20),
            WatermarkStatus.IDLE,
        ]


def test_what_came_before_a_barrier_leaves_before_it_and_nothing_is_in_the_snapshot():
    with harness_of(Batches()) as harness:
        harness.process_element((1, "a"))
        state = harness.snapshot()
        assert harness.output_values == [(1, "a")]
        harness.process_element((2, "b"))
    with harness_of(Batches(), harness={"restore": state}) as restored:
        restored.end_input()
        assert restored.output_values == []


def test_a_record_waits_no_longer_than_it_may():
    seen = Batches()
    with harness_of(seen, max_delay_ms=100, harness={"clock": ManualClock(1000)}) as harness:
        harness.process_element((1, "a"))
        harness.set_processing_time(1060)
        harness.process_element((2, "b"))
        harness.set_processing_time(1099)
        assert seen.sizes == []
        harness.set_processing_time(1100)
        assert seen.sizes == [2]
        harness.set_processing_time(2000)
        assert seen.sizes == [2]


def test_a_timer_of_an_earlier_batch_does_not_cut_the_one_that_is_there():
    seen = Batches()
    with harness_of(seen, max_rows=2, max_delay_ms=100, harness={"clock": ManualClock(1000)}) as harness:
        harness.process_elements(pairs(1, 2))
        harness.set_processing_time(1090)
        harness.process_element((3, "c"))
        harness.set_processing_time(1150)
        assert seen.sizes == [2]
        harness.set_processing_time(1190)
        assert seen.sizes == [2, 1]


@pytest.mark.parametrize("options", [{"max_delay_ms": -1}, {"harness": {"is_batch": True}}])
def test_without_a_delay_and_in_batch_execution_no_clock_ends_a_batch(options):
    seen = Batches()
    with harness_of(seen, **options) as harness:
        harness.process_element((1, "a"))
        harness.set_processing_time(10**9)
        assert seen.sizes == []
        harness.end_input()
        assert seen.sizes == [1]


def test_nothing_comes_of_no_records():
    seen = Batches()
    with harness_of(seen) as harness:
        harness.process_watermark(5)
        harness.snapshot()
        harness.end_input()
        harness.finish()
        assert seen == []
        assert harness.output == [Watermark(5)]


SCRIPT = [
    *[StreamRecord((number, f"n{number}"), 10 * number) for number in range(3)],
    Watermark(20),
    *[StreamRecord((number, f"n{number}"), 10 * number) for number in range(3, 8)],
    Watermark(70),
    StreamRecord((8, "n8"), 80),
]


@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_output_is_the_same_wherever_the_operator_is_restored(cut):
    def play(elements, restore=None):
        with harness_of(Batches(), max_rows=3, harness={"restore": restore}) as harness:
            harness.process_elements(elements)
            state = harness.snapshot()
            return harness.output, state

    before, state = play(SCRIPT[:cut])
    after, _ = play(SCRIPT[cut:], state)
    assert before + after == SCRIPT


# --- what a function may give


def doubled(batch):
    return {"n": 2 * batch["id"].to_numpy()}


@pytest.mark.parametrize(
    "function",
    [
        doubled,
        lambda batch: pa.record_batch(doubled(batch)),
        lambda batch: pa.table(doubled(batch)),
        lambda batch: batch.select(["id"]).to_pandas().assign(n=lambda frame: 2 * frame["id"])[["n"]],
        lambda batch: np.array([(2 * number,) for number in batch["id"].to_pylist()], [("n", "i8")]),
        lambda batch: [doubled(batch)],
        lambda batch: (doubled(batch.slice(i, 1)) for i in range(batch.num_rows)),
    ],
    ids=["dict", "RecordBatch", "Table", "pandas", "structured", "list", "generator"],
)
def test_a_function_gives_batches_of_any_kind(function):
    with harness_of(function, output_type="n bigint") as harness:
        harness.process_elements(pairs(1, 2, 3))
        harness.end_input()
        assert harness.output_values == [(2,), (4,), (6,)]
        assert harness.output_values[0].n == 2


def test_the_index_of_a_filtered_data_frame_is_no_column():
    def odd(batch):
        frame = batch.to_pandas()
        return frame[frame["id"] % 2 == 1]

    with harness_of(odd, output_type=PAIR) as harness:
        harness.process_elements(pairs(1, 2, 3))
        harness.end_input()
        assert harness.output_values == pairs(1, 3)


def test_none_and_batches_without_rows_give_no_records():
    results = iter([None, [], {"id": np.empty(0, "i8"), "name": np.empty(0, "U1")}])
    with harness_of(lambda batch: next(results), output_type=PAIR) as harness:
        for number in range(3):
            harness.process_element((number, ""))
            harness.process_watermark(number)
        assert harness.output == [Watermark(number) for number in range(3)]


def test_records_without_fields_are_one_column():
    with harness_of(lambda batch: batch, "bigint", output_type="bigint") as harness:
        harness.process_elements([1, 2, -3])
        harness.end_input()
        assert harness.output_values == [1, 2, -3]


def test_without_an_output_type_rows_are_as_each_batch_says():
    results = iter([{"a": np.array([1])}, pa.record_batch({"b": ["x"], "c": [None]})])
    with harness_of(lambda batch: next(results)) as harness:
        harness.process_element((1, ""))
        harness.process_watermark(1)
        harness.process_element((2, ""))
        harness.end_input()
        first, second = harness.output_values
        assert (first.a, second.b, second.c) == (1, "x", None)


@pytest.mark.parametrize("result", [3, "text", [1, 2], {"n": 3}, {"n": [1, 2]}])
def test_what_is_no_batch_is_refused(result):
    with harness_of(lambda batch: result, output_type="n bigint") as harness:
        harness.process_element((1, ""))
        with pytest.raises(TypeError, match=r"gives a batch, an iterable of batches or None"):
            harness.end_input()
        assert harness.operator.is_in_function


def test_rows_that_are_not_of_the_output_type_name_the_column():
    with harness_of(lambda batch: {"n": np.array(["x"])}, output_type="n bigint") as harness:
        harness.process_element((1, ""))
        with pytest.raises(TypeError, match=r"column 'n': string is no LONG"):
            harness.end_input()


def test_a_value_that_its_field_cannot_hold_names_row_and_column_and_those_before_it_are_emitted():
    given = pa.record_batch({"n": pa.array([1, 2**40], pa.int64())})
    with harness_of(lambda batch: given, output_type="n int") as harness:
        harness.process_element((1, ""))
        with pytest.raises((TypeError, ValueError), match=r"column 'n'"):
            harness.end_input()


# --- what goes in


def test_the_input_type_says_which_types_columns_have():
    schema = pa.schema({"price": pa.decimal128(10, 2), "at": pa.timestamp("us", "UTC"), "tags": pa.list_(pa.string())})
    seen = []
    with harness_of(lambda batch: seen.append(batch), schema) as harness:
        at = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)
        harness.process_elements([(Decimal("1.50"), at, ["a", None]), (None, None, None)])
        harness.end_input()
    assert seen[0].schema == schema
    assert seen[0].to_pylist()[0] == {"price": Decimal("1.50"), "at": at, "tags": ["a", None]}
    assert seen[0].to_pylist()[1] == {"price": None, "at": None, "tags": None}


def test_a_record_that_is_not_of_the_type_is_the_one_in_hand():
    with harness_of(Batches()) as harness:
        harness.process_element((1, "a"))
        with pytest.raises(TypeError, match=r"id.*'two'"):
            harness.process_element(("two", "b"))
        assert harness.operator.is_in_function
        assert harness.operator.value_in_hand == ("two", "b")
        harness.end_input()
        assert harness.output_values == [(1, "a")]


def test_a_value_that_its_column_cannot_hold_is_named():
    with harness_of(Batches(), pa.schema({"price": pa.decimal128(4, 2)})) as harness:
        harness.process_element((Decimal("1.50"),))
        harness.process_element((Decimal("123456.50"),))
        with pytest.raises(ValueError, match=r"column 'price': .*123456.50"):
            harness.end_input()


# --- timestamps


def timed(*numbers):
    return [StreamRecord((number, f"n{number}"), 10 * number) for number in numbers]


def test_rows_keep_the_timestamps_of_the_records_in_their_places():
    def renamed(batch):
        for i in range(batch.num_rows):
            yield {"id": batch["id"].slice(i, 1).to_numpy(), "name": np.array(["x"])}

    with harness_of(renamed, output_type=PAIR) as harness:
        harness.process_elements([*timed(1, 2), (3, "n3"), *timed(4)])
        harness.end_input()
        assert harness.output == [StreamRecord((n, "x"), t) for n, t in [(1, 10), (2, 20), (3, None), (4, 40)]]


@pytest.mark.parametrize(("count", "said"), [(1, "given 3 rows with timestamps and gave 1"), (4, "gave at least 4")])
def test_rows_whose_timestamps_are_not_known_are_refused(count, said):
    with harness_of(lambda batch: {"n": np.arange(count)}, output_type="n bigint") as harness:
        harness.process_elements(timed(1, 2, 3))
        with pytest.raises(ValueError, match=said):
            harness.end_input()


def test_any_number_of_rows_have_the_latest_timestamp_if_that_is_asked_for():
    with harness_of(lambda batch: {"n": np.arange(4)}, output_type="n bigint", timestamps="latest") as harness:
        harness.process_elements(timed(1, 3, 2))
        harness.end_input()
        assert harness.output == [StreamRecord((n,), 30) for n in range(4)]


def test_without_timestamps_any_number_of_rows_is_right():
    with harness_of(lambda batch: {"n": np.arange(4)}, output_type="n bigint") as harness:
        harness.process_elements(pairs(1, 2))
        harness.end_input()
        assert harness.output == [StreamRecord((n,)) for n in range(4)]


def test_a_column_of_timestamps_goes_with_its_rows():
    def later(batch):
        return batch.filter(pa.array([True, False, True])).set_column(
            2, "at", pa.array([1, None] if batch["at"].null_count else [5, 6], pa.int64())
        )

    with harness_of(later, output_type=PAIR, timestamp_column="at") as harness:
        harness.process_elements([*timed(1, 2), (3, "n3")])
        harness.process_watermark(30)
        harness.process_elements(timed(4, 5, 6))
        harness.end_input()
        assert harness.output == [
            StreamRecord((1, "n1"), 1),
            StreamRecord((3, "n3"), None),
            Watermark(30),
            StreamRecord((4, "n4"), 5),
            StreamRecord((6, "n6"), 6),
        ]


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize(("unit", "per_ms"), [("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_finer_timestamps_are_of_the_millisecond_that_they_lie_in(unit, per_ms, zone):
    fine = [-2 * per_ms, -2 * per_ms + 1, -1, 0, 1, 1_636_264_800_000 * per_ms]  # the last in an hour that comes twice
    given = pa.record_batch({"at": pa.array(fine, pa.timestamp(unit, zone)), "n": range(len(fine))})
    with harness_of(lambda batch: given, timestamp_column="at") as harness:
        harness.process_element((1, ""))
        harness.end_input()
        assert [record.timestamp for record in harness.output] == [number // per_ms for number in fine]


def test_a_column_of_timestamps_may_be_of_arrows_type():
    at = datetime.datetime(1970, 1, 1, 0, 0, 1)
    given = pa.record_batch({"at": pa.array([at, None], pa.timestamp("ns")), "n": [1, 2]})
    with harness_of(lambda batch: given, timestamp_column="at") as harness:
        harness.process_element((1, ""))
        harness.end_input()
        assert harness.output == [StreamRecord((1,), 1000), StreamRecord((2,), None)]


@pytest.mark.parametrize(
    ("result", "error"), [({"n": np.arange(2)}, "no column 'at'"), ({"at": np.array(["x"])}, "timestamps of rows")]
)
def test_a_column_of_timestamps_that_is_missing_or_no_time_is_refused(result, error):
    with harness_of(lambda batch: result, timestamp_column="at") as harness:
        harness.process_element((1, ""))
        with pytest.raises((ValueError, TypeError), match=error):
            harness.end_input()


# --- the method of streams


class Counted(MapBatchFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map_batch(self, batch):
        yield {"subtask": np.full(batch.num_rows, self.subtask), "rows": np.full(batch.num_rows, batch.num_rows)}


def environment(mode=RuntimeExecutionMode.STREAMING, parallelism=2):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    env.set_parallelism(parallelism)
    return env


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_a_job_maps_batches_between_other_operators(mode):
    env = environment(mode)
    numbers = env.from_collection(list(range(10_000)), "bigint").rebalance()
    squares = numbers.map_batches(lambda batch: {"n": batch["value"].to_numpy() ** 2}, "n bigint")
    keyed = squares.map(lambda row: (row.n % 3, 1), "f0 bigint, f1 bigint").key_by(lambda pair: pair[0])
    totals = {}
    for key, count in collected(keyed.sum(1)):
        totals[key] = max(count, totals.get(key, 0))
    assert totals == {0: 3334, 1: 6666}


def test_a_function_of_a_class_is_opened_and_may_follow_a_key():
    env = environment()
    keyed = env.from_collection([(i % 7, "x") for i in range(700)], PAIR).key_by(lambda pair: pair[0])
    rows = collected(keyed.map_batches(Counted(), "subtask bigint, rows bigint", max_delay=None))
    assert len(rows) == 700
    assert {row.subtask for row in rows} <= {0, 1}
    assert max(row.rows for row in rows) > 100  # a batch has records of many keys


def test_the_type_of_the_records_has_to_be_known():
    undeclared = environment().from_collection([(1, "a")])
    with pytest.raises(ValueError, match=r"input_type='id bigint"):
        undeclared.map_batches(doubled)
    assert undeclared.map_batches(doubled, "n bigint", input_type=PAIR).get_type() == Types.ROW_NAMED(
        ["n"], [Types.LONG()]
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_rows": 0}, "max_rows must be from 1"),
        ({"max_bytes": 0}, "max_bytes must be at least 1"),
        ({"timestamps": "first"}, "timestamps must be one of 'kept', 'latest'"),
        ({"timestamp_column": "id"}, "a name that no column has"),
    ],
)
def test_arguments_are_looked_at_while_the_program_is_written(options, error):
    with pytest.raises(ValueError, match=error):
        environment().from_collection(pairs(1), PAIR).map_batches(doubled, **options)
    with pytest.raises(TypeError, match="max_delay"):
        environment().from_collection(pairs(1), PAIR).map_batches(doubled, max_delay=5)
    assert environment().from_collection(pairs(1), PAIR).map_batches(doubled, max_delay=Duration.of_seconds(1))


def test_an_error_of_the_function_names_the_operator():
    def broken(batch):
        raise ZeroDivisionError("no such batch")

    stream = environment().from_collection(pairs(1), PAIR).map_batches(broken)
    with pytest.raises(ZeroDivisionError, match="no such batch") as caught:
        collected(stream)
    assert any("'MapBatches'" in note for note in getattr(caught.value, "__notes__", ["'MapBatches'"]))


# --- any type, there and back

VALUES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp_ntz": st.datetimes(),
    "array<bigint>": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
    "map<string, int>": st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3),
    "struct<a: string, b: array<int>>": st.tuples(st.text(), st.lists(st.integers(0, 9), max_size=2)),
}


@given(st.data())
def test_records_of_any_type_come_out_as_they_went_in(data):
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    ddl = ", ".join(f"f{i} {kind}" for i, kind in enumerate(kinds))
    rows = data.draw(st.lists(st.tuples(*[st.none() | VALUES[kind] for kind in kinds]), max_size=20))
    with harness_of(lambda batch: batch, ddl, output_type=ddl, max_rows=7) as harness:
        harness.process_elements(rows)
        harness.end_input()
        assert harness.output_values == rows
