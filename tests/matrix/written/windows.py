"""Windows of all kinds, with keys and without, with late records and triggers of their own."""

from flinkbuf.common.time import Time
from flinkbuf.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkbuf.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flinkbuf.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flinkbuf.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from matrix.models import LateWindows, by_time, grouped, in_counts, in_fixed_windows, in_sessions
from matrix.program import program
from matrix.sources import RECORD, WATERMARK, Exact, Timed
from matrix.written.keyed import first, hard_pairs, second

PAIRS = Timed(((f"k{number % 4}", number), 7 * number + (number * 53) % 60 - 20) for number in range(60))
HARD = Timed((pair, 7 * pair[1] + (pair[1] * 53) % 60) for pair in hard_pairs())
LATE = Exact(
    *[
        step
        for number in range(40)
        for step in (
            (RECORD, (f"k{number % 3}", number), 10 * number - (number * 7 % 11) * 12),
            *([(WATERMARK, 10 * number - 15)] if number % 2 else []),
        )
    ]
)


def ms(number):
    return Time.milliseconds(number)


class Contents(ProcessWindowFunction):
    """The key, the window's borders and the sorted numbers in it."""

    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, sorted(number for _, number in elements)


class Applied(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window.start, window.end, sorted(number for _, number in inputs))]


class InOrder(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, [number for _, number in elements]


class Gather(AggregateFunction):
    """A list that is changed in place."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        acc_a.extend(acc_b)
        return acc_a


class Gathered(ProcessWindowFunction):
    def process(self, key, context, elements):
        for numbers in elements:
            yield key, context.window().start, context.window().end, sorted(numbers)


class Reduced(ProcessWindowFunction):
    def process(self, key, context, elements):
        for _, number in elements:
            yield key, context.window().start, number


class AllContents(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, sorted(number for _, number in elements)


class AllApplied(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.start, sorted(number for _, number in inputs)


class WithState(ProcessWindowFunction):
    """How many windows of a key have fired, and what each knows of itself; in the order of windows."""

    def open(self, runtime_context):
        self.fired = ValueStateDescriptor("fired", None)
        self.sums = ListStateDescriptor("sums", None)

    def process(self, key, context, elements):
        fired = context.global_state().get_state(self.fired)
        fired.update((fired.value() or 0) + 1)
        own = context.window_state().get_list_state(self.sums)
        own.add(sum(number for _, number in elements))
        yield key, fired.value(), list(own.get())

    def clear(self, context):
        context.window_state().get_list_state(self.sums).clear()


class ByNumber(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 5 + element[1] % 40


def windows_of(pairs, size, slide=None, offset=0):
    """(key, start, end, sorted numbers) of all windows of all keys."""
    return [
        (key, *window, sorted(number for (_, number), _ in inside))
        for key, found in grouped(pairs, lambda pair: pair[0][0])
        for window, inside in in_fixed_windows(found, size, slide, offset)
    ]


def sessions_of(pairs, gap):
    return [
        (key, *window, sorted(number for (_, number), _ in inside))
        for key, found in grouped(pairs, lambda pair: pair[0][0])
        for window, inside in in_sessions(found, gap)
    ]


def late(way, size, slide=None, lateness=0):
    """What fires of LATE, and what is too late."""
    fired, left = [], []
    for key, steps in _scripts_of_keys():
        model = LateWindows(size, slide, lateness, way.is_batch).play(steps)
        fired += [(key, *window, sorted(map(second, values))) for window, values in model.fired]
        left += model.late
    return {"fired": fired, "late": left}


def _scripts_of_keys():
    keys = sorted({step[1][0] for step in LATE.steps if step[0] == RECORD})
    return [(key, [step for step in LATE.steps if step[0] == WATERMARK or step[1][0] == key]) for key in keys]


def keyed(s, pairs=PAIRS):
    return s.records(pairs).key_by(first)


@program(lambda: windows_of(PAIRS, 50), order_by=first)
def tumbling_windows(s):
    return keyed(s).window(TumblingEventTimeWindows.of(ms(50))).process(Contents())


@program(lambda: windows_of(PAIRS, 50, offset=13))
def tumbling_windows_with_an_offset(s):
    return keyed(s).window(TumblingEventTimeWindows.of(ms(50), ms(13))).apply(Applied())


@program(lambda: windows_of(PAIRS, 50, 20), order_by=first)
def sliding_windows(s):
    return keyed(s).window(SlidingEventTimeWindows.of(ms(50), ms(20))).process(Contents())


@program(lambda: windows_of(PAIRS, 60, 20))
def sliding_windows_that_gather(s):
    return keyed(s).window(SlidingEventTimeWindows.of(ms(60), ms(20))).aggregate(Gather(), Gathered())


@program(lambda: [(key, start, sum(numbers)) for key, start, _, numbers in windows_of(PAIRS, 50)])
def windows_that_reduce(s):
    windows = keyed(s).window(TumblingEventTimeWindows.of(ms(50)))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]), Reduced())


@program(lambda: [(key, start, max(numbers)) for key, start, _, numbers in windows_of(PAIRS, 40, 20)])
def sliding_windows_that_reduce(s):
    windows = keyed(s).window(SlidingEventTimeWindows.of(ms(40), ms(20)))
    return windows.reduce(lambda a, b: (a[0], max(a[1], b[1])), Reduced())


@program(lambda: windows_of(HARD, 200))
def windows_of_hard_keys(s):
    return keyed(s, HARD).window(TumblingEventTimeWindows.of(ms(200))).process(Contents())


@program(lambda: windows_of(HARD, 400, 200))
def windows_of_hard_keys_that_gather(s):
    return keyed(s, HARD).window(SlidingEventTimeWindows.of(ms(400), ms(200))).aggregate(Gather(), Gathered())


@program(lambda: sessions_of(PAIRS, 25), order_by=first)
def sessions(s):
    return keyed(s).window(EventTimeSessionWindows.with_gap(ms(25))).process(Contents())


@program(lambda: sessions_of(PAIRS, 25))
def sessions_that_gather(s):
    return keyed(s).window(EventTimeSessionWindows.with_gap(ms(25))).aggregate(Gather(), Gathered())


@program(lambda: [(key, start, sum(numbers)) for key, start, _, numbers in sessions_of(PAIRS, 25)])
def sessions_that_reduce(s):
    windows = keyed(s).window(EventTimeSessionWindows.with_gap(ms(25)))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]), Reduced())


@program(lambda: sessions_of(PAIRS, lambda value: 5 + value[1] % 40))
def sessions_with_gaps_of_their_own(s):
    return keyed(s).window(DynamicEventTimeSessionWindows.with_dynamic_gap(ByNumber())).process(Contents())


@program(lambda: sessions_of(HARD, 150))
def sessions_of_hard_keys(s):
    return keyed(s, HARD).window(EventTimeSessionWindows.with_gap(ms(150))).process(Contents())


@program(
    lambda way: [
        (key, [number for (_, number), _ in window])
        for key, found in grouped(PAIRS, lambda pair: pair[0][0])
        for window in in_counts(by_time(found) if way.is_batch else found, 4)
    ],
    order_by=first,
)
def count_windows(s):
    return keyed(s).count_window(4).process(InOrder())


@program(
    lambda way: [
        (key, [number for (_, number), _ in window])
        for key, found in grouped(PAIRS, lambda pair: pair[0][0])
        for window in in_counts(by_time(found) if way.is_batch else found, 5, 2)
    ],
    order_by=first,
)
def sliding_count_windows(s):
    return keyed(s).count_window(5, 2).process(InOrder())


@program(
    lambda way: [
        (key, [number for (_, number), _ in window])
        for key, found in grouped(PAIRS, lambda pair: pair[0][0])
        for window in in_counts(by_time(found) if way.is_batch else found, 3)
    ],
    order_by=first,
)
def global_windows_with_a_trigger(s):
    windows = keyed(s).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
    return windows.process(InOrder())


@program(lambda: [(start, numbers) for _, start, _, numbers in windows_of(_one_key(), 50)])
def windows_of_all(s):
    return s.records(PAIRS).window_all(TumblingEventTimeWindows.of(ms(50))).process(AllContents())


@program(lambda: [(start, numbers) for _, start, _, numbers in sessions_of(_one_key(), 10)])
def sessions_of_all(s):
    stream = s.records(PAIRS).rebalance().map(s.stumble())
    return stream.window_all(EventTimeSessionWindows.with_gap(ms(10))).apply(AllApplied())


def _one_key():
    return [(("all", number), at) for (_, number), at in PAIRS]


@program(
    lambda: [
        (key, place, [sum(numbers)])
        for key, found in grouped(windows_of(PAIRS, 50), first)
        for place, (_, _, _, numbers) in enumerate(found, 1)
    ],
    order_by=first,
)
def windows_with_state(s):
    return keyed(s).window(TumblingEventTimeWindows.of(ms(50))).process(WithState())


@program(lambda way: late(way, 60), avoids=["unaligned"])
def late_records(s):
    tag = OutputTag("late")
    windows = keyed(s, LATE).window(TumblingEventTimeWindows.of(ms(60))).side_output_late_data(tag)
    fired = windows.process(Contents())
    return {"fired": fired, "late": fired.get_side_output(tag)}


@program(lambda way: late(way, 60, lateness=30), avoids=["unaligned"])
def late_records_that_are_waited_for(s):
    tag = OutputTag("late")
    windows = keyed(s, LATE).window(TumblingEventTimeWindows.of(ms(60))).allowed_lateness(30)
    fired = windows.side_output_late_data(tag).process(Contents())
    return {"fired": fired, "late": fired.get_side_output(tag)}


@program(lambda way: late(way, 60, 20, 15), avoids=["unaligned"])
def late_records_of_sliding_windows_that_gather(s):
    tag = OutputTag("late")
    windows = keyed(s, LATE).window(SlidingEventTimeWindows.of(ms(60), ms(20))).allowed_lateness(15)
    fired = windows.side_output_late_data(tag).aggregate(Gather(), Gathered())
    return {"fired": fired, "late": fired.get_side_output(tag)}


@program(
    lambda way: [
        (key, sorted(number for (_, number), _ in inside[: 2 * place]))
        for key, found in grouped(PAIRS, lambda pair: pair[0][0])
        for _, inside in in_fixed_windows(by_time(found) if way.is_batch else found, 100)
        for place in range(1, 1 + len(inside) // 2)
    ]
)
def windows_that_fire_early(s):
    windows = keyed(s).window(TumblingEventTimeWindows.of(ms(100))).trigger(CountTrigger.of(2))
    return windows.process(Contents()).map(lambda result: (result[0], result[3]))


@program(
    lambda: windows_of(_rising(), 100),
    avoids=["batch"],
)
def windows_that_fire_on_and_on(s):
    """With each watermark behind a multiple of 100 ms at least once: at the end of the window only."""
    windows = keyed(s, _rising()).window(TumblingEventTimeWindows.of(ms(100)))
    return windows.trigger(ContinuousEventTimeTrigger.of(ms(100))).process(Contents())


def _rising():
    return Timed(((f"k{number % 4}", number), 7 * number) for number in range(60))


@program(
    lambda: [
        (key, start + size, sum(numbers))
        for size in (100,)
        for key, found in grouped(windows_of(PAIRS, 50), first)
        for start, numbers in _in_hundreds(found)
    ]
)
def windows_of_windows(s):
    sums = keyed(s).window(TumblingEventTimeWindows.of(ms(50))).reduce(lambda a, b: (a[0], a[1] + b[1]))
    again = sums.rebalance().map(s.stumble()).key_by(first).window(TumblingEventTimeWindows.of(ms(100)))
    return again.process(Contents()).map(lambda result: (result[0], result[2], sum(result[3])))


def _in_hundreds(found):
    hundreds = {}
    for _, start, _, numbers in found:
        hundreds.setdefault(start // 100 * 100, []).extend(numbers)
    return hundreds.items()
