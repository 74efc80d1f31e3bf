"""Batch execution: sorted inputs, one key at a time, nothing before all of its input is there."""

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    RuntimeExecutionMode,
    TimeDomain,
)
from pyflink.datastream.functions import RuntimeContext
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflink.datastream.window import TumblingEventTimeWindows

WORDS = "to be or not to be that is the question whether tis nobler in the mind to suffer".split()  # noqa: SIM905
EVENTS = [("a", 12, 1), ("b", 2, 2), ("a", 5, 3), ("a", 5, 4), ("b", 11, 5), ("a", 3, 6), ("a", 25, 7), ("b", -4, 8)]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
WORD = Types.TUPLE([Types.STRING(), Types.INT()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Show(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class ShowKeyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_current_key(), value, ctx.timestamp(), ctx.timer_service().current_watermark()


class CountWithTimers(KeyedProcessFunction):
    """Each record, and what the state holds when a timer fires at the end of the key."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        yield "record", ctx.get_current_key(), value[2], count

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, self.count.value(), ctx.timer_service().current_watermark()


class TimersAtBothTimes(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(4102444800000 + value[2])  # in the year 2100
        timers.register_event_time_timer(1000 - value[2])
        if value[2] == 4:
            timers.delete_event_time_timer(1000 - 4)

    def on_timer(self, timestamp, ctx):
        yield timestamp, ctx.get_current_key(), ctx.time_domain() == TimeDomain.EVENT_TIME


class LastOfKey(KeyedProcessFunction):
    """One result a key, as batch programs have it."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        if self.last.value() is None:  # PyFlink fires a timer twice that a later record registers again
            ctx.timer_service().register_event_time_timer(2**63 - 1)
        self.last.update(value)

    def on_timer(self, timestamp, ctx):
        yield self.last.value()


class Distinct(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.INT()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.INT()))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, two: one + two, Types.INT())
        )

    def process_element(self, value, ctx):
        self.seen.put(value[1], value[2])
        self.values.add(value[2])
        self.sum.add(value[2])
        yield ctx.get_current_key(), sorted(self.seen.keys()), list(self.values.get()), self.sum.get()


class WithTtl(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class Numbered(MapFunction):
    def open(self, runtime_context):
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.INT()))

    def map(self, value):
        self.number.update((self.number.value() or 0) + 1)
        return value[0], value[2], self.number.value()


class Joined(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield "left", ctx.get_current_key(), value[2], ctx.timestamp()

    def process_element2(self, value, ctx):
        yield "right", ctx.get_current_key(), value[2], ctx.timestamp()


class Rules(BroadcastProcessFunction):
    STATE = MapStateDescriptor("rules", Types.STRING(), Types.STRING())

    def process_element(self, value, ctx):
        yield value, ctx.get_broadcast_state(self.STATE).get(value[0])

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.STATE).put(value[0], value[1])


class KeyedRules(KeyedBroadcastProcessFunction):
    STATE = MapStateDescriptor("rules", Types.STRING(), Types.STRING())

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(7)
        yield value, ctx.get_current_key(), ctx.get_broadcast_state(self.STATE).get(value[0]), self.count.value()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.STATE).put(value[0], value[1])

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, self.count.value()


class Tagged(ProcessFunction):
    TAG = OutputTag("odd", Types.INT())

    def process_element(self, value, ctx):
        if value % 2:
            yield self.TAG, value
        else:
            yield value


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if len(value1[0]) >= len(value2[0]) else value2


class Sides(CoMapFunction):
    def map1(self, value):
        return "left", value

    def map2(self, value):
        return "right", value


class ShowTime(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


def _by_key(results):
    """In PyFlink, which sends timers to and fro, the first record of a key may overtake timers of the key before."""
    return sorted(results, key=lambda each: each[1])


def _batch(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def _events(env, events=EVENTS, type_info=EVENT):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    source = env.from_collection(events, type_info) if type_info else env.from_collection(events)
    return source.assign_timestamps_and_watermarks(strategy)


def _words(env, type_info=WORD):
    return _batch(env).from_collection([(word, 1) for word in WORDS], type_info)


def word_count(env):
    words = _words(env).key_by(lambda pair: pair[0], Types.STRING())
    return list(words.reduce(lambda one, two: (one[0], one[1] + two[1])).execute_and_collect())


def word_count_at_parallelism_two(env):
    env.set_parallelism(2)
    words = _words(env).key_by(lambda pair: pair[0], Types.STRING())
    return sorted(words.reduce(lambda one, two: (one[0], one[1] + two[1])).execute_and_collect())


def word_count_of_undeclared_types(env):
    words = _batch(env).from_collection([(word, 1) for word in WORDS]).key_by(lambda pair: pair[0])
    return sorted(words.reduce(lambda one, two: (one[0], one[1] + two[1])).execute_and_collect())


def order_of_undeclared_keys(env):
    words = _batch(env).from_collection([(word, 1) for word in WORDS]).key_by(lambda pair: pair[0])
    return list(words.reduce(lambda one, two: (one[0], one[1] + two[1])).execute_and_collect())


def undeclared_numbers(env):
    numbers = _batch(env).from_collection([5, 3, 1000, -1, 5, 70000, 300, 0, 255, 256, 3]).key_by(lambda n: n)
    return sorted(numbers.reduce(lambda one, two: one).execute_and_collect())


def order_of_declared_numbers(env):
    numbers = _batch(env).from_collection([5, 3, 1000, -1, 5, 70000, 300, 0, -300, 256, 3], Types.LONG())
    return list(numbers.key_by(lambda n: n, Types.LONG()).reduce(lambda one, two: one).execute_and_collect())


def sum_of_each_key(env):
    return list(_words(env).key_by(lambda pair: pair[0], Types.STRING()).sum(1).execute_and_collect())


def least_and_most(env):
    keyed = _batch(env).from_collection(EVENTS, EVENT).key_by(lambda event: event[0], Types.STRING())
    return [list(keyed.min(2).execute_and_collect()), list(keyed.max_by(2).execute_and_collect())]


def reduce_function(env):
    keyed = _words(env).key_by(lambda pair: pair[1], Types.INT())
    return list(keyed.reduce(Longest()).execute_and_collect())


def time_of_what_is_reduced(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    reduced = events.reduce(lambda one, two: (one[0], one[1], one[2] + two[2]))
    return list(reduced.process(ShowTime()).execute_and_collect())


def reduced_twice(env):
    counts = _words(env).key_by(lambda pair: pair[0], Types.STRING()).sum(1)
    lengths = counts.map(lambda pair: (len(pair[0]), pair[1]), Types.TUPLE([Types.INT(), Types.INT()]))
    return list(lengths.key_by(lambda pair: pair[0], Types.INT()).sum(1).execute_and_collect())


def no_watermarks(env):
    return list(_events(_batch(env)).process(Show()).execute_and_collect())


def records_of_a_key_by_time(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.process(ShowKeyed()).execute_and_collect())


def records_of_a_key_without_time(env):
    events = _batch(env).from_collection(EVENTS, EVENT).key_by(lambda event: event[0], Types.STRING())
    return sorted(events.map(lambda event: event[2]).execute_and_collect())


def timers_at_the_end_of_a_key(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return _by_key(events.process(CountWithTimers()).execute_and_collect())


def timers_of_both_times(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.process(TimersAtBothTimes()).execute_and_collect())


def one_result_a_key(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.process(LastOfKey()).execute_and_collect())


def states_of_one_key(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.process(Distinct()).execute_and_collect())


def state_that_expires(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.process(WithTtl()).execute_and_collect())


def state_of_a_map(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.map(Numbered()).execute_and_collect())


def windows_that_count(env):
    events = _events(_batch(env)).key_by(lambda event: event[0], Types.STRING())
    return list(events.count_window(2).reduce(lambda one, two: (one[0], two[1], one[2] + two[2])).execute_and_collect())


def windows_of_all(env):
    windows = _events(_batch(env)).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return list(windows.reduce(lambda one, two: (one[0] + two[0], two[1], one[2] + two[2])).execute_and_collect())


def two_keyed_inputs(env):
    _batch(env)
    left = _events(env).key_by(lambda event: event[0], Types.STRING())
    right = _events(env, [("b", 4, 20), ("a", 6, 21), ("c", 1, 22), ("a", 99, 23)])
    joined = left.connect(right.key_by(lambda event: event[0], Types.STRING()))
    return _by_key(joined.process(Joined()).execute_and_collect())


def two_plain_inputs(env):
    _batch(env)
    left, right = env.from_collection([1, 2], Types.INT()), env.from_collection([3, 4], Types.INT())
    return sorted(left.connect(right).map(Sides()).execute_and_collect())


def broadcast_comes_first(env):
    _batch(env)
    rules = env.from_collection([("a", "A"), ("b", "B")], Types.TUPLE([Types.STRING(), Types.STRING()]))
    connected = _events(env).connect(rules.broadcast(Rules.STATE))
    return list(connected.process(Rules()).execute_and_collect())


def broadcast_to_a_keyed_stream(env):
    _batch(env)
    rules = env.from_collection([("a", "A"), ("b", "B")], Types.TUPLE([Types.STRING(), Types.STRING()]))
    keyed = _events(env).key_by(lambda event: event[0], Types.STRING())
    return _by_key(keyed.connect(rules.broadcast(KeyedRules.STATE)).process(KeyedRules()).execute_and_collect())


def union_by_key(env):
    _batch(env)
    both = _events(env).union(_events(env, [("a", 4, 31), ("c", 0, 32)]))
    return list(both.key_by(lambda event: event[0], Types.STRING()).process(ShowKeyed()).execute_and_collect())


def side_output_of_a_batch(env):
    main = _batch(env).from_collection([1, 2, 3, 4, 5], Types.INT()).process(Tagged(), Types.INT())
    odd = main.get_side_output(Tagged.TAG).map(lambda value: -value, Types.INT())
    return sorted(main.union(odd).execute_and_collect())


def rows_by_key(env):
    rows = [Row("b", 1), Row("a", 2), Row("b", 3)]
    stream = _batch(env).from_collection(rows, Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]))
    return list(stream.key_by(lambda row: row[0], Types.STRING()).sum("n").execute_and_collect())


def word_count_printed(env):
    words = _batch(env).from_collection([" ".join(WORDS[:9]), " ".join(WORDS[9:])], Types.STRING())
    counts = (
        words.flat_map(str.split, Types.STRING())
        .map(lambda word: (word, 1), WORD)
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(lambda one, two: (one[0], one[1] + two[1]))
    )
    counts.print()
    env.execute("word count")
