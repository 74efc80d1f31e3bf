"""Which pairs an interval join makes, with which time, how long it keeps records, and what becomes of late ones.

The behaviours are those of Flink's IntervalJoinOperatorTest.
"""

import itertools

import pytest

from flinkbuf._core.operators.interval_join_operator import IntervalJoinOperator
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.chain.process_functions import ProcessJoinFunction
from flinkbuf.streaming.state.state import MapStateDescriptor
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.types import Types
from flinkbuf.types.values import StreamRecord, Watermark

LATE = (OutputTag("left_late"), OutputTag("right_late"))
MAX, MIN = 2**63 - 1, -(2**63)


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


def of(value):
    return value[0]


def descriptors():
    return MapStateDescriptor("left", Types.LONG(), None), MapStateDescriptor("right", Types.LONG(), None)


def harness_of(lower, upper, function=None, late=(None, None), **options):
    """An operator over records ("key", time, side); bounds are included."""
    operator = IntervalJoinOperator(
        function or Pair(), CombinedWatermark(2), (of, of), (lower, upper), late, descriptors()
    )
    return OperatorHarness(operator, **options)


def left(harness, time):
    harness.process_element(("key", time, "left"), time, input=1)


def right(harness, time):
    harness.process_element(("key", time, "right"), time, input=2)


def watermark(harness, time):
    for number in (1, 2):
        harness.process_watermark(time, input=number)


def pairs_of(harness):
    """(time of the left one, time of the right one), each with the time of the later one."""
    records = [each for each in harness.output if isinstance(each, StreamRecord)]
    for record in records:
        (_, left_time, left_side), (_, right_time, right_side) = record.value
        assert (left_side, right_side, record.timestamp) == ("left", "right", max(left_time, right_time))
    return [(record.value[0][1], record.value[1][1]) for record in records]


def buffered(harness):
    """Times for which each side has records of the key."""
    states = [harness.context.keyed_state.get_internal_state(each) for each in descriptors()]
    harness.operator.key_context.set_key("key")
    return tuple(sorted(state.keys()) for state in states)


@pytest.mark.parametrize("is_left_faster", [True, False])
@pytest.mark.parametrize(
    ("lower", "upper"), [(-2, -1), (-1, 1), (1, 2), (-2, -2), (0, 0), (1, 1), (0, 3), (-3, 0), (1, -1), (-9, 9)]
)
def test_all_pairs_within_the_bounds_are_joined_whichever_side_is_faster(lower, upper, is_left_faster):
    with harness_of(lower, upper) as harness:
        sides = ((left, 1), (right, 2)) if is_left_faster else ((right, 2), (left, 1))
        for give, number in sides:
            for time in range(1, 5):
                give(harness, time)
                harness.process_watermark(time, input=number)
        expected = [(a, b) for a, b in itertools.product(range(1, 5), repeat=2) if lower <= b - a <= upper]
        assert sorted(pairs_of(harness)) == expected


@pytest.mark.parametrize(
    ("lower", "upper", "after_1", "after_4"),
    [
        (-1, 0, ([2, 3, 4, 5], [1, 2, 3, 4, 5]), ([5], [4, 5])),
        (0, 1, ([1, 2, 3, 4, 5], [2, 3, 4, 5]), ([4, 5], [5])),
        (-2, -1, ([2, 3, 4, 5], [1, 2, 3, 4, 5]), ([5], [3, 4, 5])),
        (1, 2, ([1, 2, 3, 4, 5], [2, 3, 4, 5]), ([3, 4, 5], [5])),
        (-1, 2, ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]), ([3, 4, 5], [4, 5])),
    ],
)
def test_a_record_is_kept_until_nothing_can_match_it(lower, upper, after_1, after_4):
    with harness_of(lower, upper) as harness:
        for give in (left, right):
            for time in range(1, 6):
                give(harness, time)
        for time, expected in ((1, after_1), (4, after_4), (5 + max(upper, -lower), ([], []))):
            watermark(harness, time)
            assert buffered(harness) == expected
        assert len(harness.operator.timers.service("CLEANUP_TIMER", harness.operator)) == 0


def test_what_was_kept_is_joined_after_a_restore():
    with harness_of(-1, 1) as harness:
        for time in range(1, 4):
            left(harness, time), harness.process_watermark(time, input=1)
            right(harness, time), harness.process_watermark(time, input=2)
        snapshot = harness.snapshot()
        assert sorted(pairs_of(harness)) == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
    with harness_of(-1, 1, restore=snapshot) as harness:
        left(harness, 4), right(harness, 4)
        assert sorted(pairs_of(harness)) == [(3, 4), (4, 3), (4, 4)]
        watermark(harness, 5)
        assert buffered(harness) == ([], [])


def test_a_snapshot_does_not_see_what_comes_after_it():
    with harness_of(0, 0) as harness:
        left(harness, 1)
        snapshot = harness.snapshot()
        left(harness, 1)
    with harness_of(0, 0, restore=snapshot) as harness:
        right(harness, 1)
        assert pairs_of(harness) == [(1, 1)]


def test_the_function_is_told_all_three_times():
    class Times(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            assert isinstance(ctx, ProcessJoinFunction.Context)
            return [(ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())]

    with harness_of(-5, 5, Times()) as harness:
        left(harness, 3), right(harness, 1), left(harness, 0)
        assert harness.output == [StreamRecord((3, 1, 3), 3), StreamRecord((0, 1, 1), 1)]


def test_a_context_is_good_for_one_call():
    class Keeping(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            self.ctx = ctx

    function = Keeping()
    with harness_of(0, 0, function) as harness:
        left(harness, 1), right(harness, 1)
        for method in (function.ctx.get_timestamp, function.ctx.get_left_timestamp, function.ctx.get_right_timestamp):
            with pytest.raises(RuntimeError, match="good for one call"):
                method()


def test_a_function_has_side_outputs():
    tag = OutputTag("far")

    class Far(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield tag, right[1] - left[1]

    with harness_of(0, 9, Far()) as harness:
        left(harness, 1), right(harness, 8)
        assert harness.output_values == [] and harness.side_output(tag) == [StreamRecord(7, 8)]


@pytest.mark.parametrize(("give", "side"), [(left, "left"), (right, "right")])
def test_a_record_without_a_timestamp_is_refused(give, side):
    with harness_of(0, 0) as harness:
        with pytest.raises(ValueError, match=f"record of the {side} stream .* has no timestamp.*assign_timestamps"):
            harness.process_element(("key", 0, side), input=1 if side == "left" else 2)


def test_what_comes_behind_the_watermark_is_joined_with_nothing():
    with harness_of(-1, 1) as harness:
        for time in (1, 2, 3):
            left(harness, time), right(harness, time)
        watermark(harness, 3)
        before = len(pairs_of(harness))
        left(harness, 2), right(harness, 2)
        assert len(pairs_of(harness)) == before
        left(harness, 3)  # at the watermark is not late
        assert pairs_of(harness)[before:] == [(3, 3)]


def test_late_records_go_to_the_side_output_of_their_side():
    with harness_of(-1, 1, late=tuple(tag.tag_id for tag in LATE)) as harness:
        left(harness, 3), right(harness, 3)
        harness.process_watermark(5, input=1)
        left(harness, 1)  # the other side is not as far, so event time stands still and nothing is late
        harness.process_watermark(3, input=2)
        left(harness, 1), right(harness, 2)
        assert pairs_of(harness) == [(3, 3)]
        assert harness.side_output(LATE[0]) == [StreamRecord(("key", 1, "left"), 1)]
        assert harness.side_output(LATE[1]) == [StreamRecord(("key", 2, "right"), 2)]


def test_pairs_come_in_the_order_of_their_times_and_then_of_their_arrival():
    class Second(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield right[1]

    with harness_of(-9, 9, Second()) as harness:
        for time, name in ((5, "a"), (3, "b"), (5, "c"), (4, "d")):
            harness.process_element(("key", name), time, input=2)
        left(harness, 4)
        assert harness.output_values == ["b", "d", "a", "c"]


def test_keys_do_not_meet():
    with harness_of(0, 0) as harness:
        harness.process_element(("a", 1, "left"), 1, input=1)
        harness.process_element(("b", 1, "right"), 1, input=2)
        assert harness.output == []


def test_what_a_function_does_to_a_record_no_other_call_sees():
    class Changing(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            left.append("seen"), right.append("seen")
            yield list(left), list(right)

    with harness_of(0, 0, Changing()) as harness:
        harness.process_element(["key", 1], 7, input=1)
        harness.process_element(["key", 2], 7, input=1)
        harness.process_element(["key", 3], 7, input=2)
        harness.process_element(["key", 4], 7, input=2)
        assert harness.output_values == [
            (["key", each, "seen"], ["key", other, "seen"]) for other in (3, 4) for each in (1, 2)
        ]


@pytest.mark.parametrize(("lower", "upper"), [(MIN + 1, MAX), (-MAX, MAX)])
def test_bounds_without_end_do_not_wrap_around(lower, upper):
    with harness_of(lower, upper) as harness:
        left(harness, -7), right(harness, 10**15), left(harness, 10**15)
        watermark(harness, 10**16)
        assert buffered(harness) == ([-7, 10**15], [10**15])
        right(harness, 10**16)
        assert pairs_of(harness) == [(-7, 10**15), (10**15, 10**15), (-7, 10**16), (10**15, 10**16)]
        watermark(harness, MAX)


def test_the_functions_error_is_found_with_its_record():
    class Failing(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            raise KeyError("broken")

    with harness_of(0, 0, Failing()) as harness:
        left(harness, 1)
        with pytest.raises(KeyError, match="broken"):
            right(harness, 1)
        assert harness.operator.is_in_function and harness.operator.value_in_hand == ("key", 1, "right")


def test_at_the_end_of_event_time_nothing_is_kept():
    with harness_of(-1, 1) as harness:
        for time in (3, 1, 2):
            left(harness, time)
        for time in (2, 4):
            right(harness, time)
        watermark(harness, MAX)
        assert sorted(pairs_of(harness)) == [(1, 2), (2, 2), (3, 2), (3, 4)]
        assert harness.output[-1] == Watermark(MAX) and buffered(harness) == ([], [])
