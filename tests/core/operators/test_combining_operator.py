"""Records of a key come together before they are sent; what is made of them behind the exchange is the same."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.common import Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import AggregateFunction, ReduceFunction, StreamExecutionEnvironment
from flinkbuf.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkbuf.streaming.chain.aggregations import COMBINED_KEY, ReduceOperatorFactory, field_reduce
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.duration import Time
from flinkbuf.types.values import StreamRecord, Watermark

MAX = 2**63 - 1
OBJECT = Types.PICKLED_BYTE_ARRAY().codec


def key_of(value):
    return value[0]


def added(one, other):
    return one[0], one[1] + other[1]


def combining(reduce_function=added, max_delay_ms=100, key_type=None, type_info=None, **options):
    factory = ReduceOperatorFactory(key_of, reduce_function, type_info).combining(key_type, max_delay_ms)
    return OperatorHarness(factory(), is_keyed=False, **options)


def test_records_wait_for_others_of_their_key_as_long_as_a_buffer_does():
    with combining() as harness:
        for number, key in enumerate("abab", 1):
            harness.process_element((key, number), number * 10)
        harness.set_processing_time(harness.clock.now_ms() + 99)
        assert harness.output == []
        harness.set_processing_time(harness.clock.now_ms() + 1)
        assert harness.output == [StreamRecord(("a", 0, ("a", 4)), 30), StreamRecord(("b", 0, ("b", 6)), 40)]
        harness.process_element(("a", 5), 50)
        harness.set_processing_time(harness.clock.now_ms() + 99)
        assert len(harness.output) == 2
        harness.set_processing_time(harness.clock.now_ms() + 1)
        assert harness.output[2:] == [StreamRecord(("a", 0, ("a", 5)), 50)]


def test_each_is_sent_at_once_where_buffers_do_not_wait():
    with combining(max_delay_ms=0) as harness:
        harness.process_elements([("a", 1), ("a", 2)])
        assert harness.output_values == [("a", 0, ("a", 1)), ("a", 0, ("a", 2))]


@pytest.mark.parametrize(
    "occasion",
    [
        lambda harness: harness.process_watermark(7),
        lambda harness: harness.process_watermark_status(True),
        lambda harness: harness.operator.prepare_snapshot_pre_barrier(1),
        lambda harness: harness.end_input(),
    ],
    ids=["watermark", "idle", "barrier", "end"],
)
def test_nothing_waits_longer_than(occasion):
    with combining(max_delay_ms=-1) as harness:
        harness.process_elements([("a", 1), ("a", 2)])
        harness.set_processing_time(harness.clock.now_ms() + 1_000)
        assert harness.output == []
        occasion(harness)
        assert harness.output[0] == StreamRecord(("a", 0, ("a", 3))), "before what it was sent for"


def test_too_many_keys_leave_at_once():
    with combining(max_delay_ms=-1) as harness:
        harness.process_elements([(number, 1) for number in range(20_001)])
        assert len(harness.output) == 20_000
        assert harness.operator.count == 1


class SumOfSecond(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def windows_of_two(assigner):
    factory = WindowOperatorFactory(
        assigner, key_selector=COMBINED_KEY, aggregate_function=SumOfSecond(), two_phase=True
    )
    return OperatorHarness(factory.combining(key_of, None, 100)(), is_keyed=False)


def test_of_windows_of_event_time_only_panes_leave_that_are_over():
    with windows_of_two(SlidingEventTimeWindows(6, 4, 1)) as harness:  # panes of 2 ms, which begin at odd times
        for timestamp in (1, 2, 3, 4, 5):
            harness.process_element(("a", 10**timestamp), timestamp)
        harness.process_watermark(1)
        harness.set_processing_time(harness.clock.now_ms() + 1_000)
        assert harness.output == [Watermark(1)]
        harness.process_watermark(2)
        assert harness.output[1:] == [StreamRecord(("a", 1, 110), 2), Watermark(2)]
        harness.process_watermark(MAX)
        assert harness.output_values[1:] == [("a", 3, 11_000), ("a", 5, 100_000)]


def test_a_record_that_is_late_already_leaves_with_the_next_watermark():
    with windows_of_two(TumblingEventTimeWindows(10, 0)) as harness:
        harness.process_watermark(50)
        harness.process_element(("a", 1), 3)
        harness.process_watermark(51)
        assert harness.output == [Watermark(50), StreamRecord(("a", 0, 1), 3), Watermark(51)]


# Keys that Python takes for each other, or cannot hash.
ODD = [1, 1.0, True, 0, 0.0, -0.0, False, math.nan, float("nan"), "a", b"a", (1,), (True,), (1.0,), [1], {"a": 1}, None]


@given(st.lists(st.tuples(st.sampled_from(range(len(ODD))), st.integers(-5, 5)), max_size=40))
def test_keys_are_told_apart_as_behind_the_exchange(chosen):
    values = [(ODD[index], number) for index, number in chosen]
    with OperatorHarness(ReduceOperatorFactory(key_of, added)()) as harness:
        harness.process_elements(values)
        expected = harness.output_values
    with (
        combining() as first,
        OperatorHarness(ReduceOperatorFactory(COMBINED_KEY, added, is_combined=True)()) as second,
    ):
        first.process_elements(values)
        first.end_input()
        for value in first.output_values:
            second.process_element(OBJECT.deserialize(OBJECT.serialize(value)))
        found = second.output_values
    assert last_of_each(found) == last_of_each(expected)


def last_of_each(results):
    """By the bytes of the key, of which there are as many as there are keys."""
    codec = OBJECT.as_key() if hasattr(OBJECT, "as_key") else OBJECT
    return {codec.serialize(key): total for key, total in results}


def test_keys_of_a_declared_type_are_as_it_has_them():
    with combining(key_type=Types.FLOAT(), max_delay_ms=-1) as harness:
        harness.process_elements([(0.1, 1), (0.10000000149011612, 2)])
        harness.end_input()
        ((key, _, _),) = harness.output_values
        assert key == 0.10000000149011612


def test_values_of_a_declared_type_are_as_it_has_them():
    pair = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    with combining(type_info=pair, max_delay_ms=-1) as harness:
        harness.process_elements([("a", 1), ("b", 2), ("b", 3)])
        harness.end_input()
        assert repr(harness.output_values) == "[('a', 0, ('a', 1.0)), ('b', 0, ('b', 5.0))]"
        with pytest.raises(TypeError, match="cannot keep"):
            harness.process_element(("c", "x"))


def test_what_was_given_may_be_changed_afterwards():
    record = ["a", [1]]
    with combining(lambda one, other: [one[0], one[1] + other[1]], max_delay_ms=-1) as harness:
        harness.process_element(record)
        record[1].append(2)
        harness.process_element(record)
        record[1].clear()
        harness.end_input()
        assert harness.output_values == [("a", 0, ["a", [1, 1, 2]])]


def test_a_function_may_go_on_holding_what_it_gave():
    class Held(ReduceFunction):
        def __init__(self):
            self.all = []

        def reduce(self, value1, value2):
            made = [value1[0], value1[1] + value2[1]]
            self.all.append(made)
            return made

    held = Held()
    with combining(held, max_delay_ms=-1) as harness:
        harness.process_elements([["a", 1], ["a", 2]])
        for each in held.all:
            each[1] = 1_000
        harness.process_element(["a", 4])
        harness.end_input()
        assert harness.output_values == [("a", 0, ["a", 7])]


@pytest.mark.parametrize("values", [[None], [("a", 1), ("a", 1)]])
def test_none_cannot_be_sent(values):
    made = ReduceOperatorFactory(lambda value: "a", lambda one, other: None).combining(None, 100)
    with OperatorHarness(made(), is_keyed=False) as harness, pytest.raises(TypeError, match="leave out two_phase"):
        harness.process_elements(values)


def test_an_error_of_the_function_leaves_what_was_combined_as_it_was():
    def picky(one, other):
        if other[1] == 3:
            raise ValueError("three")
        return added(one, other)

    with combining(picky, max_delay_ms=-1) as harness:
        harness.process_elements([("a", 1), ("a", 2)])
        with pytest.raises(ValueError, match="three"):
            harness.process_element(("a", 3))
        assert harness.operator.is_in_function
        assert harness.operator.value_in_hand == ("a", 3)
        harness.end_input()
        assert harness.output_values == [("a", 0, ("a", 3))]


# ---- through the public API


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def environment(parallelism, target="embedded", mode="streaming"):
    from flinkbuf.common import Configuration
    from flinkbuf.datastream import RuntimeExecutionMode

    configuration = Configuration().set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    return env.set_runtime_mode(RuntimeExecutionMode[mode.upper()])


VALUES = [(number % 7, number, number * 10) for number in range(500)]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("key_type", [None, Types.LONG()])
def test_results_of_a_job_are_the_same(parallelism, mode, key_type):
    env = environment(parallelism, mode=mode)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    values = env.from_collection(VALUES, Types.TUPLE([Types.LONG()] * 3)).assign_timestamps_and_watermarks(times)
    keyed = values.rebalance().map(tuple, Types.TUPLE([Types.LONG()] * 3)).key_by(key_of, key_type)
    windows = keyed.window(SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(500)))
    made = [
        keyed.reduce(lambda a, b: (a[0], a[1] + b[1], 0), two_phase=two_phase).map(lambda value: ("reduce", value[:2]))
        for two_phase in (False, True)
    ]
    made += [keyed.max(1, two_phase=two_phase).map(lambda value: ("max", value[:2])) for two_phase in (False, True)]
    made += [
        windows.aggregate(SumOfSecond(), accumulator_type=Types.LONG(), two_phase=two_phase).map(
            lambda value: ("windows", value)
        )
        for two_phase in (False, True)
    ]
    results = [[], [], [], [], [], []]
    tagged = [each.map(lambda value, index=index: (index, value[1])) for index, each in enumerate(made)]
    with tagged[0].union(*tagged[1:]).execute_and_collect() as collected:
        for index, value in collected:
            results[index].append(value)
    assert {k: max(v for key, v in results[0] if key == k) for k in range(7)} == dict(
        sorted(results[1], key=lambda r: r[1])
    )
    assert {k: max(v for key, v in results[2] if key == k) for k in range(7)} == dict(
        sorted(results[3], key=lambda r: r[1])
    )
    assert sorted(results[4]) == sorted(results[5])
    assert len(results[4]) > 50
    if mode == "streaming":
        assert len(results[1]) < len(results[0]) == len(VALUES)


def test_a_program_that_names_all_its_operators_need_not_name_what_combines(capsys):
    env = environment(2)
    env.get_config().disable_auto_generated_uids()
    pairs = env.from_collection([("a", 1), ("a", 2)]).uid("pairs").map(tuple).uid("tuples").set_parallelism(1)
    sums = pairs.key_by(key_of).reduce(added, two_phase=True).uid("sums")
    sums.add_sink(print).uid("shown")
    env.explain()
    assert "Map -> Combine  x 1" in capsys.readouterr().out


def test_sums_by_field_are_combined_too():
    with combining(field_reduce("sum", 1), max_delay_ms=-1) as harness:
        harness.process_elements([("a", 1, "x"), ("a", 2, "y")])
        harness.end_input()
        assert harness.output_values == [("a", 0, ("a", 3, "x"))]


def test_nothing_becomes_none_behind_the_exchange_either():
    with OperatorHarness(ReduceOperatorFactory(COMBINED_KEY, lambda one, other: None, is_combined=True)()) as harness:
        harness.process_element(("a", 0, ("a", 1)))
        with pytest.raises(TypeError, match="leave out two_phase"):
            harness.process_element(("a", 0, ("a", 2)))


@pytest.mark.parametrize(
    ("stream_of", "parallelism"),
    [
        (lambda pairs: pairs, 1),
        (lambda pairs: pairs.forward(), 1),
        (lambda pairs: pairs.union(pairs.map(tuple).set_parallelism(2)), 2),
        (lambda pairs: pairs.union(pairs.rebalance()), 3),
        (lambda pairs: pairs.rebalance(), 3),
    ],
    ids=["operator", "forward", "union", "union with another way", "another way"],
)
def test_records_are_combined_where_they_are(stream_of, parallelism):
    pairs = environment(3).from_collection([("a", 1), ("a", 2)]).map(tuple).set_parallelism(1)
    sums = stream_of(pairs).key_by(key_of).sum(1, two_phase=True)
    exchange = sums._transformation.inputs[0]
    assert (exchange.inputs[0].name, exchange.inputs[0].parallelism) == ("Combine", parallelism)
    assert sums.execute_and_collect(limit=9)[-1] in [("a", 3), ("a", 6)]
