"""What generated programs are made of: functions over records ``(key, number, payload)``, any three values.

Each takes such records and gives such records, so that any of them fits behind any other. What they give does not hang
on the order of their input, but for those that say so.
"""

import asyncio
import copy
import time

from flinkbuf.common import Row, Types
from flinkbuf.common.time import Time
from flinkbuf.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from flinkbuf.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkbuf.datastream.window import (
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from matrix.sources import RECORD, WATERMARK, Exact, Timed
from matrix.values import shown, value

END = 10**12  # no record is as late
RULES = MapStateDescriptor("rules", Types.LONG(), None)
DECLARED = Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
NUMBER = Types.LONG()
OF_NUMBERS = Types.TUPLE([NUMBER, NUMBER, Types.PICKLED_BYTE_ARRAY()])


def key(record):
    return record[0]


def number_mod(record):
    return record[1] % 3


class Plus(MapFunction):
    def __init__(self, number, pause_s=0.0):
        self.number, self.pause_s = number, pause_s

    def map(self, record):
        if self.pause_s:
            time.sleep(self.pause_s)
        return record[0], record[1] + self.number, record[2]


class Wrap(MapFunction):
    """The payload inside another value."""

    KINDS = ("list", "dict", "pair", "row", "none", "key", "set")

    def __init__(self, kind):
        self.kind = kind

    def map(self, record):
        key, number, payload = record
        return key, number, self.wrapped(key, number, payload)

    def wrapped(self, key, number, payload):
        if self.kind == "list":
            return [payload, number]
        if self.kind == "dict":
            return {"payload": payload, number: None}
        if self.kind == "pair":
            return payload, payload
        if self.kind == "row":
            return Row(payload=payload, number=number)
        if self.kind == "set":
            return {shown(payload), "another", number}
        return None if self.kind == "none" else copy.deepcopy(key)


class Swap(MapFunction):
    """The payload becomes the key."""

    def map(self, record):
        return record[2], record[1], record[0]


class Change(MapFunction):
    """Changes the payload itself, where it can change."""

    def __init__(self, what):
        self.what = what

    def map(self, record):
        payload = record[2]
        if type(payload) is list:
            payload.append(self.what)
        elif type(payload) is dict:
            payload["changed"] = self.what
        elif type(payload) is set:
            payload.add(self.what)
        return record


class Keep(FilterFunction):
    """Answers with anything true."""

    def __init__(self, divisor):
        self.divisor = divisor

    def filter(self, record):
        return [] if record[1] % self.divisor else [record]


class Repeat(FlatMapFunction):
    """None, one or more records for each; no two of them share what can change."""

    def __init__(self, most):
        self.most = most

    def flat_map(self, record):
        key, number, payload = record
        for more in range(number % (self.most + 1)):
            yield key, number + more, copy.deepcopy(payload) if more else payload


class Split(ProcessFunction):
    """Some records go to a side output."""

    def __init__(self, tag, divisor):
        self.tag, self.divisor = tag, divisor

    def process_element(self, record, ctx):
        yield record if record[1] % self.divisor else (self.tag, record)


class Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, record, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count, None


class AtTheEnd(KeyedProcessFunction):
    """One result for each key, by a timer."""

    def process_element(self, record, ctx):
        self.add(record, ctx)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), *self.result()


class Summed(AtTheEnd):
    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def add(self, record, ctx):
        self.sum.add(record[1])

    def result(self):
        return self.sum.get(), None


class Tally(AggregateFunction):
    """Its accumulator is a list that is changed in place: key, sum and count."""

    def create_accumulator(self):
        return [None, 0, 0]

    def add(self, record, accumulator):
        accumulator[0] = record[0]
        accumulator[1] += record[1]
        accumulator[2] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0], accumulator[1], accumulator[2]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] if acc_a[2] else acc_b[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]]


class TallyIntoFirst(Tally):
    def merge(self, acc_a, acc_b):
        acc_a[:] = super().merge(acc_a, acc_b)
        return acc_a


class TallyIntoSecond(Tally):
    def merge(self, acc_a, acc_b):
        acc_b[:] = super().merge(acc_a, acc_b)
        return acc_b


class Averaged(AtTheEnd):
    def open(self, runtime_context):
        self.tally = runtime_context.get_aggregating_state(AggregatingStateDescriptor("tally", Tally(), None))

    def add(self, record, ctx):
        self.tally.add(record)

    def result(self):
        return self.tally.get()[1:]


class Gathered(AtTheEnd):
    def open(self, runtime_context):
        self.payloads = runtime_context.get_list_state(ListStateDescriptor("payloads", None))

    def add(self, record, ctx):
        self.payloads.add((record[1], record[2]))

    def result(self):
        payloads = sorted((payload for _, payload in self.payloads.get()), key=shown)
        return len(payloads), payloads


class Latest(AtTheEnd):
    """The record with the highest number, and the greatest text among those."""

    def open(self, runtime_context):
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", None))

    def add(self, record, ctx):
        before = self.latest.value()
        if before is None or (before[1], shown(before[2])) < (record[1], shown(record[2])):
            self.latest.update(record)

    def result(self):
        return self.latest.value()[1:]


class Remembered(AtTheEnd):
    """The function keeps the object that is its state, changes it, and gives it to the state again."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("state", None))
        self.kept = {}

    def add(self, record, ctx):
        key = shown(ctx.get_current_key())
        if key not in self.kept:
            self.kept[key] = self.state.value() or {"sum": 0, "seen": {}}
        held = self.kept[key]
        held["sum"] += record[1]
        held["seen"][record[1]] = held["seen"].get(record[1], 0) + 1
        self.state.update(held)

    def result(self):
        held = self.state.value()
        return held["sum"], held["seen"]


class Bucketed(KeyedProcessFunction):
    """Sums of stretches of time, in a map, each given and forgotten by a timer."""

    def __init__(self, width):
        self.width = width

    def open(self, runtime_context):
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.LONG(), None))

    def process_element(self, record, ctx):
        last = ctx.timestamp() - ctx.timestamp() % self.width + self.width - 1
        held = self.sums.get(last) or [0, 0]
        held[0] += record[1]
        held[1] += 1
        self.sums.put(last, held)
        ctx.timer_service().register_event_time_timer(last)

    def on_timer(self, timestamp, ctx):
        held = self.sums.get(timestamp)
        self.sums.remove(timestamp)
        yield ctx.get_current_key(), held[0], (timestamp, held[1])


class Firsts(KeyedProcessFunction):
    """Each payload once for each key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", None, None))

    def process_element(self, record, ctx):
        name = shown(record[2])  # an entry that is None would be none, and a list is no key of a map
        if not self.seen.contains(name):
            self.seen.put(name, (record[2],))
            yield ctx.get_current_key(), 0, record[2]


class Add(ReduceFunction):
    """The sum of the numbers, and of the payloads the one with the least text."""

    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1], min(value1[2], value2[2], key=shown)


class Ones(MapFunction):
    """Lists that say of how many records they are: of one."""

    def map(self, record):
        return [record[0], 1, (record[1], record[2])]


class AddOnes(ReduceFunction):
    """How many, the sum of the numbers and the payload with the least text: in a new list or in one of the two."""

    INTO = ("new", "first", "second")

    def __init__(self, into):
        self.into = into

    def reduce(self, value1, value2):
        numbers = value1[2][0] + value2[2][0]
        made = [value1[0], value1[1] + value2[1], (numbers, min(value1[2][1], value2[2][1], key=shown))]
        if self.into == "new":
            return made
        kept = value1 if self.into == "first" else value2
        kept[:] = made
        return kept


class Together(AtTheEnd):
    """All that came of the records of a key, added."""

    def open(self, runtime_context):
        self.sums = runtime_context.get_reducing_state(ReducingStateDescriptor("sums", AddOnes("new"), None))

    def add(self, record, ctx):
        self.sums.add(record)

    def result(self):
        return self.sums.get()[1:]


class ByNumber(MapFunction):
    def map(self, record):
        return number_mod(record), record[1], None


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window, records = context.window(), list(elements)
        payloads = sorted((record[2] for record in records), key=shown)
        yield key, sum(record[1] for record in records), (window.start, window.end, payloads)


class Applied(WindowFunction):
    def apply(self, key, window, inputs):
        records = list(inputs)
        payloads = sorted((record[2] for record in records), key=shown)
        return [(key, sum(record[1] for record in records), (window.start, window.end, payloads))]


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        for _, number, payload in elements:
            yield key, number, (context.window().start, context.window().end, payload)


class InOrder(ProcessWindowFunction):
    """The numbers in the order of the records."""

    def process(self, key, context, elements):
        numbers = [record[1] for record in elements]
        yield key, len(numbers), numbers


class GapByNumber(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 1 + element[1] % 20


class Sides(CoMapFunction):
    def map1(self, value):
        return value[0], 2 * value[1], value[2]

    def map2(self, value):
        return None if value[1] % 3 == 0 else (value[0], 2 * value[1] + 1, value[2])


class FlatSides(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] if value[1] % 2 else []

    def flat_map2(self, value):
        if value[1] % 2 == 0:
            yield value


class Joined(KeyedCoProcessFunction):
    """Each pair of records of one key, whichever comes first."""

    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", None))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", None))

    def process_element1(self, value, ctx):
        self.left.add(value[1:])
        for number, payload in self.right.get():
            yield ctx.get_current_key(), 100 * value[1] + number, (value[2], payload)

    def process_element2(self, value, ctx):
        self.right.add(value[1:])
        for number, payload in self.left.get():
            yield ctx.get_current_key(), 100 * number + value[1], (payload, value[2])


class BothAtTheEnd(KeyedCoProcessFunction):
    """The sums of both sides when all has come."""

    def open(self, runtime_context):
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums", None))

    def add(self, side, value, ctx):
        sums = self.sums.value() or [0, 0]
        sums[side] += value[1]
        self.sums.update(sums)
        ctx.timer_service().register_event_time_timer(END)

    def process_element1(self, value, ctx):
        self.add(0, value, ctx)

    def process_element2(self, value, ctx):
        self.add(1, value, ctx)

    def on_timer(self, timestamp, ctx):
        left, right = self.sums.value()
        yield ctx.get_current_key(), left - right, (left, right)


class Ruled(KeyedBroadcastProcessFunction):
    """How many records a key has, and what the broadcast side says of that when all has come."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        before = rules.get(value[1] % 3)
        if before is None or shown(before[0]) < shown(value[2]):
            rules.put(value[1] % 3, [value[2]])

    def on_timer(self, timestamp, ctx):
        count = self.count.value()
        rule = ctx.get_broadcast_state(RULES).get(count % 3)
        yield ctx.get_current_key(), count, rule and rule[0]


class Asked(AsyncFunction):
    """None, one or two results, some of them late."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.001 * (value[1] % 2))
        if value[1] % 4 == 3:
            return []
        return [value] if value[1] % 4 else [value, (value[0], value[1] + 1, copy.deepcopy(value[2]))]


def asked(stream, is_ordered):
    """A stream of what the calls for each record give."""
    wait = AsyncDataStream.ordered_wait if is_ordered else AsyncDataStream.unordered_wait
    return wait(stream, Asked(), Time.seconds(60), 3)


def ms(number):
    return Time.milliseconds(number)


__all__ = [
    "DECLARED",
    "NUMBER",
    "OF_NUMBERS",
    "RECORD",
    "RULES",
    "WATERMARK",
    "Add",
    "AddOnes",
    "Applied",
    "Averaged",
    "BothAtTheEnd",
    "Bucketed",
    "ByNumber",
    "Change",
    "Contents",
    "CountTrigger",
    "Counted",
    "DynamicEventTimeSessionWindows",
    "EventTimeSessionWindows",
    "Exact",
    "Firsts",
    "FlatSides",
    "GapByNumber",
    "Gathered",
    "GlobalWindows",
    "InOrder",
    "Joined",
    "Keep",
    "Latest",
    "Ones",
    "OutputTag",
    "Plus",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Remembered",
    "Repeat",
    "Ruled",
    "Sides",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "Split",
    "Summed",
    "Swap",
    "Tally",
    "TallyIntoFirst",
    "TallyIntoSecond",
    "Timed",
    "Together",
    "TumblingEventTimeWindows",
    "WithWindow",
    "Wrap",
    "asked",
    "key",
    "ms",
    "number_mod",
    "value",
]
