"""Several streams: connected, broadcast, joined by key; and calls that are waited for."""

import asyncio

from flinkbuf.common import Types
from flinkbuf.common.time import Time
from flinkbuf.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessJoinFunction,
)
from flinkbuf.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from matrix.models import grouped
from matrix.program import program
from matrix.sources import Timed
from matrix.values import shown
from matrix.written.keyed import END, first, hard_pairs, second

LEFT = [(f"k{number % 5}", number) for number in range(40)]
RIGHT = [(f"k{number % 7}", 100 + number) for number in range(30)]
RULES = [(number, f"rule {number}") for number in range(4)]
RULE_STATE = MapStateDescriptor("rules", Types.LONG(), Types.STRING())
HARD_STATE = MapStateDescriptor("hard", Types.STRING(), None)


class Sides(CoMapFunction):
    def map1(self, value):
        return "left", value

    def map2(self, value):
        return None if value[1] % 3 == 0 else ("right", value)


class Repeated(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * (value[1] % 3)

    def flat_map2(self, value):
        if value[1] % 2:
            yield value


class TimesOfBoth(CoProcessFunction):
    TAG = OutputTag("right")

    def process_element1(self, value, ctx):
        yield value, ctx.timestamp()

    def process_element2(self, value, ctx):
        yield self.TAG, (value, ctx.timestamp())


class Joined(KeyedCoProcessFunction):
    """Each pair of records of one key, whichever comes first."""

    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", None))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", None))

    def process_element1(self, value, ctx):
        self.left.add(value)
        for each in self.right.get():
            yield value, each

    def process_element2(self, value, ctx):
        self.right.add(value)
        for each in self.left.get():
            yield each, value


class JoinedAtTheEnd(KeyedCoProcessFunction):
    """How many records of each side a key has."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", None))

    def count(self, side, ctx):
        counts = self.counts.value() or [0, 0]
        counts[side] += 1
        self.counts.update(counts)
        ctx.timer_service().register_event_time_timer(END)

    def process_element1(self, value, ctx):
        self.count(0, ctx)

    def process_element2(self, value, ctx):
        self.count(1, ctx)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.counts.value()


class Told(BroadcastProcessFunction):
    """Records as they are; rules, once in each subtask, with how many came before them at least."""

    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULE_STATE).put(value[0], value[1])
        yield "rule", value[0]


class RulesAtTheEnd(KeyedBroadcastProcessFunction):
    """What the rules say of a key when all of them have come."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULE_STATE).put(value[0], value[1])

    def on_timer(self, timestamp, ctx):
        count = self.count.value()
        yield ctx.get_current_key(), count, ctx.get_broadcast_state(RULE_STATE).get(count % 5)


class HardRules(KeyedBroadcastProcessFunction):
    """Broadcast state that holds what hurts."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(HARD_STATE).put(shown(value[0]), value[0])

    def on_timer(self, timestamp, ctx):
        key = ctx.get_current_key()
        yield key, ctx.get_broadcast_state(HARD_STATE).get(shown(key))


class Answers(AsyncFunction):
    """None, one or two results, some of them late."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.002 * (value[1] % 3))
        return [value] * (value[1] % 3)


class Unreliable(AsyncFunction):
    """Each fifth call fails at its first try."""

    def open(self, runtime_context):
        self.tried = set()

    async def async_invoke(self, value):
        await asyncio.sleep(0)
        if value[1] % 5 == 0 and value not in self.tried:
            self.tried.add(value)
            raise ValueError("not now")
        return [value]


class Slow(AsyncFunction):
    """Each seventh call takes too long, and gives something else."""

    async def async_invoke(self, value):
        await asyncio.sleep(30 if value[1] % 7 == 0 else 0)
        return [value]

    def timeout(self, value):
        return [("too late", value[1])]


class NearPairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_timestamp()


def pairs_of(left, right):
    return [(one, other) for one in left for other in right if shown(one[0]) == shown(other[0])]


def times(values):
    return Timed((value, 10 * value[1]) for value in values)


@program(lambda: [("left", each) for each in LEFT] + [("right", each) for each in RIGHT if each[1] % 3])
def connected_maps(s):
    return s.records(LEFT).connect(s.records(RIGHT)).map(Sides())


@program(
    lambda: [each for each in LEFT for _ in range(each[1] % 3)] + [each for each in RIGHT if each[1] % 2],
)
def connected_flat_maps(s):
    left = s.records(LEFT).rebalance().map(s.stumble())
    return left.connect(s.records(RIGHT)).flat_map(Repeated())


@program(lambda: {"left": [(each, 10 * each[1]) for each in LEFT], "right": [(each, 10 * each[1]) for each in RIGHT]})
def connected_process(s):
    both = s.records(times(LEFT)).connect(s.records(times(RIGHT))).process(TimesOfBoth())
    return {"left": both, "right": both.get_side_output(TimesOfBoth.TAG)}


@program(lambda: [("left", each) for each in LEFT] + [("right", each) for each in RIGHT if each[1] % 3])
def connected_keyed_maps(s):
    both = s.records(LEFT).connect(s.records(RIGHT)).key_by(first, first)
    return both.map(Sides())


@program(lambda: pairs_of(LEFT, RIGHT))
def joined_by_key(s):
    return s.records(LEFT).key_by(first).connect(s.records(RIGHT).key_by(first)).process(Joined())


@program(lambda: pairs_of(hard_pairs()[:60], hard_pairs()[40:120]))
def joined_by_hard_keys(s):
    left, right = s.records(hard_pairs()[:60]), s.records(hard_pairs()[40:120]).rebalance().map(s.stumble())
    return left.connect(right).key_by(first, first).process(Joined())


# Times are ten times a record's number: LEFT has 0 to 390, NEAR 200 to 490.
NEAR = [(f"k{number % 7}", number) for number in range(20, 50)]
HUNDRED_MS = TumblingEventTimeWindows.of(Time.milliseconds(100))


@program(lambda: [(one, other) for one, other in pairs_of(LEFT, NEAR) if one[1] // 10 == other[1] // 10])
def joined_in_windows(s):
    left, near = s.records(times(LEFT)), s.records(times(NEAR)).map(s.stumble())
    return left.join(near).where(first).equal_to(first).window(HUNDRED_MS).apply(lambda one, other: (one, other))


@program(
    lambda: [
        (sum(is_left for _, is_left in found), len(found))
        for _, found in grouped(
            [(each, True) for each in LEFT] + [(each, False) for each in NEAR],
            lambda tagged: (tagged[0][0], tagged[0][1] // 10),
        )
    ]
)
def co_grouped_in_windows(s):
    left, near = s.records(times(LEFT)).rebalance().map(s.stumble()), s.records(times(NEAR))
    both = left.co_group(near).where(first).equal_to(first).window(HUNDRED_MS)
    return both.apply(lambda ones, others: [(len(ones), len(ones) + len(others))])


@program(
    lambda: [
        (one, other, 10 * max(one[1], other[1])) for one, other in pairs_of(LEFT, NEAR) if -3 <= other[1] - one[1] < 12
    ]
)
def joined_in_intervals(s):
    left, near = s.records(times(LEFT)), s.records(times(NEAR)).map(s.stumble())
    joined = left.key_by(first).interval_join(near.key_by(first))
    bounds = joined.between(Time.milliseconds(-30), Time.milliseconds(120)).upper_bound_exclusive()
    return bounds.process(NearPairs())


@program(
    lambda: [
        (key, [sum(each[1] < 100 for each in found), sum(each[1] >= 100 for each in found)])
        for key, found in grouped(LEFT + RIGHT, first)
    ]
)
def joined_at_the_end(s):
    return s.records(LEFT).connect(s.records(RIGHT)).key_by(first, first).process(JoinedAtTheEnd())


@program(lambda: pairs_of(LEFT, LEFT))
def joined_with_itself(s):
    left = s.records(LEFT)
    return left.connect(left).key_by(first, first).process(Joined())


@program(lambda way: LEFT + [("rule", number) for number, _ in RULES] * way.width, avoids=["width"])
def rules_in_every_subtask(s):
    return s.records(LEFT).rebalance().connect(s.records(RULES).broadcast(RULE_STATE)).process(Told())


@program(lambda: [(key, len(found), dict(RULES).get(len(found) % 5)) for key, found in grouped(LEFT + RIGHT, first)])
def rules_for_keys(s):
    keyed = s.records(LEFT).union(s.records(RIGHT).map(s.stumble())).key_by(first)
    return keyed.connect(s.records(RULES).broadcast(RULE_STATE)).process(RulesAtTheEnd())


@program(lambda: [(key, key) for key, _ in grouped(hard_pairs(), first)])
def rules_that_hurt(s):
    keyed = s.records(hard_pairs()).key_by(first)
    return keyed.connect(s.records(hard_pairs()).broadcast(HARD_STATE)).process(HardRules())


@program(lambda: [each for each in LEFT for _ in range(each[1] % 3)], order_by=lambda value: 0, output_width=1)
def calls_in_order(s):
    asked = AsyncDataStream.ordered_wait(s.records(LEFT), Answers(), Time.seconds(60), 7).set_parallelism(1)
    return asked.map(s.stumble()).set_parallelism(1)


@program(lambda: [each for each in LEFT for _ in range(each[1] % 3)])
def calls_in_no_order(s):
    return AsyncDataStream.unordered_wait(s.records(LEFT).rebalance(), Answers(), Time.seconds(60))


@program(lambda: LEFT)
def calls_that_are_tried_again(s):
    again = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ValueError))
    stream = s.records(LEFT).rebalance().map(s.stumble())
    return AsyncDataStream.unordered_wait_with_retry(stream, Unreliable(), Time.seconds(60), again)


@program(lambda: [("too late", each[1]) if each[1] % 7 == 0 else each for each in LEFT])
def calls_that_take_too_long(s):
    return AsyncDataStream.ordered_wait(s.records(LEFT).rebalance(), Slow(), Time.milliseconds(300))


@program(
    lambda: [(key, sorted(map(second, found))) for key, found in grouped([e for e in LEFT if e[1] % 3 == 2] * 2, first)]
)
def calls_before_state(s):
    asked = AsyncDataStream.unordered_wait(s.records(times(LEFT)), Answers(), Time.seconds(60), 5)
    twice = asked.filter(lambda value: value[1] % 3 == 2)
    return twice.key_by(first).connect(twice.filter(lambda value: False).key_by(first)).process(SortedNumbers())


class SortedNumbers(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))

    def process_element1(self, value, ctx):
        self.numbers.add(value[1])
        ctx.timer_service().register_event_time_timer(END)

    def process_element2(self, value, ctx):
        raise AssertionError("nothing comes from there")

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), sorted(self.numbers.get())
