"""Windows over event time, keyed: every assigner, every kind of function."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

EVENTS = [("a", 1, 1), ("b", 2, 2), ("a", 5, 3), ("a", 12, 4), ("b", 11, 5), ("a", 3, 6), ("a", 25, 7), ("b", -4, 8)]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window(), [element[2] for element in elements], type(elements).__name__


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window.start, window.end, window.max_timestamp(), [value[2] for value in inputs])]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, list(elements)


class ApplyResult(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window, list(inputs)


class LastTime(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], max(value1[1], value2[1]), value1[2] + value2[2]


class Stamped(ProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.timestamp()


class StateOfWindows(ProcessWindowFunction):
    """Fires several times in a window; counts them in the window's state and in the key's."""

    def process(self, key, context, elements):
        in_window = context.window_state().get_state(ValueStateDescriptor("in_window", Types.INT()))
        of_key = context.global_state().get_state(ValueStateDescriptor("of_key", Types.INT()))
        in_window.update((in_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)
        yield key, context.window().start, in_window.value(), of_key.value()

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("in_window", Types.INT())).clear()


class EveryTwo(Trigger):
    """Fires and empties at every second record, and with what is left at the end of the window."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        seen = ctx.get_partitioned_state(ListStateDescriptor("seen", Types.INT()))
        seen.add(1)
        if len(list(seen.get())) < 2:
            return TriggerResult.CONTINUE
        seen.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(ListStateDescriptor("seen", Types.INT())).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def _keyed(env, events=EVENTS):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    return env.from_collection(events, EVENT).assign_timestamps_and_watermarks(strategy).key_by(lambda event: event[0])


def _tumbling(env):
    return _keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def _sorted(stream):
    return sorted(map(repr, stream.execute_and_collect()))


def tumbling(env):
    return _sorted(_tumbling(env).process(Contents()))


def tumbling_in_order_of_time(env):
    windows = _keyed(env, [event for event in EVENTS if event[0] == "a"]).window(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )
    return list(windows.process(Contents()).execute_and_collect())


def tumbling_with_offset(env):
    return _sorted(
        _keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3))).process(Contents())
    )


def sliding(env):
    windows = _keyed(env).window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)))
    return _sorted(windows.process(Contents()))


def sliding_with_offset_and_gaps(env):
    windows = _keyed(env).window(
        SlidingEventTimeWindows.of(Time.milliseconds(3), Time.milliseconds(7), Time.milliseconds(1))
    )
    return _sorted(windows.process(Contents()))


def sessions(env):
    return _sorted(_keyed(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(Contents()))


def sessions_with_a_gap_of_each_record(env):
    return _sorted(_keyed(env).window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Contents()))


def sessions_aggregated(env):
    events = [("a", 1, 1), ("a", 3, 2), ("a", 20, 3), ("b", 2, 4)]
    windows = _keyed(env, events).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    return _sorted(windows.aggregate(Mean(), WithWindow()))


def sessions_reduced(env):
    events = [("a", 1, 1), ("a", 3, 2), ("a", 20, 3), ("b", 2, 4), ("a", 24, 5)]
    windows = _keyed(env, events).window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    return _sorted(windows.reduce(LastTime()))


def reduced(env):
    return _sorted(_tumbling(env).reduce(LastTime()))


def reduced_with_window_function(env):
    return _sorted(_tumbling(env).reduce(lambda one, two: (one[0], two[1], one[2] + two[2]), WithWindow()))


def aggregated(env):
    return _sorted(_tumbling(env).aggregate(Mean()))


def aggregated_with_window_function(env):
    pickled = Types.PICKLED_BYTE_ARRAY()
    by_process = _tumbling(env).aggregate(Mean(), WithWindow(), accumulator_type=pickled)
    return [_sorted(by_process), _sorted(_tumbling(env).aggregate(Mean(), ApplyResult()))]


def aggregated_with_types(env):
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    stream = _tumbling(env).aggregate(Mean(), accumulator_type=accumulator, output_type=Types.DOUBLE())
    return [str(stream.get_type()), _sorted(stream)]


def applied(env):
    return _sorted(_tumbling(env).apply(Apply()))


def timestamps_of_results(env):
    stream = _tumbling(env).apply(Apply()).process(Stamped())
    return _sorted(stream)


def windows_of_windows(env):
    sums = _tumbling(env).reduce(LastTime(), WithWindow()).map(lambda result: result[2][0], EVENT)
    windows = sums.key_by(lambda event: "all").window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    return _sorted(windows.reduce(lambda one, two: ("all", 0, one[2] + two[2])))


def windows_in_parallel(env):
    env.set_parallelism(2)
    events = [(f"k{number % 13}", number, number) for number in range(200)]
    windows = _keyed(env, events).window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    return _sorted(windows.aggregate(Mean(), WithWindow()))


def global_windows_by_count(env):
    windows = _keyed(env).window(GlobalWindows.create())
    kept = windows.trigger(CountTrigger.of(2)).process(Contents())
    purged = _keyed(env).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return [_sorted(kept), _sorted(purged.process(Contents()))]


def global_windows_without_trigger(env):
    return _sorted(_keyed(env).window(GlobalWindows.create()).process(Contents()))


def global_windows_at_the_end(env):
    windows = _keyed(env).window(GlobalWindows.create()).trigger(EventTimeTrigger.create())
    return _sorted(windows.process(Contents()))


def trigger_by_count_in_time_windows(env):
    windows = _tumbling(env).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return _sorted(windows.process(Contents()))


def trigger_of_ones_own(env):
    return _sorted(_tumbling(env).trigger(EveryTwo()).process(Contents()))


def state_of_windows(env):
    windows = _tumbling(env).trigger(CountTrigger.of(1))
    return _sorted(windows.process(StateOfWindows()))


def continuous_trigger(env):
    events = [("a", at, at) for at in (0, 3, 6, 9)]
    windows = _keyed(env, events).window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    results = windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(5))).process(Contents())
    return sorted(set(_sorted(results)))


def count_windows(env):
    return [
        _sorted(_keyed(env).count_window(2).process(Contents())),
        _sorted(_keyed(env).count_window(2).reduce(LastTime())),
    ]


def count_windows_that_slide(env):
    return [_sorted(_keyed(env).count_window(*sizes).process(Contents())) for sizes in ((3, 1), (3, 2), (2, 3))]


def processing_time_windows_at_the_end(env):
    keyed = env.from_collection(EVENTS, EVENT).key_by(lambda event: event[0])
    return _sorted(keyed.window(TumblingProcessingTimeWindows.of(Time.hours(1))).process(Contents()))


def time_windows_as_values(env):
    window = TimeWindow(0, 10)
    return [
        window,
        window.max_timestamp(),
        window == TimeWindow(0, 10),
        hash(window) == hash(TimeWindow(0, 10)),
        window.intersects(TimeWindow(9, 12)),
        window.intersects(TimeWindow(11, 12)),
        window.cover(TimeWindow(5, 15)),
        window < TimeWindow(0, 11),
        [TimeWindow.get_window_start_with_offset(at, offset, 10) for at in (-11, -10, -3, 0, 13) for offset in (0, 2)],
    ]
