"""The processor of key groups in a simulated operator of Spark: attempts that do not count, workers that come and go.

The state store here has a version for each batch, as Spark's: an attempt works on a copy of the last one, and a batch
counts when the copy takes its place. Each attempt may be in another worker, with whatever that has in its memory.
"""

import copy
import pickle
import random
from dataclasses import replace

import pytest

pytest.importorskip("pyspark.sql").functions

import pyarrow as pa  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.sql import Row  # noqa: E402
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from flinkbuf.spark.streams import key_group_processor as module  # noqa: E402
from flinkbuf.spark.streams import key_group_state as state_module  # noqa: E402
from flinkbuf.spark.streams.key_group_processor import KeyGroupProcessor, StatefulProgram  # noqa: E402
from flinkbuf.spark.streams.keys import key_columns  # noqa: E402
from flinkbuf.spark.streams.packing import read_batches, write_batch  # noqa: E402

INPUT = StructType().add("key", "string").add("at", "timestamp").add("n", "long")
ARROW = pa.schema([("key", pa.string()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
OUTPUT = StructType().add("key", "string").add("told", "string")


class Store:
    """What Spark has of the operator's state in one version: values, maps and timers by key group."""

    def __init__(self):
        self.values, self.maps, self.timers = {}, {}, {}
        self.iterators = 0


class FakeHandle:
    """Spark's handle, over a store."""

    def __init__(self, store):
        self.store, self.key = store, None

    def getValueState(self, name, schema):
        handle = self

        class Value:
            def get(self):
                return handle.store.values.get(handle.key)

            def update(self, value):
                assert len(value) == len(schema.fields) and all(type(each) is int for each in value)
                handle.store.values[handle.key] = value

        return Value()

    def getMapState(self, name, key_schema, schema):
        handle = self

        class Map:
            def getValue(self, key):
                return handle.store.maps.get(handle.key, {}).get(key)

            def updateValue(self, key, value):
                handle.store.maps.setdefault(handle.key, {})[key] = value

            def iterator(self):
                handle.store.iterators += 1
                return iter(sorted(handle.store.maps.get(handle.key, {}).items(), key=lambda item: -item[0][0]))

            def clear(self):
                handle.store.maps.pop(handle.key, None)

        return Map()

    def registerTimer(self, at):
        self.store.timers.setdefault(self.key, set()).add(at)

    def deleteTimer(self, at):
        self.store.timers[self.key].remove(at)


class Told:
    """Counts rows, and tells of a timer a row; fails when it is told to."""

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n bigint")
        self.rows = handle.getListState("rows", "n bigint")

    def handleInputRows(self, key, rows, times):
        for row in rows:
            count = (self.count.get() or (0,))[0] + 1
            self.count.update((count,))
            self.rows.appendValue((row.n,))
            self.handle.registerTimer(int(row["at"].timestamp() * 1000) + row.n)
            if row.n == 99:
                raise OSError("told to")
            yield Row(
                key=key[0], told=f"row {row.n} {count}/{len(list(self.rows.get()))} {times.getCurrentWatermarkInMs()}"
            )

    def handleExpiredTimer(self, key, times, info):
        yield Row(
            key=key[0], told=f"timer {info.getExpiryTimeInMs()} {[n for (n,) in self.rows.get()]} {self.count.get()}"
        )
        if info.getExpiryTimeInMs() % 5 == 0:
            self.rows.clear()
            self.count.clear()

    def close(self):
        pass


def program():
    known = {"n bigint": StructType().add("n", "long")}
    keys = key_columns(INPUT, ["key"], ARROW, "it")
    arrow = pa.schema([("key", pa.string()), ("told", pa.string())])
    return StatefulProgram(Told(), "eventtime", known, OUTPUT, arrow, keys, None, "at", True, 2)


def attempt(store, rows, watermark, has_data=True):
    """Do what Spark's operator does with a batch: the groups with rows, then the timers up to the watermark.

    Without data it is one that Spark runs since the watermark has moved: no group is reached by rows.
    """
    handle = FakeHandle(store)
    processor = KeyGroupProcessor(program())
    processor.init(handle)
    times = TimerValues(-1, watermark)
    given = []
    for group in (0, 1) if has_data else ():
        handle.key = group
        batch = pa.RecordBatch.from_pylist([row for row in rows if group_of(row) == group], schema=ARROW)
        packed = [Row(key_group=group, time=None, rows=write_batch(batch)), Row(key_group=group, time=None, rows=None)]
        given += processor.handleInputRows((group,), iter(packed), times)
    due = sorted((at, group) for group, ats in store.timers.items() for at in ats if at <= watermark)
    for at, group in due:
        handle.key = group
        given += processor.handleExpiredTimer((group,), times, ExpiredTimerInfo(at))
        handle.deleteTimer(at)
    processor.close()
    batches = [batch for data in given for batch in read_batches(data.rows)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def group_of(row):
    return 0 if row["key"] in ("a", None) else 1


class Model:
    """The same program, row by row over plain dicts."""

    def __init__(self):
        self.late, self.counts, self.rows, self.timers = 0, {}, {}, set()

    def batch(self, rows, watermark):
        told = []
        for row in rows:
            if row["at"] <= self.late * 1000:
                continue
            key, n = row["key"], row["n"]
            self.counts[key] = self.counts.get(key, 0) + 1
            self.rows.setdefault(key, []).append(n)
            self.timers.add((row["at"] // 1000 + n, repr(key), key))
            told.append((key, f"row {n} {self.counts[key]}/{len(self.rows[key])} {watermark}"))
        for at, _, key in sorted(
            (timer for timer in self.timers if timer[0] <= watermark), key=lambda timer: timer[:2]
        ):
            count = (self.counts[key],) if key in self.counts else None
            told.append((key, f"timer {at} {self.rows.get(key, [])} {count}"))
            if at % 5 == 0:
                self.counts.pop(key, None)
                self.rows.pop(key, None)
        self.timers = {timer for timer in self.timers if timer[0] > watermark}
        self.late = watermark
        return sorted(told, key=repr)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["a", "b", None]),
            "at": st.integers(0, 60).map(lambda ms: ms * 1000),
            "n": st.integers(0, 9),
        }
    ),
    max_size=5,
)
ATTEMPTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["lost", "raises"])), max_size=2)
BATCHES = st.lists(st.tuples(ROWS, st.integers(0, 12), ATTEMPTS, st.integers(0, 2), st.booleans()), max_size=8)
EXTRA = {
    "key": "b",
    "at": 55_000,
    "n": 7,
}  # an attempt that does not count may have seen what the one that does has not


@settings(max_examples=60)
@given(BATCHES, st.sampled_from([200, 1 << 16]))
def test_whichever_attempts_count_and_whichever_worker_runs_them(batches, least_log):
    store, model, watermark = Store(), Model(), 0
    workers = [{}, {}, {}]
    before = module._met, state_module._LEAST_LOG
    state_module._LEAST_LOG = least_log  # a short one has the whole state written every few batches
    try:
        for number, (rows, moves, attempts, worker, has_data) in enumerate(batches):
            has_data = has_data or number == 0  # before that no watermark moves
            watermark += moves if number else 0
            rows = rows if has_data else []
            for lost_worker, how in attempts:
                module._met = workers[lost_worker]
                copied = copy.deepcopy(store)
                if how == "raises":
                    with pytest.raises(OSError, match="told to"):
                        attempt(copied, [*rows, {"key": "a", "at": 10**9, "n": 99}], watermark)
                else:
                    attempt(copied, [*rows, EXTRA], watermark)
            module._met = workers[worker]
            copied = copy.deepcopy(store)
            told = attempt(copied, rows, watermark, has_data)
            assert told == model.batch(rows, watermark)
            store = copied
    finally:
        module._met, state_module._LEAST_LOG = before


def row(at, key="b", n=0):
    return {"key": key, "at": at * 1000, "n": n}


def test_what_an_attempt_wrote_that_did_not_count_is_forgotten():
    first, second, store = {}, {}, Store()

    def batch(worker, rows, counts=True):
        nonlocal store
        module._met, copied = worker, copy.deepcopy(store)
        told = [text for _, text in attempt(copied, rows, 0)]
        store = copied if counts else store
        return told

    before = module._met
    try:
        assert batch(first, [row(50)]) == ["row 0 1/1 0"]
        assert batch(first, [row(50), row(50)], counts=False) == ["row 0 2/2 0", "row 0 3/3 0"]
        assert batch(second, [row(50)]) == ["row 0 2/2 0"]
        assert batch(first, [row(50)]) == ["row 0 3/3 0"]  # of as many segments as it has, one is another
        assert len(batch(first, [row(50)] * 3, counts=False)) == 3
        for count in (4, 5):
            assert batch(second, [row(50)]) == [f"row 0 {count}/{count} 0"]
        assert batch(first, [row(50)]) == ["row 0 6/6 0"]  # it has missed a segment, which comes after another one
        assert batch(second, [row(50)]) == ["row 0 7/7 0"]  # it has missed one
    finally:
        module._met = before


def test_a_row_is_late_by_the_watermark_of_the_batch_before_though_that_had_no_data():
    store = Store()
    assert attempt(store, [row(50)], 0)
    assert attempt(store, [], 1, has_data=False) == []
    assert attempt(store, [row(1), row(2)], 1) == [("b", "row 0 2/2 1")]


class Initial(Told):
    def handleInitialState(self, key, row, times):
        self.count.update(((self.count.get() or (0,))[0] + row.n,))


def test_visits_of_one_group_in_one_batch_see_each_other():
    store = Store()
    keys = key_columns(INPUT, ["key"], ARROW, "it")
    handle = FakeHandle(store)
    processor = KeyGroupProcessor(replace(program(), processor=Initial(), initial_keys=keys))
    processor.init(handle)
    handle.key = 0
    times = TimerValues(-1, 5)

    def packed(n):
        batch = pa.RecordBatch.from_pylist([{"key": "a", "at": 3000 * n, "n": n}], schema=ARROW)
        return Row(key_group=0, time=None, rows=write_batch(batch))

    for n in (2, 3):
        processor.handleInitialState((0,), packed(n), times)
    given = []
    for n in (4, 5):
        given += processor.handleInputRows((0,), iter([packed(n)]), times)
    told = [row["told"] for data in given for batch in read_batches(data.rows) for row in batch.to_pylist()]
    assert told == ["row 4 6/1 5", "row 5 7/2 5"]
    module._met.clear()
    assert attempt(store, [{"key": "a", "at": 30_000, "n": 1}], 16) == [
        ("a", "row 1 8/3 16"),
        ("a", "timer 16 [4, 5, 1] (8,)"),
    ]


def test_a_group_that_has_nothing_new_writes_nothing():
    store = Store()
    attempt(store, [{"key": "a", "at": 5000, "n": 1}], 0)
    before = pickle.dumps((store.values, store.maps))
    attempt(store, [], 0)
    assert pickle.dumps((store.values, store.maps)) == before
    attempt(store, [], 3)  # the watermark is part of what a group knows
    assert store.values[0] != pickle.loads(before)[0][0]
    assert store.maps == pickle.loads(before)[1]


@pytest.mark.parametrize(("is_long", "iterators"), [(False, 1), (True, 0)])
def test_a_long_log_is_read_segment_by_segment(is_long, iterators, monkeypatch):
    store = Store()
    for count in (1, 2, 3):
        assert visit(store, Seeds(), 0, "a") == [str(count)]
    head = state_module.Head(*store.values[0])
    assert head.last == 2 and store.iterators == 0
    if is_long:
        monkeypatch.setattr(module, "_LONG_LOG", head.whole_bytes + head.later_bytes - 1)
    module._met.clear()
    assert visit(store, Seeds(), 0, "a") == ["4"]
    assert store.iterators == iterators
    module._met.clear()
    del store.maps[0][1,]
    with pytest.raises(RuntimeError, match="key group 0 has no segment 1 in the checkpoint"):
        visit(store, Seeds(), 0, "a")


def test_a_segment_that_is_missing_is_an_error_that_says_so():
    store = Store()
    for at in (5000, 6000):
        attempt(store, [{"key": "a", "at": at, "n": 1}], 0)
    module._met.clear()
    del store.maps[0][0,]
    with pytest.raises(RuntimeError, match="key group 0 has no segment 0 in the checkpoint"):
        attempt(store, [], 0)


def test_a_checkpoint_with_another_number_of_groups_is_refused():
    store = Store()
    attempt(store, [row(50)], 0)
    handle = FakeHandle(store)
    handle.key = 1
    processor = KeyGroupProcessor(replace(program(), key_groups=3))
    processor.init(handle)
    with pytest.raises(RuntimeError, match=r"keys in 2 groups, and here they are in 3: call .* with key_groups=2"):
        list(processor.handleInputRows((1,), iter([]), TimerValues(-1, 0)))


class Seeds:
    """Counts rows, and gives each task the same random numbers."""

    def init(self, handle):
        random.seed(42)
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key, rows, times):
        count = (self.count.get() or (0,))[0] + len(list(rows))
        self.count.update((count,))
        yield Row(key=key[0], told=str(count))

    def close(self):
        pass


def visit(store, processor, group, key, times=None, **changes):
    """Do what a task does that brings one row for one group."""
    handle = FakeHandle(store)
    handle.key = group
    whole = KeyGroupProcessor(
        replace(program(), processor=processor, **{"time_mode": "none", "time_column": None, **changes})
    )
    whole.init(handle)
    batch = pa.RecordBatch.from_pylist([{"key": key, "at": 0, "n": 1}], schema=ARROW)
    rows = [Row(key_group=group, time=None, rows=write_batch(batch))]
    given = list(whole.handleInputRows((group,), iter(rows), times or TimerValues(-1, -1)))
    return [row["told"] for data in given for batch in read_batches(data.rows) for row in batch.to_pylist()]


def test_a_processor_that_seeds_random_numbers_keeps_the_state_of_each_group():
    store = Store()
    for count in ("1", "2", "3"):
        assert visit(store, Seeds(), 0, "a") == visit(store, Seeds(), 1, "b") == [count]
    assert len({head[1] for head in store.values.values()}) == 2


def test_an_attempt_that_did_not_count_is_told_apart_though_both_draw_from_one_seed(monkeypatch):
    store, first, second = Store(), {}, {}
    monkeypatch.setattr(module, "_met", first)
    assert visit(store, Seeds(), 0, "a") == ["1"]
    assert visit(copy.deepcopy(store), Seeds(), 0, "b") == ["1"]  # does not count
    monkeypatch.setattr(module, "_met", second)
    assert visit(store, Seeds(), 0, "a") == ["2"]
    monkeypatch.setattr(module, "_met", first)
    assert visit(store, Seeds(), 0, "a") == ["3"]


class Reminds(Told):
    """Sets a timer for each row of the initial state, as many milliseconds from now as it says."""

    def handleInitialState(self, key, row, times):
        self.handle.registerTimer(times.getCurrentProcessingTimeInMs() + row.n)


@pytest.mark.parametrize(("after", "at"), [([-5], 995), ([0, 3], 1000), ([3], 1003), ([-1001], 0), ([-4000], 0)])
def test_a_timer_of_the_initial_state_that_is_due_fires_in_the_first_batch(after, at):
    store = Store()
    handle = FakeHandle(store)
    handle.key = 0
    changes = {"processor": Reminds(), "time_mode": "processingtime", "time_column": None}
    processor = KeyGroupProcessor(replace(program(), initial_keys=program().keys, **changes))
    processor.init(handle)
    times, given, due = TimerValues(1000, -1), [], [n for n in after if n <= 0]
    batch = pa.RecordBatch.from_pylist([{"key": "a", "at": 0, "n": n} for n in after], schema=ARROW)
    processor.handleInitialState((0,), Row(key_group=0, time=None, rows=write_batch(batch)), times)
    assert store.timers == {0: {at}}
    for at_ms in [at for at in store.timers[0] if at <= 1000]:  # as Spark does after all rows
        given += processor.handleExpiredTimer((0,), times, ExpiredTimerInfo(at_ms))
        handle.deleteTimer(at_ms)
    told = [row["told"] for data in given for batch in read_batches(data.rows) for row in batch.to_pylist()]
    assert told == [f"timer {1000 + n} [] None" for n in due]
    assert store.timers == {0: {1000 + n for n in after if n > 0}}
