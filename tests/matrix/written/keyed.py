"""Records by key: rolling results, the five kinds of state, timers; over keys that hurt."""

from flinkbuf.common import Row, Types
from flinkbuf.common.time import Time
from flinkbuf.datastream import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ReduceFunction,
)
from flinkbuf.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from matrix.models import by_time, grouped, rolled
from matrix.program import program
from matrix.sources import Timed
from matrix.values import KEYS, TABLE, shown, value

END = 10**12
WORDS = ("to be or not to be that is the question whether tis nobler in the mind to be " * 3).split()
PAIRS = [(f"k{7 * number % 5}", number) for number in range(60)]
TIMED = Timed((pair, 10 * pair[1] + (pair[1] * 37) % 100) for pair in PAIRS)


def hard_pairs():
    """(key, number) with every key of the table, each in all its spellings, three times."""
    makers = [(name, place) for place in range(3) for name in KEYS for _ in range(max(1, len(TABLE[name]) - 1))]
    return [(value(name, place + number), number) for number, (name, place) in enumerate(makers)]


def first(pair):
    return pair[0]


def second(pair):
    return pair[1]


class First(KeySelector):
    def get_key(self, value):
        return value[0]


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


class Mean(AggregateFunction):
    """Its accumulator is a list that is changed in place."""

    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += 1
        accumulator[1] += value
        return accumulator

    def get_result(self, accumulator):
        return accumulator[1], accumulator[0]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class AllStates(KeyedProcessFunction):
    """What all five kinds of state hold after each record; every fourth number clears them."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        mean = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value, ctx):
        number = value[1]
        if number % 4 == 0:
            for state in (self.value, self.list, self.map, self.sum, self.mean):
                state.clear()
        before = self.value.value()
        self.value.update(number)
        self.list.add(number)
        self.map.put(str(number % 3), number)
        self.sum.add(number)
        self.mean.add(number)
        yield value[0], before, list(self.list.get()), dict(self.map.items()), self.sum.get(), self.mean.get()


def all_states(way):
    made = []
    for key, pairs in grouped(PAIRS, first):
        before, numbers = None, []
        for _, number in pairs:
            if number % 4 == 0:
                before, numbers = None, []
            numbers = [*numbers, number]
            by_rest = {str(each % 3): each for each in numbers}
            made.append((key, before, numbers, by_rest, sum(numbers), (sum(numbers), len(numbers))))
            before = number
    return made


class HardState(KeyedProcessFunction):
    """Keeps every key as a value, in lists and as keys and values of maps, and tells all of it at the end."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", None))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", None))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), None))

    def process_element(self, value, ctx):
        self.value.update(("in a tuple", value[0]))
        self.list.add(value[0])
        self.map.put(str(value[1]), value[0])
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.value.value(), list(self.list.get()), dict(self.map.items())


def hard_state():
    return [
        (key, ("in a tuple", key), [key] * len(pairs), {str(number): key for _, number in pairs})
        for key, pairs in grouped(hard_pairs(), first)
    ]


class ChangedInPlace(KeyedProcessFunction):
    """Gets what is in its state, changes it and puts it back, an object inside the other; tells it at the end."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("state", None))

    def process_element(self, value, ctx):
        held = self.state.value() or {"numbers": [], "by": {}}
        held["numbers"].append(value[1])
        held["by"].setdefault(value[1] % 3, set()).add(value[1])
        self.state.update(held)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        held = self.state.value()
        yield ctx.get_current_key(), sorted(held["numbers"]), held["by"]


class KeptOutside(ChangedInPlace):
    """The same, but the function keeps the object itself, and looks into its state only when it has none."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.kept = {}

    def process_element(self, value, ctx):
        key = shown(ctx.get_current_key())
        if key not in self.kept:
            self.kept[key] = self.state.value() or {"numbers": [], "by": {}}
        held = self.kept[key]
        held["numbers"].append(value[1])
        held["by"].setdefault(value[1] % 3, set()).add(value[1])
        self.state.update(held)
        ctx.timer_service().register_event_time_timer(END)


def changed_in_place():
    return [
        (key, sorted(map(second, pairs)), {rest: each for rest in range(3) if (each := _with_rest(pairs, rest))})
        for key, pairs in grouped(PAIRS, first)
    ]


def _with_rest(pairs, rest):
    return {number for _, number in pairs if number % 3 == rest}


class Timers(KeyedProcessFunction):
    """A timer for each stretch of 100 ms in which a key has records, one later that is taken back, one set by it."""

    def open(self, runtime_context):
        self.count = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        end = ctx.timestamp() // 100 * 100 + 99
        self.count.put(end, (self.count.get(end) or 0) + 1)
        timers = ctx.timer_service()
        timers.register_event_time_timer(end)
        timers.register_event_time_timer(END + value[1])
        timers.delete_event_time_timer(END + value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.get(timestamp)
        self.count.remove(timestamp)


def timers():
    made = []
    for key, pairs in grouped(TIMED, lambda pair: pair[0][0]):
        for end, found in grouped(pairs, lambda pair: pair[1] // 100 * 100 + 99):
            made.append((key, end, len(found)))
    return sorted(made, key=second)


class ByTime(KeyedProcessFunction):
    """Records in the order of their timestamps."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", None))

    def process_element(self, value, ctx):
        self.waiting.add((ctx.timestamp(), value))
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        waiting = list(self.waiting.get())
        self.waiting.update([each for each in waiting if each[0] > timestamp])
        yield from (value for at, value in waiting if at <= timestamp)


class TimersOfTimers(KeyedProcessFunction):
    """At the end of each key a timer that sets another one, some times."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

    def process_element(self, value, ctx):
        self.left.update(3)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        left = self.left.value()
        yield ctx.get_current_key(), timestamp, left
        if left:
            self.left.update(left - 1)
            ctx.timer_service().register_event_time_timer(timestamp + 10)


class Expiring(KeyedProcessFunction):
    """A count that would be forgotten after an hour."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.count = runtime_context.get_state(descriptor)
        descriptor = MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.seen = runtime_context.get_map_state(descriptor)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(value[1], self.count.value())
        yield value[0], self.count.value(), len(list(self.seen.keys()))


class Numbered(MapFunction):
    def open(self, runtime_context):
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.INT()))

    def map(self, value):
        self.number.update((self.number.value() or 0) + 1)
        return value, self.number.value()


class FirstOfEach(FlatMapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def flat_map(self, value):
        if not self.seen.value():
            self.seen.update(True)
            yield value


class EveryOther(FilterFunction):
    def open(self, runtime_context):
        self.is_odd = runtime_context.get_state(ValueStateDescriptor("odd", Types.BOOLEAN()))

    def filter(self, value):
        is_odd = not self.is_odd.value()
        self.is_odd.update(is_odd)
        return is_odd


class WithLate(KeyedProcessFunction):
    """Sums to the main output, each tenth number to another one, from a timer too."""

    TENTH = OutputTag("tenth")

    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.add(value[1])
        ctx.timer_service().register_event_time_timer(END)
        if value[1] % 10 == 0:
            yield self.TENTH, value

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.get()
        yield self.TENTH, "end"


def running_sums(way, pairs=PAIRS):
    made = []
    for _, found in grouped(pairs, first):
        sums = rolled(found, lambda a, b: (a[0], a[1] + b[1]))
        made += sums[-1:] if way.is_batch else sums
    return made


def rolling(add):
    """The model of a rolling result; a batch job gives the last of each key."""

    def model(way):
        made = []
        for _, found in grouped(PAIRS, first):
            results = rolled(found, add)
            made += results[-1:] if way.is_batch else results
        return made

    return model


# Without timestamps a batch job brings the records of a key in no order, so what depends on it streams or has times.


@program(lambda way: running_sums(way), order_by=first)
def rolling_reduce(s):
    return s.records(Timed((pair, pair[1]) for pair in PAIRS)).key_by(first).reduce(Add())


@program(lambda way: running_sums(way), order_by=first)
def rolling_sum_of_a_field(s):
    return s.records(Timed((pair, pair[1]) for pair in PAIRS)).key_by(First(), Types.STRING()).sum(1)


@program(rolling(lambda a, b: (a[0], min(a[1], b[1]))), order_by=first)
def rolling_least(s):
    return s.records(PAIRS).key_by(first).min(1)


@program(rolling(lambda a, b: a if a[1] >= b[1] else b), order_by=first)
def rolling_greatest(s):
    return s.records(PAIRS).key_by(first, Types.STRING()).max_by(1)


@program(lambda way: [(key, n) for key, found in grouped(hard_pairs(), first) for n in range(1, 1 + len(found))], first)
def counts_of_hard_keys(s):
    return s.records(hard_pairs()).key_by(first).process(Counted())


@program(
    lambda way: (
        [(key, sum(map(second, found))) for key, found in grouped(hard_pairs(), first)]
        if way.is_batch
        else running_sums(way, hard_pairs())
    )
)
def sums_of_hard_keys(s):
    return s.records(hard_pairs()).key_by(first).sum(1)


@program(lambda: [(key, n) for key, found in grouped(hard_pairs(), first) for n in range(1, 1 + len(found))])
def hard_keys_after_an_exchange(s):
    spread = s.records(hard_pairs()).rebalance().map(lambda pair: (pair[1], pair[0])).map(s.stumble()).shuffle()
    return spread.key_by(lambda pair: pair[1]).process(Counted()).key_by(first).map(lambda value: value)


@program(lambda: hard_state())
def hard_values_in_state(s):
    return s.records(hard_pairs()).key_by(first).process(HardState())


@program(all_states, order_by=first, avoids=["batch"])
def all_five_states(s):
    return s.records(PAIRS).key_by(first).process(AllStates())


@program(lambda: changed_in_place())
def state_changed_in_place(s):
    return s.records(PAIRS).key_by(first).process(ChangedInPlace())


@program(lambda: changed_in_place())
def state_that_the_function_keeps_and_changes(s):
    return s.records(PAIRS).key_by(first).process(KeptOutside())


@program(lambda: [(word, sum(1 for each in WORDS if each == word)) for word in dict.fromkeys(WORDS)])
def word_count(s):
    words = s.records([" ".join(WORDS[start : start + 5]) for start in range(0, len(WORDS), 5)])
    pairs = words.flat_map(str.split).map(lambda word: (word, 1)).map(s.stumble())
    return pairs.key_by(first).process(Total())


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.add(value[1])
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.get()


@program(lambda: timers(), order_by=first)
def timers_of_stretches(s):
    return s.records(TIMED).key_by(first).process(Timers())


@program(lambda: [pair for pair, _ in by_time(TIMED)], order_by=first)
def records_by_time(s):
    return s.records(TIMED).key_by(first).process(ByTime())


@program(
    lambda way: [
        (k, END + 10 * n, 3 - n) for k in dict.fromkeys(map(first, PAIRS)) for n in range(1 if way.is_batch else 4)
    ],
    order_by=first,
)
def timers_set_by_timers(s):
    return s.records(PAIRS).key_by(first).process(TimersOfTimers())


@program(
    lambda: [(key, n, n) for key, found in grouped(PAIRS, first) for n in range(1, 1 + len(found))], order_by=first
)
def time_to_live_that_does_not_come(s):
    return s.records(PAIRS).key_by(first).process(Expiring())


@program(
    lambda: [(pair, n) for _, found in grouped(TIMED, lambda p: p[0][0]) for n, (pair, _) in enumerate(found, 1)],
    avoids=["batch"],
)
def map_with_state(s):
    return s.records(TIMED).key_by(first).map(Numbered())


@program(lambda: [found[0] for _, found in grouped(hard_pairs(), first)], avoids=["batch"])
def flat_map_with_state(s):
    return s.records(hard_pairs()).key_by(first).flat_map(FirstOfEach())


@program(lambda: [pair for _, found in grouped(PAIRS, first) for pair in found[::2]], avoids=["batch"])
def filter_with_state(s):
    return s.records(PAIRS).key_by(first).filter(EveryOther())


@program(
    lambda: {
        "sums": [(key, sum(map(second, found))) for key, found in grouped(PAIRS, first)],
        "tenth": [pair for pair in PAIRS if pair[1] % 10 == 0] + ["end"] * len(grouped(PAIRS, first)),
    }
)
def side_outputs_of_records_and_timers(s):
    sums = s.records(PAIRS).key_by(first).process(WithLate())
    return {"sums": sums, "tenth": sums.get_side_output(WithLate.TENTH).map(lambda value: value)}


@program(
    lambda: [
        (len(key), sum(len(found) for each, found in grouped(PAIRS, first) if len(each) == len(key))) for key in ["k1"]
    ]
)
def keys_of_keys(s):
    counted = s.records(PAIRS).map(lambda pair: (pair[0], 1)).key_by(first).process(Total())
    return counted.map(lambda pair: (len(pair[0]), pair[1])).map(s.stumble()).key_by(first).process(Total())


@program(lambda: [(key, n) for key, found in grouped(PAIRS, lambda p: p[1] % 4) for n in range(1, 1 + len(found))])
def declared_keys(s):
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    return (
        s.records(PAIRS).map(lambda pair: pair, kind).key_by(lambda pair: pair[1] % 4, Types.LONG()).process(Counted())
    )


@program(lambda: [(key, n) for key, found in grouped(_maps(), lambda value: value) for n in range(1, 1 + len(found))])
def declared_maps_as_keys(s):
    kind = Types.MAP(Types.STRING(), Types.LONG())
    return s.records(_maps()).key_by(lambda value: value, kind).process(Counted())


def _maps():
    return [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, {}, {"b": 2, "a": 1}, {"a": 2, "b": 1}] * 3


@program(lambda: [(key, n) for key, found in grouped(_rows(), lambda value: value) for n in range(1, 1 + len(found))])
def declared_rows_as_keys(s):
    by = Types.MAP(Types.STRING(), Types.LONG())
    kind = Types.ROW_NAMED(["name", "by"], [Types.STRING(), by])
    return s.records(_rows()).key_by(lambda value: value, kind).process(Counted())


def _rows():
    return [Row(name=name, by=by) for by in _maps() for name in ("x", None)]


@program(lambda: [(key, n) for key in (0.0, -0.0, 1.0) for n in range(1, 4 if key != 1.0 else 7)])
def numbers_as_declared_keys(s):
    numbers = [0.0, -0.0, 1, 1.0] * 3
    return s.records(numbers).key_by(lambda value: value, Types.DOUBLE()).process(Counted())


def _changed(what):
    def change(record):
        record[1].append(what)
        return record

    return change


@program(
    lambda: {
        "as they were": [(key, [number]) for key, number in PAIRS],
        "one": [(key, [number, "one"]) for key, number in PAIRS],
        "other": [(key, [number, "other", "again"]) for key, number in PAIRS],
    }
)
def branches_that_change_their_records(s):
    records = s.records(PAIRS).map(lambda pair: (pair[0], [pair[1]]))
    one, other = records.map(_changed("one")), records.map(_changed("other")).map(_changed("again"))
    return {"as they were": records, "one": one, "other": other}


@program(
    lambda way: [
        (key, [*sums, "told"])
        for key, found in grouped(PAIRS, first)
        for sums in ([list(map(second, found))] if way.is_batch else _beginnings(found))
    ],
    order_by=first,
)
def results_that_are_changed_behind_a_reduce(s):
    lists = s.records(Timed(((key, [number]), number) for key, number in PAIRS))
    return lists.key_by(first).reduce(lambda a, b: (a[0], a[1] + b[1])).map(_changed("told"))


def _beginnings(found):
    return [list(map(second, found[:end])) for end in range(1, 1 + len(found))]
