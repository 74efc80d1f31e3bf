"""What each method of a stream adds to the program, and which arguments it refuses. Nothing is run here."""

import json

import pytest

from flinkbuf.common import Duration, Encoder, Time, Types, WatermarkStrategy
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.connectors.base import StreamTransformer, SupportsPreprocessing
from flinkbuf.datastream.connectors.file_system import FileSink
from flinkbuf.datastream.state import MapStateDescriptor
from flinkbuf.datastream.window import CountTrigger, EventTimeSessionWindows, TumblingEventTimeWindows
from flinkbuf.runtime.graph.transformation import ChainingStrategy, CustomExchange, KeyedExchange
from flinkbuf.streaming.sinks.file_sink import PartFileSink

INT, STRING = Types.INT(), Types.STRING()


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(4)


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2, 3], INT)


@pytest.fixture
def anything(env):
    return env.from_collection([1, "a"])


def method_of(base, *methods):
    """An instance of a user's function whose methods do nothing."""
    return type("Users", (base,), {method: lambda self, *arguments: None for method in methods})()


PROCESS = method_of(ProcessFunction, "process_element")
KEYED_PROCESS = method_of(KeyedProcessFunction, "process_element")
CO_MAP = method_of(CoMapFunction, "map1", "map2")
CO_FLAT_MAP = method_of(CoFlatMapFunction, "flat_map1", "flat_map2")
CO_PROCESS = method_of(CoProcessFunction, "process_element1", "process_element2")
KEYED_CO_PROCESS = method_of(KeyedCoProcessFunction, "process_element1", "process_element2")
BROADCAST = method_of(BroadcastProcessFunction, "process_element", "process_broadcast_element")
KEYED_BROADCAST = method_of(KeyedBroadcastProcessFunction, "process_element", "process_broadcast_element")
WINDOW = method_of(ProcessWindowFunction, "process")
AGGREGATE = method_of(AggregateFunction, "create_accumulator", "add", "get_result", "merge")
RULES = MapStateDescriptor("rules", STRING, STRING)
HOURS = TumblingEventTimeWindows.of(Time.hours(1))


class Later(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Lookup(AsyncFunction):
    async def async_invoke(self, value):
        return [value]


def keyed(stream):
    return stream.key_by(lambda value: value, INT)


@pytest.mark.parametrize(
    ("make", "name", "type_info"),
    [
        (lambda s: s.map(str), "Map", None),
        (lambda s: s.map(str, STRING), "Map", STRING),
        (lambda s: s.map(str, "string"), "Map", STRING),
        (lambda s: s.map(lambda v: (v,), [INT]), "Map", Types.ROW([INT])),
        (lambda s: s.map(str, Types.PICKLED_BYTE_ARRAY()), "Map", None),
        (lambda s: s.flat_map(range), "FlatMap", None),
        (lambda s: s.filter(bool), "Filter", INT),
        (lambda s: s.process(PROCESS, INT), "PROCESS", INT),
        (lambda s: keyed(s).map(str), "Map", None),
        (lambda s: keyed(s).filter(bool), "Filter", INT),
        (lambda s: keyed(s).reduce(max), "Reduce", INT),
        (lambda s: keyed(s).sum(), "Reduce", INT),
        (lambda s: keyed(s).min_by(0), "Reduce", INT),
        (lambda s: keyed(s).process(KEYED_PROCESS), "KEYED PROCESS", None),
        (lambda s: s.connect(s).map(CO_MAP), "Co-Map", None),
        (lambda s: s.connect(s).flat_map(CO_FLAT_MAP, INT), "Co-Flat Map", INT),
        (lambda s: s.connect(s).process(CO_PROCESS), "Co-Process", None),
        (lambda s: keyed(s).connect(keyed(s)).process(KEYED_CO_PROCESS), "Keyed Co-Process", None),
        (lambda s: s.connect(s.broadcast(RULES)).process(BROADCAST, INT), "Co-Process-Broadcast", INT),
        (lambda s: keyed(s).connect(s.broadcast(RULES)).process(KEYED_BROADCAST), "Keyed-Co-Process-Broadcast", None),
        (lambda s: keyed(s).window(HOURS).reduce(max), "TumblingEventTimeWindows", INT),
        (lambda s: keyed(s).window(HOURS).process(WINDOW), "TumblingEventTimeWindows", None),
        (lambda s: keyed(s).window(HOURS).aggregate(AGGREGATE, output_type=INT), "TumblingEventTimeWindows", INT),
        (lambda s: keyed(s).count_window(2).reduce(max), "CountTumblingWindowAssigner", INT),
        (lambda s: keyed(s).count_window(4, 2).reduce(max), "CountSlidingWindowAssigner", INT),
        (lambda s: s.window_all(HOURS).reduce(max), "TumblingEventTimeWindows", INT),
        (lambda s: s.get_side_output(OutputTag("late", STRING)), "Map", STRING),
        (lambda s: AsyncDataStream.unordered_wait(s, Lookup(), Time.seconds(1)), "async wait operator", None),
    ],
)
def test_name_and_type_of_what_a_method_gives(numbers, make, name, type_info):
    made = make(numbers.map(int, INT))
    assert made.get_name() == name and made._transformation.type == type_info
    assert made._transformation.parallelism == 4


def test_the_plan_says_how_records_travel(env, numbers):
    stream = numbers.map(int)
    for how in ("shuffle", "rebalance", "rescale", "forward", "broadcast"):
        stream = getattr(stream, how)().map(int).name(how)
    stream.partition_custom(lambda key, count: 0, lambda value: value).map(int).name("custom")
    keyed(stream).map(int).name("keyed").print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    ships = {node["type"]: [each["ship_strategy"] for each in node.get("predecessors", [])] for node in nodes}
    assert ships == {
        "Source: Collection Source": [],
        "Map": ["REBALANCE"],
        "shuffle": ["SHUFFLE"],
        "rebalance": ["REBALANCE"],
        "rescale": ["RESCALE"],
        "forward": ["FORWARD"],
        "broadcast": ["BROADCAST"],
        "custom": ["CUSTOM"],
        "keyed": ["HASH"],
        "Sink: Print to Std. Out": ["FORWARD"],
    }


def test_names_uids_and_the_rest_are_the_operators(numbers):
    stream = numbers.map(int).name("m").uid("u").set_uid_hash("AB" * 16).set_parallelism(2).set_max_parallelism(8)
    stream.set_buffer_timeout(0).set_description("d").slot_sharing_group("g").start_new_chain()
    operator = stream._transformation
    assert (operator.name, operator.uid, operator.uid_hash, operator.parallelism) == ("m", "u", "ab" * 16, 2)
    assert (operator.max_parallelism, operator.buffer_timeout_ms, operator.description) == (8, 0, "d")
    assert operator.slot_sharing_group == "g" and operator.chaining_strategy is ChainingStrategy.HEAD
    assert stream.disable_chaining()._transformation.chaining_strategy is ChainingStrategy.NEVER
    assert stream.set_parallelism(-1)._transformation.parallelism is None
    sink = stream.print("here").name("s").uid("v").set_parallelism(1).disable_chaining().set_description("e")
    assert (sink._transformation.name, sink._transformation.uid, sink._transformation.is_sink) == ("s", "v", True)


def test_a_slot_sharing_group_with_needs_is_noted_by_the_environment(env, numbers):
    group = SlotSharingGroup.builder("models").set_cpu_cores(1).set_task_heap_memory_mb(10).build()
    numbers.map(int).slot_sharing_group(group)
    assert env._slot_sharing_groups == {"models": group}


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: s.map(5), TypeError, "MapFunction or a callable"),
        (lambda s: s.map(CO_MAP), TypeError, "MapFunction or a callable"),
        (lambda s: s.flat_map(5), TypeError, "FlatMapFunction or a callable"),
        (lambda s: s.filter("x"), TypeError, "FilterFunction or a callable"),
        (lambda s: s.key_by(5), TypeError, "key_selector should be"),
        (lambda s: s.process(int), TypeError, "must be a ProcessFunction"),
        (lambda s: s.process(KEYED_PROCESS), TypeError, "needs a keyed stream"),
        (lambda s: keyed(s).process(PROCESS), TypeError, "KeyedProcessFunction is required"),
        (lambda s: keyed(s).reduce(5), TypeError, "ReduceFunction or a callable"),
        (lambda s: keyed(s).sum(1.5), TypeError, "field position must be of int or str"),
        (lambda s: keyed(s).min(None), TypeError, "field position must be of int or str"),
        (lambda s: s.map(str, 5), TypeError, "5"),
        (lambda s: s.set_parallelism(0), ValueError, "parallelism of an operator must be at least 1"),
        (lambda s: s.set_parallelism("2"), TypeError, "must be an int"),
        (lambda s: s.set_max_parallelism(0), ValueError, "must be greater than 0"),
        (lambda s: s.set_max_parallelism(40000), ValueError, "between 1 and 32768. Found: 40000"),
        (lambda s: s.set_buffer_timeout(-2), ValueError, "timeout must be >= -1"),
        (lambda s: s.set_uid_hash("xyz"), ValueError, "32 character String"),
        (lambda s: s.slot_sharing_group(5), TypeError, "slot sharing group"),
        (lambda s: s.union(5), TypeError, "union takes streams"),
        (lambda s: s.union(s.map(str)), ValueError, "different types: Integer and PickledByteArrayTypeInfo"),
        (lambda s: s.connect(5), TypeError, "connect takes"),
        (lambda s: s.connect(s).map(str), TypeError, "must be a CoMapFunction"),
        (lambda s: s.connect(s).flat_map(CO_MAP), TypeError, "must be a CoFlatMapFunction"),
        (lambda s: s.connect(s).process(PROCESS), TypeError, "CoProcessFunction or KeyedCoProcessFunction"),
        (lambda s: s.connect(s).process(KEYED_CO_PROCESS), TypeError, "needs both streams keyed"),
        (lambda s: keyed(s).connect(s.broadcast(RULES)).process(BROADCAST), TypeError, "to non-keyed DataStream"),
        (lambda s: s.connect(s.broadcast(RULES)).process(KEYED_BROADCAST), TypeError, "to keyed DataStream"),
        (lambda s: s.connect(s.broadcast(RULES)).process(PROCESS), TypeError, "must be a BroadcastProcessFunction"),
        (lambda s: s.broadcast(5), TypeError, "must be MapStateDescriptor"),
        (lambda s: s.project(0), ValueError, "Only Tuple DataStreams"),
        (lambda s: s.assign_timestamps_and_watermarks(5), TypeError, "WatermarkStrategy is needed"),
        (lambda s: s.get_side_output("late"), TypeError, "OutputTag is needed"),
        (lambda s: s.rebalance().name("x"), RuntimeError, "belongs to an operator"),
        (lambda s: s.union(s).set_parallelism(2), RuntimeError, "belongs to an operator"),
        (lambda s: s.partition_custom(5, str), TypeError, "partitioner should be"),
        (lambda s: s.partition_custom(lambda key, count: 0, 5), TypeError, "key_selector should be"),
        (lambda s: s.add_sink(5), TypeError, "add_sink takes"),
        (lambda s: s.sink_to(5), TypeError, "sink_to takes"),
        (lambda s: s.print(5), TypeError, "sink_identifier must be a str"),
        (lambda s: s.execute_and_collect(limit=0), ValueError, "Limit must be greater than 0"),
        (lambda s: keyed(s).window(5), TypeError, "WindowAssigner is needed"),
        (lambda s: keyed(s).window(HOURS).trigger(5), TypeError, "Trigger is needed"),
        (lambda s: keyed(s).window(HOURS).allowed_lateness(-1), ValueError, "cannot be negative"),
        (lambda s: keyed(s).window(HOURS).side_output_late_data("x"), TypeError, "OutputTag is needed"),
        (lambda s: keyed(s).window(HOURS).reduce(5), TypeError, "ReduceFunction or a callable"),
        (lambda s: keyed(s).window(HOURS).reduce(max, 5), TypeError, "WindowFunction or ProcessWindowFunction"),
        (lambda s: keyed(s).window(HOURS).aggregate(max), TypeError, "AggregateFunction"),
        (lambda s: keyed(s).window(HOURS).apply(WINDOW), TypeError, "should be a WindowFunction"),
        (lambda s: s.window_all(HOURS).process(WINDOW), TypeError, "should be a ProcessAllWindowFunction"),
    ],
)
def test_wrong_arguments_are_refused_at_once(numbers, call, error, text):
    with pytest.raises(error, match=text):
        call(numbers.map(int, INT))


def test_a_session_window_needs_a_trigger_that_merges(numbers):
    class Never(CountTrigger):
        def can_merge(self):
            return False

    sessions = keyed(numbers).window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    with pytest.raises(TypeError, match="does not support merging"):
        sessions.trigger(Never(2))


def test_a_source_of_one_subtask_stays_one(numbers):
    with pytest.raises(ValueError, match="The parallelism of non parallel operator must be 1"):
        numbers.set_parallelism(2)
    forced = numbers.map(int).force_non_parallel()
    assert forced._transformation.parallelism == 1
    with pytest.raises(ValueError, match="non parallel operator"):
        forced.set_parallelism(2)


@pytest.mark.parametrize(
    "name",
    [
        "get_name",
        "force_non_parallel",
        "start_new_chain",
        "disable_chaining",
        "cache",
        "shuffle",
        "rescale",
        "rebalance",
        "forward",
        "broadcast",
    ],
)
def test_a_keyed_stream_has_no_operator_and_no_other_partitioning(numbers, name):
    with pytest.raises(RuntimeError, match="KeyedStream"):
        getattr(keyed(numbers), name)()


@pytest.mark.parametrize("name", ["name", "uid", "set_uid_hash", "set_parallelism", "slot_sharing_group"])
def test_keyed_and_cached_streams_have_nothing_to_set(numbers, name):
    for stream in (keyed(numbers), numbers.cache()):
        with pytest.raises(RuntimeError, match=f"{type(stream).__name__} is not supported"):
            getattr(stream, name)("x")


def test_the_type_of_a_keyed_stream_is_a_row_of_key_and_record(numbers, anything):
    assert str(keyed(numbers).get_type()) == "RowTypeInfo(f0: Integer, f1: Integer)"
    assert anything.get_type() == Types.PICKLED_BYTE_ARRAY()
    assert str(anything.map(str, Types.ROW([INT])).get_type()) == "RowTypeInfo(f0: Integer)"


def test_keys_go_by_what_the_selector_gives(numbers):
    stream = keyed(numbers)
    assert stream._transformation.partitioner == KeyedExchange(stream._selector, INT)
    again = stream.key_by(str)
    assert isinstance(again, KeyedStream) and again._transformation.inputs == [numbers._transformation]


def test_a_function_that_can_be_opened_has_keyed_state_and_a_plain_one_needs_none(numbers):
    opened = keyed(numbers).map(method_of(MapFunction, "map"))._transformation
    plain = keyed(numbers).map(str)._transformation
    assert opened.is_keyed and opened.key_type == INT and opened.factory.key_selector is not None
    assert not plain.is_keyed and plain.factory.key_selector is None


def test_custom_partitioning_calls_methods_of_functions_and_callables_alike(numbers):
    class Last(Partitioner):
        def partition(self, key, num_partitions):
            return num_partitions - 1

    class Length(KeySelector):
        def get_key(self, value):
            return len(value)

    exchange = numbers.partition_custom(Last(), Length())._transformation.partitioner
    assert isinstance(exchange, CustomExchange)
    assert exchange.partition(exchange.selector("abc"), 4) == 3


def test_a_stream_that_is_connected_with_itself_is_read_by_both_inputs(numbers):
    mapped = numbers.map(int)
    assert mapped.connect(mapped).map(CO_MAP)._transformation.inputs == [mapped._transformation] * 2


def test_an_operator_of_connected_streams_is_keyed_only_if_both_are(numbers):
    assert keyed(numbers).connect(keyed(numbers)).map(CO_MAP)._transformation.is_keyed
    assert not keyed(numbers).connect(numbers).map(CO_MAP)._transformation.is_keyed
    connected = numbers.connect(keyed(numbers)).key_by(str, str, STRING)
    assert connected.map(CO_MAP)._transformation.key_type == STRING


def test_projection_keeps_the_types_of_the_fields(env):
    pairs = env.from_collection([(1, "a")], Types.TUPLE([INT, STRING]))
    assert pairs.project(1, 0, 1).get_type() == Types.TUPLE([STRING, INT, STRING])
    assert pairs.project(1)._transformation.factory.function((1, "a")) == ("a",)
    with pytest.raises(IndexError, match="Index: 2, Size: 2"):
        pairs.project(2)
    with pytest.raises(ValueError, match="at least one"):
        pairs.project()


def test_union_of_nothing_is_the_stream_itself_and_streams_of_two_programs_do_not_meet(numbers):
    assert numbers.union()._transformation is numbers._transformation
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1], INT)
    with pytest.raises(ValueError, match="different environments"):
        numbers.union(other)
    with pytest.raises(ValueError, match="different environments"):
        numbers.connect(other).map(CO_MAP)


def test_watermarks_alone_keep_the_parallelism_of_what_they_follow(numbers):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    alone = numbers.assign_timestamps_and_watermarks(strategy)
    assert (alone.get_name(), alone._transformation.parallelism) == ("Timestamps/Watermarks", 1)
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(Later())
    assert numbers.assign_timestamps_and_watermarks(bounded)._transformation.parallelism == 4


def test_a_side_output_has_one_type(numbers):
    mapped = numbers.map(int)
    mapped.get_side_output(OutputTag("late", INT))
    with pytest.raises(ValueError, match="already requested with a different type"):
        mapped.get_side_output(OutputTag("late", STRING))


def test_windows_say_in_the_plan_what_they_are(numbers):
    windows = keyed(numbers).window(HOURS).allowed_lateness(5).side_output_late_data(OutputTag("late", INT))
    result = windows.reduce(lambda one, two: one, WINDOW, STRING)
    description = "Window(TumblingEventTimeWindows(3600000, 0), EventTimeTrigger, function, Users)"
    assert result._transformation.description == description
    assert str(windows.get_input_type()) == "Integer" and windows.get_execution_environment() is numbers._env
    whole = numbers.window_all(HOURS).reduce(max)._transformation
    assert whole.description.startswith("AllWindow(TumblingEventTimeWindows(3600000, 0), EventTimeTrigger, ")


@pytest.mark.parametrize("capacity", [0, -1, 2.5, True])
def test_asynchronous_calls_need_room_for_a_record(numbers, capacity):
    class Doubles(AsyncFunction):
        async def async_invoke(self, value):
            return [2 * value]

    with pytest.raises(ValueError, match="capacity must be a whole number of at least 1"):
        AsyncDataStream.ordered_wait(numbers, Doubles(), Time.seconds(1), capacity)


def test_asynchronous_calls_check_their_function_and_their_timeout(numbers):
    retry = AsyncRetryStrategy.fixed_delay(3, 10, None, lambda error: True)
    with pytest.raises(TypeError, match="an AsyncFunction is needed, an object with 'async def async_invoke"):
        AsyncDataStream.ordered_wait(numbers, CO_MAP, Time.seconds(1))
    with pytest.raises(ValueError, match="Timeout should be configured"):
        AsyncDataStream.ordered_wait_with_retry(numbers, Lookup(), Time.seconds(0), retry)
    with pytest.raises(TypeError, match="should not be None"):
        AsyncDataStream.unordered_wait_with_retry(numbers, Lookup(), Time.seconds(1), None)
    operator = AsyncDataStream.ordered_wait_with_retry(keyed(numbers), Lookup(), Time.seconds(1), retry, 7, INT)
    assert operator._transformation.is_yielding and operator._transformation.factory.factory.capacity == 7


class _Doubled(StreamTransformer):
    def apply(self, ds):
        return ds.map(lambda number: 2 * number)


class _Doubling(PartFileSink, SupportsPreprocessing):
    def get_transformer(self):
        return _Doubled()


def test_a_sink_may_have_something_done_to_its_stream_first(env, tmp_path):
    options = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build().options
    env.from_collection([1, 2, 3]).sink_to(_Doubling(options))
    env.execute()
    assert sorted(line for file in tmp_path.rglob("part-*") for line in file.read_text().split()) == ["2", "4", "6"]
