"""Joins and co-groups of two streams in windows, and interval joins, as programs say them.

What comes of them is what Flink's CoGroupJoinITCase, IntervalJoinITCase and CoGroupedStreamsTest expect.
"""

import itertools

import pytest

from flinkbuf.common import Configuration, Duration, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    KeyedCoProcessFunction,
    KeySelector,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import (
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from flinkbuf.testing import OperatorHarness

WINDOW = TumblingEventTimeWindows.of(Time.milliseconds(3))
ONES = [("a", 0), ("a", 1), ("a", 2), ("b", 3), ("b", 4), ("b", 5), ("a", 6), ("a", 7), ("a", 8)]
TWOS = [("a", 0), ("a", 1), ("b", 3), ("c", 6), ("c", 7), ("c", 8)]


class LastField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[-1]


@pytest.fixture
def env():
    configuration = Configuration().set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


def timed(env, records, type_info=None):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LastField())
    return env.from_collection(records, type_info).assign_timestamps_and_watermarks(strategy)


def first(value):
    return value[0]


def results(stream):
    return sorted(stream.execute_and_collect())


def in_windows(streams):
    return streams.where(first).equal_to(first).window(WINDOW)


class Both(CoGroupFunction):
    def co_group(self, first, second):
        yield list(first), list(second)


class Pairs(JoinFunction):
    def join(self, first, second):
        return first, second


class EqualLetters(FlatJoinFunction):
    """No result, or two, or None for none."""

    def join(self, first, second):
        return None if first[1] % 2 else [(first, second)] * 2


class Gap(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_timestamp()


def pairs_in_windows(ones, twos):
    """What a join by the first field in windows of three milliseconds gives."""
    return sorted(
        (one, two) for one, two in itertools.product(ones, twos) if one[0] == two[0] and one[-1] // 3 == two[-1] // 3
    )


def test_a_co_group_sees_all_records_of_a_key_in_a_window_also_where_one_side_has_none(env):
    both = in_windows(timed(env, ONES).co_group(timed(env, TWOS))).apply(Both())
    assert results(both) == [
        ([], [("c", 6), ("c", 7), ("c", 8)]),
        ([("a", 0), ("a", 1), ("a", 2)], [("a", 0), ("a", 1)]),
        ([("a", 6), ("a", 7), ("a", 8)], []),
        ([("b", 3), ("b", 4), ("b", 5)], [("b", 3)]),
    ]


@pytest.mark.parametrize("function", [Pairs(), lambda one, two: (one, two)], ids=["object", "lambda"])
def test_a_join_gives_each_pair_of_a_key_in_a_window(env, function):
    joined = in_windows(timed(env, ONES).join(timed(env, TWOS))).apply(function)
    assert results(joined) == pairs_in_windows(ONES, TWOS)
    assert len(pairs_in_windows(ONES, TWOS)) == 9


def test_a_stream_can_be_joined_with_itself(env):
    ones = timed(env, ONES)
    assert results(in_windows(ones.join(ones)).apply(Pairs())) == pairs_in_windows(ONES, ONES)


def test_a_flat_join_gives_any_number_of_results(env):
    joined = in_windows(timed(env, ONES).join(timed(env, TWOS))).apply(EqualLetters())
    expected = [pair for pair in pairs_in_windows(ONES, TWOS) if pair[0][1] % 2 == 0]
    assert results(joined) == sorted(expected * 2)


def test_a_callable_may_yield_in_a_co_group_and_none_is_no_result(env):
    def first_only(ones, twos):
        return None if twos else ones

    both = in_windows(timed(env, ONES).co_group(timed(env, TWOS)))
    assert results(both.apply(first_only)) == [("a", 6), ("a", 7), ("a", 8)]


def test_what_is_no_iterable_is_refused_with_the_method(env):
    both = in_windows(timed(env, ONES).co_group(timed(env, TWOS)))
    with pytest.raises(TypeError, match=r"co_group\(\) must return an iterable of results or None.*int, 7"):
        results(both.apply(lambda ones, twos: 7))


def test_streams_of_declared_and_different_types_meet_in_one_window(env):
    ones = timed(env, [("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    twos = timed(env, [(1, "a", 2)], Types.ROW_NAMED(["n", "key", "at"], [Types.INT(), Types.STRING(), Types.LONG()]))
    joined = ones.join(twos).where(first, Types.STRING()).equal_to(lambda row: row.key, Types.STRING())
    pairs = joined.window(WINDOW).apply(lambda one, row: (one, row.n, row.at))
    assert results(pairs) == [(("a", 1), 1, 2)]


def test_the_result_has_the_declared_type_and_can_be_set_up_as_any_operator(env):
    both = in_windows(timed(env, ONES).co_group(timed(env, TWOS)))
    result = both.apply(lambda ones, twos: [len(ones)], Types.LONG()).set_parallelism(2).name("both").uid("both")
    assert (result.get_type(), result.get_name()) == (Types.LONG(), "both")


def test_trigger_evictor_and_lateness_are_those_of_the_windows(env):
    both = in_windows(timed(env, ONES).co_group(timed(env, TWOS)))
    changed = both.trigger(PurgingTrigger.of(EventTimeTrigger())).evictor(CountEvictor.of(1)).allowed_lateness(7)
    with OperatorHarness.of(changed.apply(Both())) as harness:
        harness.process_element((1, ("a", 0)), 0)
        harness.process_element((2, ("a", 1)), 1)
        harness.process_watermark(2)
        assert harness.output_values == [([], [("a", 1)])]
        harness.process_element((1, ("a", 2)), 2)  # late, but not too late: and what was there was purged
        assert harness.output_values[1:] == [([("a", 2)], [])]
        harness.process_watermark(9)
        harness.process_element((1, ("a", 2)), 2)
        assert len(harness.output_values) == 2
    with OperatorHarness.of(both.apply(Both())) as harness:  # which none of this has changed
        harness.process_element((1, ("a", 0)), 0)
        harness.process_watermark(2)
        harness.process_element((1, ("a", 2)), 2)
        assert harness.output_values == [([("a", 0)], [])]


def test_windows_may_merge_across_the_streams(env):
    streams = timed(env, [("a", 0), ("a", 30)]).co_group(timed(env, [("a", 8)])).where(first).equal_to(first)
    sessions = streams.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
    assert results(sessions.apply(Both())) == [([("a", 0)], [("a", 8)]), ([("a", 30)], [])]


def test_state_of_a_co_group_goes_on_after_a_restore(env):
    both = in_windows(timed(env, ONES).co_group(timed(env, TWOS))).apply(Both())
    with OperatorHarness.of(both) as harness:
        harness.process_element((1, ("a", 0)), 0)
        harness.process_element((2, ("b", 0)), 0)
        snapshot = harness.snapshot()
    with OperatorHarness.of(both, restore=snapshot) as harness:
        harness.process_element((2, ("a", 1)), 1)
        harness.process_watermark(2)
        assert sorted(harness.output_values) == [([], [("b", 0)]), ([("a", 0)], [("a", 1)])]


def test_functions_and_key_selectors_are_opened_and_closed(env):
    calls = []

    class Noting(KeySelector):
        def open(self, runtime_context):
            calls.append(("open", type(self).__name__, runtime_context is not None))

        def close(self):
            calls.append(("close", type(self).__name__))

        def get_key(self, value):
            return value[0]

    class Joining(JoinFunction):
        open, close = Noting.open, Noting.close

        def join(self, first, second):
            return first[1] + second[1]

    made = in_windows_with(Noting(), timed(env, ONES).join(timed(env, TWOS))).apply(Joining())
    harness = OperatorHarness(made._transformation.factory())
    with harness:
        harness.process_element((1, ("a", 0)), 0)
        harness.process_element((2, ("a", 1)), 1)
        harness.process_watermark(2)
        assert harness.output_values == [1]
    assert calls == [
        ("open", "Noting", True),
        ("open", "Joining", True),
        ("close", "Joining"),
        ("close", "Noting"),
    ]


def in_windows_with(selector, streams):
    return streams.where(selector).equal_to(first).window(WINDOW)


def test_what_a_function_does_to_a_record_is_not_seen_in_its_other_pairs(env):
    def mark(one, two):
        one.append("seen")
        return one

    ones, twos = timed(env, [["a", 0]]), timed(env, [["a", 1], ["a", 2]])
    assert results(in_windows(ones.join(twos)).apply(mark)) == [["a", 0, "seen"]] * 2


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda a, b: a.join([1]), TypeError, "join takes a DataStream, got list"),
        (lambda a, b: a.co_group(None), TypeError, "co_group takes a DataStream, got NoneType"),
        (lambda a, b: a.join(b).where(7), TypeError, "key_selector should be type of KeySelector"),
        (lambda a, b: a.join(b).where(first).equal_to("key"), TypeError, "key_selector should be type of KeySelector"),
        (
            lambda a, b: a.join(b).where(first, Types.INT()).equal_to(first, Types.STRING()),
            ValueError,
            "The keys for the two inputs are not equal: first key = Integer, second",
        ),
        (lambda a, b: a.join(b).window(WINDOW), TypeError, "which records belong together: .where"),
        (lambda a, b: a.join(b).where(first).equal_to(first).window(3), TypeError, "WindowAssigner is needed"),
        (lambda a, b: in_windows(a.join(b)).trigger("soon"), TypeError, "Trigger is needed"),
        (lambda a, b: in_windows(a.join(b)).allowed_lateness(-1), ValueError, "cannot be negative"),
        (lambda a, b: in_windows(a.join(b)).apply(7), TypeError, "JoinFunction, a FlatJoinFunction or a callable"),
        (lambda a, b: in_windows(a.co_group(b)).apply(None), TypeError, "CoGroupFunction or a callable"),
        (lambda a, b: a.interval_join(b), AttributeError, "call key_by"),
        (lambda a, b: a.key_by(first).interval_join(b), TypeError, "both streams keyed: call key_by"),
        (lambda a, b: interval(a, b, 2, 1), ValueError, "lower_bound <= upper_bound must be fulfilled, got 2 ms and 1"),
        (lambda a, b: joining(a, b).between(1, 2), TypeError, "lower_bound must be a Time, a Duration"),
        (
            lambda a, b: joining(a, b).in_processing_time().between(Time.seconds(0), Time.seconds(1)),
            ValueError,
            "only supported in event time",
        ),
        (lambda a, b: interval(a, b, 0, 1).process(lambda one, two: one), TypeError, "must be a ProcessJoinFunction"),
        (lambda a, b: interval(a, b, 0, 1).side_output_left_late_data("late"), TypeError, "OutputTag is needed"),
        (
            lambda a, b: together(a.key_by(first, Types.INT()), b.key_by(first, Types.LONG())),
            ValueError,
            "The keys for the two inputs are not equal: first key = Integer, second key = Long",
        ),
        (
            lambda a, b: connected(a.key_by(first, Types.INT()), b.key_by(first, Types.LONG())),
            ValueError,
            "The keys for the two inputs are not equal: first key = Integer, second key = Long",
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_said(env, build, error, text):
    with pytest.raises(error, match=text):
        build(env.from_collection(ONES), env.from_collection(TWOS))


def test_streams_of_two_environments_cannot_be_joined(env):
    other = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ValueError, match="different environments"):
        env.from_collection(ONES).join(other.from_collection(TWOS))


def joining(ones, twos):
    return ones.key_by(first).interval_join(twos.key_by(first))


def interval(ones, twos, lower, upper):
    return joining(ones, twos).between(Duration.of_millis(lower), Duration.of_millis(upper))


def together(ones, twos):
    """Pairs of one time."""
    return ones.interval_join(twos).between(Duration.of_millis(0), Duration.of_millis(0)).process(Gap())


class Meeting(KeyedCoProcessFunction):
    """Gives a pair when both of its records are there, as an interval join of one time does."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", None))

    def process_element1(self, value, ctx):
        if self.seen.value() is not None:
            yield value, self.seen.value(), ctx.timestamp()
        self.seen.update(value)

    process_element2 = process_element1


def connected(ones, twos):
    return ones.connect(twos).process(Meeting())


@pytest.mark.parametrize("types", [(Types.INT(), None), (None, Types.INT())], ids=["first", "second"])
@pytest.mark.parametrize("build", [together, connected])
def test_equal_keys_meet_where_one_stream_alone_says_their_type(env, build, types):
    # Numbers below 0 have another hash as INT than as whatever they are. They come last, since an operator looks
    # whether its first keys are its own, and at few of the others.
    records = [(number, 0) for number in (*range(1000), *range(-9, 0))]
    env.set_parallelism(3)
    ones, twos = (timed(env, records).key_by(first, each) for each in types)
    assert results(build(ones, twos)) == sorted((record, record, 0) for record in records)


@pytest.mark.parametrize("excludes_lower", [False, True])
@pytest.mark.parametrize("excludes_upper", [False, True])
def test_an_interval_join_has_its_bounds_or_not(env, excludes_lower, excludes_upper):
    records = [("key", time) for time in range(4)]
    joined = interval(timed(env, records), timed(env, records), 0, 2)
    joined = joined.lower_bound_exclusive() if excludes_lower else joined
    joined = joined.upper_bound_exclusive() if excludes_upper else joined
    distances = range(0 + excludes_lower, 3 - excludes_upper)
    assert results(joined.process(Gap())) == [
        (("key", a), ("key", b), b) for a, b in itertools.product(range(4), repeat=2) if b - a in distances
    ]


def test_an_interval_join_keeps_keys_apart_and_takes_declared_types(env):
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    joined = interval(timed(env, [("a", 0), ("b", 1)], pair), timed(env, [("a", 1), ("c", 1)], pair), -1, 1)
    result = joined.process(Gap(), Types.TUPLE([pair, pair, Types.LONG()]))
    assert result.get_name() == "Interval Join"
    assert results(result) == [(("a", 0), ("a", 1), 1)]


def test_late_records_of_either_side_have_their_side_output(env):
    tags = [OutputTag("left", Types.LONG()), OutputTag("right", Types.LONG())]
    joined = interval(env.from_collection([]), env.from_collection([]), -1, 1)
    joined = joined.side_output_left_late_data(tags[0]).side_output_right_late_data(tags[1]).process(Gap())
    with OperatorHarness.of(joined) as harness:
        harness.process_watermark(5, input=1)
        harness.process_watermark(5, input=2)
        harness.process_element(("a", 3), 3, input=1)
        harness.process_element(("a", 4), 4, input=2)
        assert [[each.value for each in harness.side_output(tag)] for tag in tags] == [[("a", 3)], [("a", 4)]]
        assert harness.output_values == []


def test_in_batch_an_interval_join_gives_the_same(env):
    joined = interval(env.from_collection([]), env.from_collection([]), -1, 1).process(Gap())
    with OperatorHarness.of(joined, is_batch=True) as harness:
        for record in reversed(ONES):
            harness.process_element(record, record[1], input=1)
        for record in TWOS:
            harness.process_element(record, record[1], input=2)
        harness.end_input(1)
        harness.end_input(2)
        expected = [(a, b) for a in ONES for b in TWOS if a[0] == b[0] and abs(a[1] - b[1]) <= 1]
        assert sorted(value[:2] for value in harness.output_values) == sorted(expected)
