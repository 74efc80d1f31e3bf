"""Pages of columns and the state of column operators out of damaged files: an error that says so, or rows; no more.

The files have checksums, so that what is damaged by accident is told before. Here pages are damaged behind them, byte
by byte and column by column: restoring them raises `CorruptDataError`, or TypeError for the state of another program,
or the operator goes on with what it was given, and may raise then. It never reads memory that is not its own.
``FUZZ_SECONDS`` has each test go on for so long.
"""

import contextlib
import os
import random
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flinkbuf.common.time import Time
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.columns import (
    KeyedBatchFunction,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    max_by,
    mean,
    min_,
    min_by,
    stddev,
    sum_,
)
from flinkbuf.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.column_batch import ColumnBatch, PageReader, PageWriter
from flinkbuf.streaming.state.column_state import restore_columns
from flinkbuf.testing import OperatorHarness

SECONDS = float(os.environ.get("FUZZ_SECONDS", 0))
RUNS = 25
EXTREMES = [-(2**63), 2**63 - 1, -(2**62), 2**62, -1, 0, 1, 7, 2**31, 2**32, 255]
DDL = "k string, n bigint, x double, d decimal(20, 2), w string"
WORDS = ["a", None, "longer than twelve bytes", "", "é", "b"]


def rows_of(number, count=24):
    rng = random.Random(number)
    return pa.record_batch(
        {
            "k": pa.array([f"k{rng.randrange(5)}" for _ in range(count)]),
            "n": pa.array([rng.choice([None, rng.randrange(-50, 50)]) for _ in range(count)], pa.int64()),
            "x": pa.array([rng.choice([None, float("nan"), -0.0, rng.random()]) for _ in range(count)], pa.float64()),
            "d": pa.array([Decimal(rng.randrange(100)) for _ in range(count)], pa.decimal128(20, 2)),
            "w": pa.array([rng.choice(WORDS) for _ in range(count)]),
        }
    )


def element_of(number):
    rng, batch = random.Random(number), rows_of(number)
    return ColumnBatch(batch, np.array([rng.randrange(100) for _ in range(batch.num_rows)], np.int64))


class Stateful(KeyedBatchFunction):
    def open(self, runtime_context):
        self.fixed = runtime_context.get_column_state("fixed", "n bigint, flag boolean, d decimal(20, 2)")
        self.any = runtime_context.get_column_state("any", "w string, words array<string>")

    def process_batch(self, batch, context):
        before, starts = self.any.get(context.keys)["words"], context.offsets[:-1]
        self.fixed.get(context.slots)
        n = batch["n"].take(starts)
        self.fixed.put(context.slots, {"n": n, "flag": n.is_null(), "d": batch["d"].take(starts)})
        words = pa.ListArray.from_arrays(np.arange(len(starts) + 1, dtype=np.int32), batch["w"].take(starts))
        self.any.put(context.slots, {"w": batch["w"].take(starts), "words": words})
        context.register_event_time_timers(context.slots, context.timestamps[starts] + 50)
        return {"words": before}

    def on_timer(self, keys, context):
        return {"k": keys["k"], "w": self.any.get(context.slots)["w"], "n": self.fixed.get(context.slots)["n"]}


def streams():
    """The operators by name; some take a second input."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)

    def source(prefix=""):
        rows = env.from_collection([], DDL).as_columns()
        return rows.rename(**{name: prefix + name for name in rows.schema().names}) if prefix else rows

    keyed, pairs = source().key_by("k"), source().key_by("k", "w")
    numbers = {"count": count("n"), "sum": sum_("d"), "mean": mean("n"), "stddev": stddev("x"), "total": sum_("n")}
    values = {
        "min": min_("w"),
        "max": max_("x"),
        "first": first("w"),
        "last": last("d"),
        "min_by": min_by("w", by="n"),
        "max_by": max_by("n", by="w"),
        "kinds": count_distinct("w"),
        "all": collect("n"),
    }
    other = source("r").key_by("rk")
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
    made = {
        "running numbers": keyed.aggregate(**numbers),
        "running values": pairs.aggregate(**values),
        "first": keyed.deduplicate(),
        "last": pairs.deduplicate("last", by="x"),
        "top": keyed.top(3, by=("w", "n"), descending=(True, False), rank="rank"),
        "tumbling": keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).aggregate(**numbers),
        "sliding": keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(40), Time.milliseconds(10)))
        .allowed_lateness(20)
        .aggregate(**{each: values[each] for each in ("first", "all")}),
        "top of windows": keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).top(2, by="x"),
        "sessions": sessions.allowed_lateness(15).aggregate(**numbers, **values),
        "top of sessions": sessions.top(2, by="w"),
        "counts": keyed.count_window(7).aggregate(**numbers, **values),
        "overlapping counts": keyed.count_window(7, 3).aggregate(**numbers, **values),
        "window join": keyed.join(other, "full").window(TumblingEventTimeWindows.of(Time.milliseconds(20))),
        "interval join": keyed.join(other, "full").between(Time.milliseconds(-5), Time.milliseconds(10)),
        "join": keyed.join(other, "anti").time_to_live(Time.seconds(1)),
        "function": keyed.process_batches(Stateful()),
    }
    return {name: stream._stream for name, stream in made.items()}


STREAMS = streams()


def states_of(harness):
    return [state for state, _ in harness.context.keyed_state._columns]


def feed(harness, number):
    element = element_of(number)
    harness.process_element(element, element.latest)
    if len(harness.operator.inputs) > 1:
        element = element_of(number + 1)
        names = [f"r{name}" for name in element.batch.schema.names]
        harness.process_element(ColumnBatch(element.batch.rename_columns(names), element.timestamps), 0, input=2)


def advance(harness, timestamp):
    for number in range(len(harness.operator.inputs)):
        harness.process_watermark(timestamp, input=number + 1)


def frozen(name):
    """The rows of each state of an operator in the middle of its work."""
    with OperatorHarness.of(STREAMS[name]) as harness:
        feed(harness, 1)
        advance(harness, 30)
        feed(harness, 3)
        return [(state.name, batch) for state in states_of(harness) for batch in state.frozen_rows()]


# --- damage


def changed_values(rng, column):
    """A column of the same type with some other values, lengths or nulls in it."""
    type_, count = column.type, len(column)
    kind = rng.randrange(4)
    if kind == 0 or not count:
        return column.take(pa.array([rng.choice([None, rng.randrange(count)]) for _ in range(count)], pa.int64()))
    if kind == 1 and pa.types.is_integer(type_) | pa.types.is_floating(type_):
        values = column.to_pylist()
        for _ in range(rng.randrange(1, 4)):
            values[rng.randrange(count)] = rng.choice(EXTREMES)
        with contextlib.suppress(pa.ArrowInvalid, OverflowError):
            return pa.array(values, type_)
    return column.take(pa.array([rng.randrange(count) for _ in range(count)]))


def changed_type(rng, column):
    """A column of about the same values and another type."""
    types = [pa.int32(), pa.float64(), pa.string(), pa.uint8(), pa.null(), pa.list_(pa.int64()), pa.large_string()]
    type_ = rng.choice(types)
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(column), type_)


def damaged_batch(rng, batch):
    columns, names, metadata = list(batch.columns), list(batch.schema.names), dict(batch.schema.metadata or {})
    for _ in range(rng.randrange(1, 4)):
        place, kind = rng.randrange(len(columns)) if columns else 0, rng.randrange(12)
        if kind <= 5 and columns:
            columns[place] = changed_values(rng, columns[place])
        elif kind == 6 and columns:
            columns[place] = changed_type(rng, columns[place])
        elif kind == 7 and columns:
            other = rng.randrange(len(columns))
            columns[place], columns[other] = columns[other], columns[place]
        elif kind == 8 and columns:
            del columns[place], names[place]
        elif kind == 9 and columns:
            names[place] = rng.choice([*names, "other"])
        elif kind == 10 and metadata:
            key = rng.choice(list(metadata))
            metadata[key] = rng.choice([b"", b"\xff", metadata[key][:-1]])
        elif metadata:
            metadata.pop(rng.choice(list(metadata)))
    made = pa.record_batch(columns, names, metadata=metadata or None)
    return made.slice(rng.randrange(made.num_rows + 1)) if rng.randrange(8) == 0 and columns else made


def damaged_bytes(rng, page):
    page = bytearray(page)
    for _ in range(rng.choice((1, 1, 2, 8))):
        kind, place = rng.randrange(5), rng.randrange(len(page)) if page else 0
        if not page:
            break
        if kind == 0:
            page[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            page[place] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            del page[place : place + rng.choice((1, 8, len(page)))]
        elif kind == 3:
            size = rng.choice((4, 8))
            value = rng.choice(EXTREMES) & (1 << 8 * size) - 1
            page[place : place + size] = value.to_bytes(size, "little")
        else:
            page[place:place] = bytes(rng.choice((1, 8)))
    return bytes(page)


def runs():
    """Seeds: the same few, or new ones until time is over."""
    if not SECONDS:
        yield from range(RUNS)
    start, begun = random.randrange(1 << 40), time.monotonic()
    while time.monotonic() < begun + SECONDS:
        yield start
        start += 1


# --- tests

ARRAYS = {
    "text": pa.array(WORDS),
    "bytes": pa.array([b"a", None, b"", b"\xff", b"abc", b"d"]),
    "large": pa.array(WORDS, pa.large_string()),
    "fixed": pa.array([b"ab", None, b"cd", b"ef", b"gh", b"ij"], pa.binary(2)),
    "flag": pa.array([True, None, False, True, False, True]),
    "time": pa.array([1, 2, None, 4, 5, 6], pa.timestamp("us")),
    "decimal": pa.array([Decimal(1), Decimal(2), None, Decimal(4), Decimal(5), Decimal(6)], pa.decimal128(20, 2)),
    "list": pa.array([[1], None, [], [2, None], [3], [4, 5]]),
    "row": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 3, "b": None}, {}, {"a": 2}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None)], [], []], pa.map_(pa.string(), pa.int64())),
    "null": pa.nulls(6),
}


@pytest.mark.parametrize("has_timestamps", [True, False])
def test_damaged_pages(has_timestamps):
    for run in runs():
        rng = random.Random(run)
        names = rng.sample(list(ARRAYS), rng.randrange(1, 4))
        batch = pa.record_batch([ARRAYS[name] for name in names], names)
        page = PageWriter().write(ColumnBatch(batch, np.arange(6) if has_timestamps else None))
        try:
            found = PageReader().read(damaged_bytes(rng, page))
        except CorruptDataError:
            continue
        if len(found) < 1000:
            with contextlib.suppress(ValueError, ArithmeticError):  # not all values of Arrow are some of Python
                found.batch.to_pylist()
            assert len(found.take(np.arange(len(found)))) == len(found)
            PageReader().read(PageWriter().write(found))


@pytest.mark.parametrize("name", STREAMS)
def test_damaged_state(name):
    pages = [(state, batch) for state, batch in frozen(name)]
    assert pages
    for run in runs():
        restore_damaged(name, pages, random.Random(run))


def restore_damaged(name, pages, rng):
    hit = rng.randrange(len(pages))
    written = []
    for number, (state, batch) in enumerate(pages):
        if number == hit and rng.randrange(3):
            with contextlib.suppress(pa.ArrowInvalid):  # columns of other lengths are no batch
                batch = damaged_batch(rng, batch)
        page = PageWriter().write(ColumnBatch(batch))
        written.append((state, damaged_bytes(rng, page) if number == hit and not rng.randrange(3) else page))
    with OperatorHarness.of(STREAMS[name]) as harness:
        try:
            for state in states_of(harness):
                restore_columns(state, [(0, page) for title, page in written if title == state.name])
        except (CorruptDataError, TypeError):
            return
        with contextlib.suppress(Exception):  # what was damaged may be told late, but nothing else may happen
            feed(harness, 5)
            for state in states_of(harness):
                state.frozen_rows()
            advance(harness, 60)
            feed(harness, 7)
            harness.set_processing_time(10**6)
            advance(harness, 2**63 - 1)


@pytest.mark.parametrize("name", STREAMS)
def test_decimals_of_impossible_scales_and_other_counts_of_types_are_refused(name):
    for state_name, batch in frozen(name):
        damaged = []
        for place, column in enumerate(batch.columns):
            for scale in (2**24, -(2**31) + 2) if pa.types.is_decimal(column.type) else ():
                type_ = pa.decimal128(38, scale)
                other = pa.Array.from_buffers(type_, len(column), column.buffers(), offset=column.offset)
                damaged.append(batch.set_column(place, batch.schema.names[place], other))
        metadata = batch.schema.metadata or {}
        if b"flinkbuf.read" in metadata:
            types = pa.ipc.read_schema(pa.py_buffer(metadata[b"flinkbuf.read"])).types
            for other in ([*types, pa.int8()], types[:-1]) if types else ([pa.int8()],):
                read = pa.schema([(str(place), type_) for place, type_ in enumerate(other)]).serialize().to_pybytes()
                damaged.append(batch.replace_schema_metadata({**metadata, b"flinkbuf.read": read}))
        for each in damaged:
            with OperatorHarness.of(STREAMS[name]) as harness:
                state = next(state for state in states_of(harness) if state.name == state_name)
                with pytest.raises((CorruptDataError, TypeError), match="do not fit|cannot be restored|the snapshot"):
                    restore_columns(state, [(0, PageWriter().write(ColumnBatch(each)))])
