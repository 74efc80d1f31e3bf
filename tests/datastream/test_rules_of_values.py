"""What a record or state value is depends on no backend, on no chaining, on no parallelism and on no failure."""

import re
import sys
import threading
import time
import traceback
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from support.data.equal_keys import PAIRS, TableWindow

from flinkbuf.common import Configuration, Row, Time, Types, WatermarkStrategy
from flinkbuf.common.restart_strategy import RestartStrategies
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    AsyncDataStream,
    BroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.functions import AsyncFunction, AsyncRetryStrategy
from flinkbuf.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkbuf.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.testing import OperatorHarness

pytest.importorskip("rocksdict")

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
PARALLELISM = pytest.mark.parametrize("parallelism", [1, 2])
PLACES = pytest.mark.parametrize("place", [("embedded", 1), ("embedded", 2), ("local", 1), ("local", 2)], ids=str)


def environment(backend="hashmap", parallelism=1, target="embedded", **options):
    config = Configuration()
    config.set_string("execution.target", target)
    config.set_string("state.backend.type", backend)
    config.set_string("state.backend.rocksdb.cache.entries", "1")
    for name, value in options.items():
        config.set_string(name.replace("_", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(parallelism)
    return env


def collected(stream):
    with stream.execute_and_collect() as records:
        return list(records)


class CountByKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value, number


@BACKENDS
@PARALLELISM
def test_pairs_in_either_order_are_counted_together(backend, parallelism):
    names = [f"name {number}" for number in range(40)]
    pairs = [(a, b) for a in names for b in names if a != b]
    stream = environment(backend, parallelism).from_collection(pairs)
    counted = stream.key_by(lambda pair: frozenset(pair)).process(CountByKey())
    highest = Counter()
    for pair, number in collected(counted):
        highest[frozenset(pair)] = max(highest[frozenset(pair)], number)
    assert highest == {frozenset(pair): 2 for pair in pairs}


@BACKENDS
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_equal_maps_are_one_declared_key(backend, mode):
    maps = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}] * 3
    env = environment(backend)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    keyed = env.from_collection(maps).key_by(lambda each: each, key_type=Types.MAP(Types.STRING(), Types.LONG()))
    found = collected(keyed.process(CountByKey()))
    assert sorted(number for each, number in found if len(each) == 2) == [1, 2, 3, 4, 5, 6]
    assert sorted(number for each, number in found if len(each) == 1) == [1, 2, 3]


TURNS = [(name, half) for half in (0, 1, 0) for name in PAIRS]  # each pair's one, the equal one, the one again


def of_table(turn):
    name, half = turn
    return name, PAIRS[name][half]


@BACKENDS
@pytest.mark.parametrize(("mode", "parallelism"), [("STREAMING", 1), ("STREAMING", 2), ("BATCH", 1), ("BATCH", 2)])
def test_all_kinds_of_equal_keys_are_counted_together(backend, mode, parallelism):
    """Also by the sort of a batch, which has the records of a key side by side."""
    env = environment(backend, parallelism)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    found = collected(env.from_collection(TURNS).key_by(of_table).process(CountByKey()))
    assert Counter((name, number) for (name, _), number in found) == Counter(
        (name, number) for name in PAIRS for number in (1, 2, 3)
    )


class AtZero(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


class ByTable(WindowAssigner):
    """Windows of the program's own, which hold one of two equal values."""

    def assign_windows(self, element, timestamp, context):
        return [TableWindow(*of_table(element))]

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def get_window_serializer(self):
        return None

    def is_event_time(self):
        return True


class Gathered(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window().name, sorted(half for _, half in elements)


@BACKENDS
@PARALLELISM
def test_all_kinds_of_equal_windows_of_ones_own_are_one(backend, parallelism):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AtZero())
    source = environment(backend, parallelism).from_collection(TURNS).assign_timestamps_and_watermarks(strategy)
    found = collected(source.key_by(lambda turn: "all").window(ByTable()).process(Gathered()))
    assert sorted(found) == sorted((name, [0, 0, 1]) for name in PAIRS)


# ---- one object, one holder


def records(*numbers):
    return [{"key": number % 2, "seen": [number]} for number in numbers]


def marked(mark):
    """A function that changes the record it is given."""

    def mark_it(record):
        record["seen"].append(mark)
        record["mark"] = mark
        return record

    return mark_it


def seen(found):
    return sorted((each["mark"], each["seen"]) for each in found)


def at(place, backend="hashmap", **options):
    return environment(backend, place[1], place[0], **options)


@PLACES
def test_each_of_several_chained_functions_has_the_record_to_itself(place):
    source = at(place).from_collection(records(1, 2))
    found = collected(source.map(marked("a")).union(source.map(marked("b"))).union(source.map(marked("c"))))
    assert seen(found) == [(mark, [number, mark]) for mark in "abc" for number in (1, 2)]


TAG = OutputTag("side")


class ToBoth(ProcessFunction):
    def process_element(self, value, ctx):
        yield TAG, value
        yield value
        yield TAG, value


@PLACES
def test_what_goes_to_the_main_and_to_a_side_output_is_not_shared(place):
    both = at(place).from_collection(records(1, 2)).process(ToBoth())
    found = collected(both.map(marked("main")).union(both.get_side_output(TAG).map(marked("side"))))
    assert seen(found) == [
        ("main", [1, "main"]),
        ("main", [2, "main"]),
        ("side", [1, "side"]),
        ("side", [1, "side"]),
        ("side", [2, "side"]),
        ("side", [2, "side"]),
    ]


def joined(one, other):
    one["seen"] += other["seen"]
    return one


@BACKENDS
@PLACES
def test_what_follows_a_reduction_does_not_change_its_state(place, backend):
    reduced = at(place, backend).from_collection(records(1, 3, 5)).key_by(lambda record: record["key"]).reduce(joined)
    found = [each["seen"] for each in collected(reduced.map(marked("x")))]
    assert found == [[1, "x"], [1, 3, "x"], [1, 3, 5, "x"]]


class ByNumber(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["seen"][0]


class Elements(ProcessWindowFunction):
    def process(self, key, context, elements):
        for each in elements:
            each["seen"].append("window")
            yield each


class Gather(AggregateFunction):
    def create_accumulator(self):
        return {"seen": []}

    def add(self, value, accumulator):
        accumulator["seen"] += value["seen"]
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return {"seen": one["seen"] + other["seen"]}


def late_behind(path):
    """Numbers of which two come once the window of the first ones has fired, as the file at `path` says."""

    def generate():
        yield from records(1, 3, 1001)
        while not path.exists():
            yield from records(1002)  # of another key, and moves the watermark on
            time.sleep(0.001)
        yield from records(5, 7)

    return generate


@BACKENDS
@PLACES
@pytest.mark.parametrize("how", ["process", "reduce", "aggregate"])
def test_a_window_that_fires_again_has_what_came_to_it(place, backend, how, tmp_path):
    """Late records make it fire once more each; what its results became meanwhile is not its concern."""
    env = at(place, backend)
    env.get_config().set_auto_watermark_interval(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    numbers = env.add_source(late_behind(tmp_path / "fired"))
    source = numbers.assign_timestamps_and_watermarks(strategy).set_parallelism(1)  # which keeps their order
    windows = (
        source.key_by(lambda record: record["seen"][0] % 2)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .allowed_lateness(100_000)
    )
    made = {
        "process": lambda: windows.process(Elements()),
        "reduce": lambda: windows.reduce(joined),
        "aggregate": lambda: windows.aggregate(Gather()),
    }[how]()

    def changed(record, path=tmp_path / "fired"):
        path.touch()
        return marked("x")(record)

    found = [each["seen"] for each in collected(made.map(changed)) if each["seen"][0] < 1000]
    times = [[1, 3], [1, 3, 5], [1, 3, 5, 7]]
    if how == "process":
        assert found == [[number, "window", "x"] for numbers in times for number in numbers]
    else:
        assert found == [[*numbers, "x"] for numbers in times]


class Rules(BroadcastProcessFunction):
    DESCRIPTOR = MapStateDescriptor("rules", None, None)

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(self.DESCRIPTOR)
        rules.put(value["seen"][0], value)
        value["seen"].append("changed after it was put")
        yield from [rule for _, rule in rules.items()]

    def process_element(self, value, ctx):
        yield from ()


@PLACES
def test_broadcast_state_is_what_was_put_whatever_becomes_of_it_elsewhere(place):
    env = at(place)
    rules = env.from_collection(records(1, 2, 3)).broadcast(Rules.DESCRIPTOR)
    given = env.from_collection([0]).connect(rules).process(Rules())
    once = [[1], [1], [1], [2], [2], [3]]  # all there are, after each that comes
    assert seen(collected(given.map(marked("x")))) == sorted([("x", [*numbers, "x"]) for numbers in once] * place[1])


@PLACES
def test_the_subtasks_of_a_broadcast_have_a_record_each(place):
    source = at(place).from_collection(records(1, 2))
    found = collected(source.broadcast().map(marked("a")).union(source.map(marked("b"))))
    expected = [("a", [number, "a"]) for number in (1, 2)] * place[1] + [("b", [number, "b"]) for number in (1, 2)]
    assert seen(found) == sorted(expected)


def test_with_object_reuse_all_ways_share_the_record():
    env = environment()
    env.get_config().enable_object_reuse()
    source = env.from_collection(records(1))
    found = collected(source.map(marked("a")).union(source.map(marked("b"))))
    assert seen(found)[-1] == ("b", [1, "a", "b"])


def test_a_record_that_cannot_be_copied_is_named_with_the_way_out():
    source = environment().from_collection([1]).map(lambda number: (each for each in [number]))
    both = source.map(next).union(source.map(next))
    with pytest.raises(TypeError, match=r"goes several ways in one task.*set pipeline.object-reuse"):
        collected(both)


def reusing(count):
    record = {}
    for number in range(count):
        record["number"] = number
        yield record


@PLACES
def test_elements_of_a_collection_are_as_they_were_and_share_nothing(place):
    def counted(record):
        record["number"] += 1
        return record["number"]

    def appended(record):
        record[1].append(record[0])
        return record[1]

    env = environment(target=place[0], parallelism=place[1])
    shared, row = [], {"number": 0}
    streams = [
        env.from_collection([row] * 3).map(counted),
        env.from_collection([(1, shared), (2, shared)]).map(appended),
        env.from_collection(reusing(3)).map(counted),
    ]
    row["number"] = 7
    found = [stream.execute_and_collect() for stream in streams]
    assert [sorted(each) for each in found] == [[1, 1, 1], [[1], [2]], [1, 2, 3]]


@PLACES
def test_batches_of_a_generator_stay_as_they_were(place):
    """Its array of numpy is the memory of the batches."""

    def batches():
        numbers = np.zeros(3)
        for number in range(20):
            numbers[:] = number
            yield pa.record_batch({"x": numbers})

    env = environment(target=place[0], parallelism=place[1])
    found = collected(env.add_source(batches).as_columns("x double"))
    assert sorted(row.x for row in found) == sorted(3 * [*map(float, range(20))])


def test_records_of_the_program_stay_as_they_are():
    mine = records(1, 2)
    assert seen(collected(environment().add_source(mine).map(marked("a")))) == [("a", [1, "a"]), ("a", [2, "a"])]
    assert mine == records(1, 2)


class SameObject(ProcessFunction):
    def open(self, runtime_context):
        self.record = {"numbers": []}

    def process_element(self, value, ctx):
        self.record["numbers"].append(value)
        yield self.record


@PLACES
def test_the_program_is_given_records_as_they_were_emitted(place):
    source = at((place[0], 1)).from_collection([1, 2, 3])
    assert [each["numbers"] for each in collected(source.process(SameObject()))] == [[1], [1, 2], [1, 2, 3]]


class Changes(AsyncFunction):
    """Changes its record and fails at the first attempt of each."""

    def open(self, runtime_context):
        self.tried = set()

    async def async_invoke(self, value):
        value["seen"].append("call")
        if value["seen"][0] not in self.tried:
            self.tried.add(value["seen"][0])
            raise ValueError("the first attempt")
        return [value]


@PLACES
def test_each_attempt_of_an_async_call_has_the_record_as_it_came(place):
    retry = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ValueError))
    source = at((place[0], 1)).from_collection(records(1, 2))
    called = AsyncDataStream.unordered_wait_with_retry(source, Changes(), Time.seconds(100), retry, 10)
    assert sorted(each["seen"] for each in collected(called)) == [[1, "call"], [2, "call"]]


class Cached(KeyedProcessFunction):
    """Keeps the objects that it gave to its states, and changes them with each record before it reads the states."""

    def open(self, runtime_context):
        get = runtime_context
        self.value = get.get_state(ValueStateDescriptor("value", None))
        self.elements = get.get_list_state(ListStateDescriptor("list", None))
        self.entries = get.get_map_state(MapStateDescriptor("map", None, None))
        self.reduced = get.get_reducing_state(ReducingStateDescriptor("reducing", lambda one, other: one + other, None))
        self.gathered = get.get_aggregating_state(AggregatingStateDescriptor("aggregating", Gather(), None))
        self.cache = []

    def process_element(self, value, ctx):
        for each in self.cache:
            each.append("changed later")
        given = [[value[1]] for _ in range(5)]
        self.cache += given
        self.value.update(given[0])
        self.elements.add(given[1])
        self.entries.put("x", given[2])
        self.reduced.add(given[3])
        self.gathered.add({"seen": given[4]})
        for each in self.cache:
            each.append("changed later")
        for each in (self.value.value(), *self.elements.get(), *self.entries.values(), self.reduced.get()):
            each.append("what was read")
        self.gathered.get()["seen"].append("what was read")
        yield (
            value,
            self.value.value(),
            self.elements.get(),
            dict(self.entries.items()),
            self.reduced.get(),
            self.gathered.get()["seen"],
        )


def expected_of_cached(pairs):
    seen = {}
    for key, number in pairs:
        numbers = seen.setdefault(key, [])
        numbers.append(number)
        yield ((key, number), [number], [[each] for each in numbers], {"x": [number]}, list(numbers), list(numbers))


@BACKENDS
@PLACES
def test_state_is_what_was_written_whatever_a_function_goes_on_holding(place, backend):
    pairs = [(number % 7, number) for number in range(70)]
    found = collected(at(place, backend).from_collection(pairs).key_by(lambda pair: pair[0]).process(Cached()))
    assert sorted(found) == sorted(expected_of_cached(pairs))


class Run:
    """What the program and its functions tell each other; they are in one process."""

    a_checkpoint_counts = threading.Event()
    count = None  # of numbers; known when one does

    @classmethod
    def begin(cls):
        cls.a_checkpoint_counts.clear()
        cls.count = None

    @classmethod
    def pairs(cls):
        number = 0
        while cls.count is None or number < cls.count:
            if cls.count is None and cls.a_checkpoint_counts.is_set():
                cls.count = number + 100
            yield number % 50, number
            number += 1
            time.sleep(0.001)


class FailsOnce(Cached):
    """Fails at its first attempt, once a checkpoint counts."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.attempt = runtime_context.get_attempt_number()

    def process_element(self, value, ctx):
        if self.attempt == 0 and Run.count is not None and value[1] >= Run.count - 50:
            raise RuntimeError("fails once")
        yield from super().process_element(value, ctx)


@BACKENDS
@PARALLELISM
def test_state_is_what_was_written_after_a_failure_too(backend, parallelism):
    env = environment(backend, parallelism)
    env.enable_checkpointing(10)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    Run.begin()
    found = []
    stream = env.add_source(Run.pairs).key_by(lambda pair: pair[0]).process(FailsOnce())
    with stream.execute_and_collect() as records:
        for record in records:  # the first is given when a checkpoint counts
            Run.a_checkpoint_counts.set()
            found.append(record)
    assert sorted(found) == sorted(expected_of_cached((number % 50, number) for number in range(Run.count)))


class TwoTypes(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update(value)
        yield value


@BACKENDS
def test_a_value_of_another_type_than_the_state_s_is_an_error_with_the_record(backend):
    stream = environment(backend).from_collection([1, 1.5]).key_by(lambda _: "key").process(TwoTypes()).name("counts")
    with pytest.raises(TypeError, match=r"the state 'count' of the key 'key' cannot keep 1.5.*expected INT") as caught:
        collected(stream)
    notes = getattr(caught.value, "__notes__", ["counts 1.5"])  # Python 3.10 has none
    assert any("counts" in note and "1.5" in note for note in notes)


class Grows(AggregateFunction):
    """Its accumulator, a list of its own, takes a text where numbers are declared."""

    def create_accumulator(self):
        return [0]

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return len(accumulator)

    def merge(self, one, other):
        return one + other


NUMBERS = Types.LIST(Types.LONG())


class Aggregates(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_aggregating_state(AggregatingStateDescriptor("grown", Grows(), NUMBERS))

    def process_element(self, value, ctx):
        self.state.add(value)
        yield value


def grown(env, how):
    """A stream of a job that never ends by itself."""

    def numbers():
        yield from (1, 2, "text")
        while True:
            yield 3
            time.sleep(0.001)

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AtZero())
    keyed = env.add_source(numbers).assign_timestamps_and_watermarks(strategy).key_by(lambda _: "the key")
    if how == "state":
        return keyed.process(Aggregates()).name("grows")
    window = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    return window.aggregate(Grows(), accumulator_type=NUMBERS).name("grows")


@BACKENDS
@pytest.mark.parametrize("how", ["state", "window"])
@pytest.mark.parametrize("tolerable", [0, 1_000_000])
def test_an_accumulator_that_is_not_of_its_type_any_more_ends_the_job(backend, how, tolerable):
    """Whatever number of failed checkpoints the job puts up with: each further one would fail, too."""
    env = environment(backend)
    env.enable_checkpointing(10)
    env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(tolerable)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    with pytest.raises(Exception) as caught:
        collected(grown(env, how))
    told = "".join(traceback.format_exception(caught.value))
    assert re.search(r"the state '[^']+' of the key 'the key' cannot be saved: .*'text'", told), told
    assert "in operator 'grows'" in told or sys.version_info < (3, 11), told  # which has no notes


# --- one object, several holders


def extended(one, other):
    one["l"] += other["l"]
    return one


def put_before(one, other):
    other["l"][:0] = one["l"]
    return other


def four(env):
    stream = env.from_collection([{"l": [number], "t": 1000 * number} for number in range(4)])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FieldTime())
    return stream.assign_timestamps_and_watermarks(strategy)


class FieldTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["t"]


class EachElement(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield from elements


class MoreThanOneWindow(SlidingEventTimeWindows):
    """A user's own, of which nothing is known."""


def with_99(value):
    value["l"].append(99)
    return value["l"]


SLIDING = [[0, 99], [0, 1, 99], [1, 2, 99], [2, 3, 99], [3, 99]]
ASSIGNERS = [
    SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)),
    MoreThanOneWindow(2_000, 1_000, 0),
]


@BACKENDS
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("reduce", [extended, put_before])
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=["fast", "general"])
def test_a_record_in_two_windows_is_not_one_object(backend, is_batch, reduce, assigner):
    env = environment(backend)
    if is_batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    windows = four(env).key_by(lambda value: 0).window(assigner)
    assert collected(windows.reduce(reduce).map(with_99)) == SLIDING


@BACKENDS
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=["fast", "general"])
def test_what_is_done_to_an_element_of_a_window_no_other_window_sees(backend, assigner):
    windows = four(environment(backend)).key_by(lambda value: 0).window(assigner)
    assert collected(windows.process(EachElement()).map(with_99)) == [[n, 99] for n in (0, 0, 1, 1, 2, 2, 3, 3)]


@BACKENDS
@pytest.mark.parametrize("reduce", [extended, put_before])
def test_counted_windows_that_overlap_share_no_record(backend, reduce):
    windows = four(environment(backend)).key_by(lambda value: 0).count_window(3, 1)
    assert collected(windows.reduce(reduce).map(with_99)) == [[0, 1, 2, 99], [1, 2, 3, 99]]


@BACKENDS
def test_what_is_done_to_what_an_evictor_left_does_not_stay_in_the_window(backend):
    stream = four(environment(backend)).key_by(lambda value: 0).window(GlobalWindows.create())
    windows = stream.trigger(CountTrigger.of(1)).evictor(CountEvictor.of(2))
    assert collected(windows.process(EachElement()).map(with_99)) == [[n, 99] for n in (0, 0, 1, 1, 2, 2, 3)]
    stream = four(environment(backend)).key_by(lambda value: 0).window(GlobalWindows.create())
    windows = stream.trigger(CountTrigger.of(1)).evictor(CountEvictor.of(2))
    assert collected(windows.reduce(extended).map(with_99)) == [[0, 99], [0, 1, 99], [1, 2, 99], [2, 3, 99]]


class AddsInPlace(Grows):
    """All values, in an accumulator that is changed in place."""

    def create_accumulator(self):
        return []

    def get_result(self, accumulator):
        return list(accumulator)


def after_a_read(update):
    class Reads(KeyedProcessFunction):
        def open(self, runtime_context):
            life = StateTtlConfig.new_builder(Time.hours(1)).set_update_type(update).build()
            reducing = ReducingStateDescriptor("r", lambda a, b: (a.extend(b), a)[1], Types.PICKLED_BYTE_ARRAY())
            aggregating = AggregatingStateDescriptor("a", AddsInPlace(), Types.PICKLED_BYTE_ARRAY())
            for descriptor in (reducing, aggregating):
                descriptor.enable_time_to_live(life)
            self.reduced = runtime_context.get_reducing_state(reducing)
            self.aggregated = runtime_context.get_aggregating_state(aggregating)

        def process_element(self, value, ctx):
            self.reduced.get(), self.aggregated.get()
            self.reduced.add([value])
            self.aggregated.add(value)
            yield self.reduced.get(), self.aggregated.get()

    return Reads()


@BACKENDS
@pytest.mark.parametrize("update", list(StateTtlConfig.UpdateType))
def test_a_snapshot_has_nothing_of_what_came_after_it_though_a_read_made_the_value_young(backend, update):
    options = {"state.backend.rocksdb.cache.entries": "1"} if backend == "rocksdb" else {}
    settings = ExecutionSettings(state_backend=backend, state_backend_options=options)
    stream = environment().from_collection([]).key_by(lambda value: 0).process(after_a_read(update))
    with OperatorHarness.of(stream, settings=settings) as before:
        before.process_elements([1, 2])
        snapshot = before.snapshot()
        before.process_elements([3, 4])
        assert before.output_values[-1] == ([1, 2, 3, 4], [1, 2, 3, 4])
        with OperatorHarness.of(stream, settings=settings, restore=snapshot) as after:
            after.process_elements([3, 4])
            assert after.output_values[-1] == ([1, 2, 3, 4], [1, 2, 3, 4])


@BACKENDS
def test_what_a_reducing_state_was_given_the_function_may_go_on_changing(backend):
    class Gives(KeyedProcessFunction):
        def open(self, runtime_context):
            united = ReducingStateDescriptor("r", lambda a, b: (a.update(b), a)[1], Types.PICKLED_BYTE_ARRAY())
            self.state, self.given = runtime_context.get_reducing_state(united), []

        def process_element(self, value, ctx):
            self.given.append({value: ["fresh"]})
            self.state.add(self.given[-1])
            for tags in (each for given in self.given for each in given.values()):
                tags[0] = "old"
            yield self.state.get()

    stream = environment(backend).from_collection(["a", "b", "c"]).key_by(lambda value: 0).process(Gives())
    assert collected(stream)[-1] == {"a": ["fresh"], "b": ["fresh"], "c": ["fresh"]}


# --- keys of maps


def counts_of(keys, key_type, backend, life=None):
    class Counts(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = MapStateDescriptor("m", key_type, Types.LONG())
            if life is not None:
                descriptor.enable_time_to_live(life)
            self.counts = runtime_context.get_map_state(descriptor)

        def process_element(self, value, ctx):
            self.counts.put(value, (self.counts.get(value) or 0) + 1)
            found = self.counts.get(value), self.counts.contains(value), len(list(self.counts.keys()))
            if found[0] == 3:
                self.counts.remove(value)
                found = (*found, self.counts.contains(value))
            yield found

    return collected(environment(backend).from_collection(keys).key_by(lambda value: 0).process(Counts()))


LIFE = StateTtlConfig.new_builder(Time.hours(1)).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build()


@BACKENDS
@pytest.mark.parametrize("life", [None, LIFE], ids=["plain", "ttl"])
@pytest.mark.parametrize(
    ("key_type", "make"),
    [
        (Types.FLOAT(), lambda: 0.1),
        (Types.TUPLE([Types.FLOAT(), Types.LONG()]), lambda: (0.1, 1)),
        (Types.ROW([Types.FLOAT()]), lambda: Row(0.1)),
        (Types.DOUBLE(), lambda: float("nan")),
        (Types.TUPLE([Types.DOUBLE(), Types.LONG()]), lambda: (float("nan"), 1)),
        (Types.PICKLED_BYTE_ARRAY(), lambda: (1, (float("nan"), "a"))),
        (Types.LONG(), lambda: 7),
        (Types.STRING(), lambda: "a"),
    ],
    ids=str,
)
def test_a_map_finds_what_was_put_under_an_equal_key(backend, life, key_type, make):
    found = counts_of([make() for _ in range(3)], key_type, backend, life)
    assert found == [(1, True, 1), (2, True, 1), (3, True, 1, False)]
