"""A user's program in which type checkers find nothing wrong, and the types that they see in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

import flinkbuf as fb
from flinkbuf.common import Encoder, Time, Types, WatermarkStrategy
from flinkbuf.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flinkbuf.datastream.connectors import FileSink, NumberSequenceSource
from flinkbuf.datastream.data_stream import CloseableIterator
from flinkbuf.datastream.state import MapStateDescriptor, ValueState, ValueStateDescriptor
from flinkbuf.datastream.window import TimeWindow, TumblingEventTimeWindows

if TYPE_CHECKING:
    from typing_extensions import assert_type


async def fetch(trip: tuple[str, float]) -> bytes:
    await asyncio.sleep(0.01)
    return trip[0].encode()


async def fetch_in_session(trip: tuple[str, float], session: object) -> list[bytes]:
    return [trip[0].encode(), repr(session).encode()]


def records_keep_their_type(trips: RDD[tuple[str, float]]) -> None:
    assert_type(fb.exchange(trips, "origin", type="origin string, delay double"), RDD[tuple[str, float]])
    assert_type(fb.exchange(trips, lambda trip: trip[0], mode="pipelined"), RDD[tuple[str, float]])
    assert_type(fb.exchange(trips, partitioner=fb.by_key(0), num_partitions=8), RDD[tuple[str, float]])
    assert_type(fb.exchange(trips, partitioner=lambda trip, count: int(trip[1]) % count), RDD[tuple[str, float]])
    config = fb.NetworkConfig(segment_size=65536, auth=b"sixteen bytes or more")
    assert_type(fb.exchange(trips, partitioner="rebalance", config=config), RDD[tuple[str, float]])


def results_have_that_of_the_coroutine(trips: RDD[tuple[str, float]], stats: fb.async_io.AsyncStats) -> None:
    retry = fb.async_io.ExponentialRetry(5, 0.1, max_delay=2.0)
    assert_type(fb.async_map(trips, fetch), RDD[bytes])
    assert_type(fb.async_map(trips, fetch, capacity=10, timeout=5.0, retry=retry, on_error="skip"), RDD[bytes])
    several = fb.async_map(
        trips, fetch_in_session, open=object, options=fb.async_io.AsyncMapOptions(flat=True), stats=stats
    )
    assert_type(several.count(), int)
    for skipped in stats.skipped_records:
        assert_type(skipped, fb.async_io.SkippedRecord)
        assert_type(skipped.error, str)


def a_data_frame_gives_a_data_frame(frame: DataFrame) -> None:
    looked_up = fb.async_map(frame, fetch, schema="temp double", retry=fb.async_io.FixedDelayRetry(3, 0.5))
    assert_type(looked_up, DataFrame)


def buffers_and_partitions() -> Iterator[object]:
    record_type = fb.as_type("origin string, delay double")
    assert_type(record_type, fb.types.TypeInformation)
    assert_type(record_type.serialize(("JFK", 1.5)), bytes)
    for channel, buffer in fb.write_buffers([("JFK", 1.5)], record_type, 4, fb.by_key("origin")):
        assert_type(channel, int)
        yield from fb.read_buffers([buffer], record_type)
    with fb.NetworkBufferPool(16, segment_size=4096) as pool:
        partition = fb.ResultPartition(pool, 2, type="PIPELINED_BOUNDED")
        assert_type(partition.subpartition_count, int)
        with fb.RecordWriter(partition, record_type, "rebalance") as writer:
            writer.emit(("JFK", 1.5))
            writer.write_event(fb.events.CheckpointBarrier(1, 0), is_priority=True)
            writer.write_event(fb.events.WatermarkEvent("progress", 7))
        with fb.InputGate([(partition, 0), (partition, 1)]) as gate:
            for record in fb.RecordReader(gate, record_type, events=True):
                if isinstance(record, fb.events.CheckpointBarrier):
                    assert_type(record.checkpoint_id, int)
                    assert_type(record.alignment, fb.events.AlignmentType)
                yield record


def values() -> None:
    assert_type(fb.types.LocalDate(2024, 2, 29).year, int)
    assert_type(fb.types.StreamRecord("x", 5).timestamp, "int | None")
    match fb.types.Instant(1, 2):
        case fb.types.Instant(second, nano):
            assert_type(second + nano, int)


def errors(session: SparkSession) -> None:
    trips = session.sparkContext.parallelize([("JFK", 1.5)])
    try:
        fb.async_map(trips, fetch, timeout=1.0).collect()
    except fb.errors.AsyncTimeoutError as error:
        assert_type(error.attempts, int)
    except fb.errors.AsyncCallError as error:
        assert_type(error.record, object)
    except (fb.errors.PeerFailedError, fb.FlinkbufError) as error:
        assert_type(str(error), str)
    assert_type(fb.spark.exchange_summaries(), list[fb.spark.ExchangeSummary])
    assert_type(fb.__version__, str)


class Shout(MapFunction):
    def map(self, value: str) -> str:
        return value.upper()


class Near(ProcessJoinFunction):
    def process_element(self, left: str, right: str, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield f"{left} {right} {ctx.get_timestamp()}"


class Lengths(ProcessFunction[str, int]):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[int | tuple[OutputTag, str]]:
        yield len(value)
        yield OutputTag("words"), value


class Letters(FlatMapFunction[str, str]):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value


def functions_say_what_they_give(words: DataStream[str]) -> None:
    assert_type(words.map(Shout()), DataStream[Any])
    assert_type(words.flat_map(Letters()), DataStream[str])
    assert_type(words.process(Lengths()), DataStream[int])


def letters(word: str) -> Iterator[str]:
    yield from word


def streams_know_what_their_records_are(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(["to", "be"])
    assert_type(words, DataStream[str])
    assert_type(words.map(len).filter(lambda length: length > 1), DataStream[int])
    assert_type(words.flat_map(letters).rebalance(), DataStream[str])
    pairs = words.map(lambda word: (word, len(word))).name("pairs").set_parallelism(2)
    assert_type(pairs, DataStream[tuple[str, int]])
    keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
    assert_type(keyed, KeyedStream[str, tuple[str, int]])
    counts = keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert_type(counts, DataStream[tuple[str, int]])
    hours = keyed.window(TumblingEventTimeWindows.of(Time.hours(1))).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert_type(counts.union(hours, keyed), DataStream[tuple[str, int]])
    with counts.execute_and_collect("counts") as results:
        assert_type(results, CloseableIterator[tuple[str, int]])
        for word, count in results:
            assert_type(word * count, str)
    assert_type(counts.execute_and_collect(limit=3), list[tuple[str, int]])


class Counted(ProcessWindowFunction[tuple[str, int], int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple[str, int]]
    ) -> Iterator[int]:
        yield len(list(elements))


class AnyCounted(WindowFunction[tuple[object, ...], float, object, object]):
    def apply(self, key: object, window: object, inputs: Iterable[tuple[object, ...]]) -> list[float]:
        return [float(len(list(inputs)))]


class Both(CoMapFunction):
    def map1(self, value: str) -> int | None:
        return len(value) or None

    def map2(self, value: tuple[str, int]) -> int:
        return value[1]


class Parts(CoFlatMapFunction):
    def flat_map1(self, value: str) -> Iterator[str]:
        yield from value

    def flat_map2(self, value: tuple[str, int]) -> list[int]:
        return [value[1]]


class Ruled(BroadcastProcessFunction[str, tuple[str, int], float]):
    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[float]:
        yield float(value)

    def process_broadcast_element(self, value: tuple[str, int], ctx: BroadcastProcessFunction.Context) -> None:
        return None


def windows_and_joined_streams_know_it_too(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(["to", "be"])
    pairs = words.map(lambda word: (word, len(word)))
    windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.hours(1)))
    assert_type(windows.process(Counted()), DataStream[int])
    assert_type(windows.apply(AnyCounted()), DataStream[float])
    assert_type(windows.reduce(lambda a, b: a, Counted()), DataStream[int])
    assert_type(windows.reduce(lambda a, b: a), DataStream[tuple[str, int]])
    assert_type(words.connect(pairs).map(Both()), DataStream[int])
    assert_type(words.connect(pairs).key_by(str, lambda pair: pair[0]).flat_map(Parts()), DataStream[str | int])
    rules = pairs.broadcast(MapStateDescriptor("rules", Types.STRING(), Types.INT()))
    assert_type(words.connect(rules).process(Ruled()), DataStream[float])


def connectors_are_seen(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.sink_to(FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder()).build())


def what_meets_in_a_join_keeps_its_type(env: StreamExecutionEnvironment) -> None:
    words, pairs = env.from_collection(["to", "be"]), env.from_collection([("to", 1.5)])
    by_word = words.join(pairs).where(lambda word: word.upper()).equal_to(lambda pair: pair[0])
    joined = by_word.window(TumblingEventTimeWindows.of(Time.hours(1))).apply(lambda word, pair: (len(word), pair[1]))
    assert_type(joined, DataStream[tuple[int, float]])


def tags_and_states_may_say_of_what_they_are(env: StreamExecutionEnvironment) -> None:
    late: OutputTag[tuple[str, int]] = OutputTag("late")
    assert_type(env.from_collection(["to"]).map(len).get_side_output(late), DataStream[tuple[str, int]])


class OncePerWord(KeyedProcessFunction[str, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        seen: ValueStateDescriptor[int] = ValueStateDescriptor("seen", Types.INT())
        self.seen = runtime_context.get_state(seen)
        assert_type(self.seen, ValueState[int])


def what_a_declared_type_makes_of_records_is_open(env: StreamExecutionEnvironment) -> None:
    ones = env.from_collection(["to", "be"]).map(lambda word: (word, 1)).key_by(lambda pair: pair[0])
    ones.reduce(lambda a, b: (a[0], a[1] + b[1])).print()  # no strict checker may think that 1 + 1 is no 1
    rows = env.from_collection([("tea", 2.0)], "item string, net double")
    rows.map(lambda row: row.item).map(Shout(), Types.STRING()).connect(rows).key_by(str, str)
    rows.key_by(lambda row: row.item).sum("net").print()
    hour = TumblingEventTimeWindows.of(Time.hours(1))
    by_item = rows.join(ones).where(lambda row: row.item).equal_to(lambda one: one[0])
    by_item.window(hour).apply(lambda row, one: (row.item, one[1])).print()
    both = rows.co_group(ones).where(lambda row: row.item).equal_to(lambda one: one[0])
    both.window(hour).allowed_lateness(5).apply(lambda first, second: [len(first) - len(second)]).print()
    near = rows.key_by(lambda row: row.item).interval_join(ones).between(Time.seconds(0), Time.hours(1))
    near.upper_bound_exclusive().process(Near(), Types.STRING()).print()
