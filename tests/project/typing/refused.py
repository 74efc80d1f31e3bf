"""A program of mistakes: type checkers find one in each line that says so, and in no other."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark import RDD
from pyspark.sql import DataFrame

import flinkbuf as fb
from flinkbuf.common import Types
from flinkbuf.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    DataStream,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.connectors import FileSource
from flinkbuf.datastream.state import MapStateDescriptor
from flinkbuf.datastream.window import TimeWindow


async def fetch(trip: tuple[str, float]) -> bytes:
    return trip[0].encode()


def mistakes(trips: RDD[tuple[str, float]], frame: DataFrame, partition: fb.ResultPartition) -> None:
    fb.exchnage(trips)  # wrong: no such name
    fb.exchange([("JFK", 1.5)], 0)  # wrong: a list is no RDD
    fb.exchange(frame, "origin", type="origin string")  # wrong: the columns of a DataFrame have types
    fb.exchange(trips, lambda trip: trip[2])  # wrong: a trip has two fields
    fb.exchange(trips, "origin", mode="pipeline")  # wrong: "pipelined"
    fb.exchange(trips, "origin", config={"segment_size": 4096})  # wrong: no NetworkConfig
    moved: RDD[int] = fb.exchange(trips, "origin")  # wrong: trips are no ints
    fb.async_map(trips, fetch).map(lambda page: page.encode())  # wrong: pages are bytes already
    fb.async_map(trips, fetch, capazity=10)  # wrong: no such option
    fb.async_map(trips, fetch, schema="page binary")  # wrong: a schema is for a DataFrame
    fb.async_map(frame, fetch)  # wrong: a DataFrame needs one
    fb.NetworkConfig(detailed_metrics=True)  # wrong: nothing reads it
    fb.types.LocalDate(2024, 2)  # wrong: no day
    fb.types.LocalDate(2024, 2, 29).day = 28  # wrong: it cannot be changed
    partition.num_subpartitions  # wrong: its name is subpartition_count
    partition.broadcast_event(fb.events.EndOfData(), priority=True)  # wrong: is_priority
    print(moved)


def mistakes_in_streams(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(["to", "be"])
    words.map(lambda word: word.uper())  # wrong: no such method of a str
    lengths: DataStream[str] = words.map(len)  # wrong: lengths are ints
    words.key_by(len).reduce(lambda a, b: a + len(b))  # wrong: a str and a number
    words.union(words.map(len))  # wrong: streams of two types
    words.execute_and_collect(limit="3")  # wrong: a limit is a number
    print(lengths)


class Counted(ProcessWindowFunction[int, str, int, TimeWindow]):
    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> list[str]:
        return [str(sum(elements))]


class Both(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: str) -> int:
        return len(value)


class Lengths(ProcessFunction[str, int]):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> list[int]:
        return [len(value)]


def lengths_are_numbers(numbers: DataStream[int], words: DataStream[str]) -> None:
    numbers.process(Lengths())  # wrong: the function takes texts
    words.process(Lengths()).map(lambda length: length.upper())  # wrong: no such method of an int


class Ruled(BroadcastProcessFunction[int, str, float]):
    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> list[float]:
        return [value / 2]

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> None:
        return None


def mistakes_in_windows_and_joins(env: StreamExecutionEnvironment) -> None:
    words, numbers = env.from_collection(["to", "be"]), env.from_collection([1, 2])
    windows = words.key_by(len).count_window(2)
    windows.process(Counted())  # wrong: words are no numbers
    counted = numbers.key_by(lambda number: number).count_window(2).process(Counted())
    sums: DataStream[int] = counted  # wrong: it gives texts
    words.connect(numbers).map(Both())  # wrong: the numbers come first
    both = numbers.connect(words).map(Both())
    texts: DataStream[str] = both  # wrong: it gives numbers
    rules = words.broadcast(MapStateDescriptor("rules", Types.STRING(), Types.INT()))
    words.connect(rules).process(Ruled())  # wrong: it wants numbers
    FileSource.for_record_stream("/tmp")  # wrong: for_record_stream_format
    print(sums, texts)
