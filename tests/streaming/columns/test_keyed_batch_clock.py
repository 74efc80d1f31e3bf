"""Timers of processing time over batches are those of records: by the clock, through snapshots, at a batch's end."""

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.common import Types
from flinkbuf.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment, TimeDomain
from flinkbuf.datastream.columns import KeyedBatchFunction
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import Watermark

MAX_PARALLELISM = 8
ROW = st.tuples(st.integers(0, 3), st.integers(-20, 20), st.booleans())  # key, when from now, register or delete
STEPS = st.lists(st.lists(ROW, min_size=1, max_size=6) | st.integers(1, 15), max_size=12)


def again(time):
    """When a timer that fires registers another, or None."""
    return time + time % 5 + 1 if time % 3 == 0 else None


class ByRecord(KeyedProcessFunction):
    def process_element(self, value, ctx):
        key, after, is_set = value
        timers = ctx.timer_service()
        note = timers.register_processing_time_timer if is_set else timers.delete_processing_time_timer
        note(timers.current_processing_time() + after)
        if key == 0:
            timers.register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        is_event = ctx.time_domain() == TimeDomain.EVENT_TIME
        yield ctx.get_current_key(), timestamp, is_event
        if not is_event and again(timestamp) is not None:
            ctx.timer_service().register_processing_time_timer(again(timestamp))


class ByBatch(KeyedBatchFunction):
    def process_batch(self, batch, context):
        assert context.time_domain is None
        for place, after, is_set in zip(
            np.repeat(np.arange(len(context.slots)), np.diff(context.offsets)),
            batch["after"].to_pylist(),
            batch["is_set"].to_pylist(),
            strict=True,
        ):
            note = context.register_processing_time_timers if is_set else context.delete_processing_time_timers
            note(context.slots[place : place + 1], context.current_processing_time + after)
        context.register_event_time_timers(context.slots[context.keys["k"].to_numpy() == 0], 5)

    def on_timer(self, keys, context):
        is_event = context.time_domain is TimeDomain.EVENT_TIME
        yield {"k": keys["k"], "time": context.timestamps, "is_event": np.full(keys.num_rows, is_event)}
        if not is_event:
            assert context.timestamps.max() < context.current_processing_time
            due = context.timestamps % 3 == 0
            times = context.timestamps[due]
            context.register_processing_time_timers(context.slots[due], times + times % 5 + 1)


def source(is_batch=False):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    return env.from_collection([])


def by_record():
    return source().key_by(lambda row: row[0], Types.LONG()).process(ByRecord())


def by_batch():
    rows = source().as_columns("k bigint, after bigint, is_set boolean")
    return rows.key_by("k").process_batches(ByBatch())._stream


def element_of(rows):
    names = ("k", "after", "is_set")
    return ColumnBatch(pa.record_batch(dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True))))


def rows_of(output, is_columns):
    values = [each.value for each in output if not isinstance(each, Watermark)]
    return [tuple(row.values()) for each in values for row in each.batch.to_pylist()] if is_columns else values


def run(program, phases, is_columns):
    found, restore, now = [], None, 1000
    for steps, parallelism in phases:
        options = {"parallelism": parallelism, "max_parallelism": MAX_PARALLELISM, "restore": restore}
        harnesses = [OperatorHarness.of(program, subtask_index=index, **options) for index in range(parallelism)]
        for each in harnesses:
            each.set_processing_time(now)
            each.open()
        for step in steps:
            if isinstance(step, int):
                now += step
                for each in harnesses:
                    each.set_processing_time(now)
                continue
            element = element_of(step)
            channels = RowKeys(("k",), MAX_PARALLELISM, parallelism).of(element.batch)
            for index, harness in enumerate(harnesses):
                mine = np.flatnonzero(channels == index)
                if is_columns and len(mine):
                    harness.process_element(element.take(mine), 0)
                for place in () if is_columns else mine:
                    harness.process_element(step[place], 0)
        restore = [each.snapshot() for each in harnesses]
        for each in harnesses:
            found += rows_of(each.output, is_columns)
            each.close()
    return found


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(1, 3)), min_size=1, max_size=3))
def test_timers_fire_as_by_record(phases):
    phases = [*phases, ([100], 1)]
    by_key = [
        sorted(run(program, phases, is_columns)) for program, is_columns in ((by_record(), False), (by_batch(), True))
    ]
    assert by_key[0] == by_key[1]


def test_many_keys_that_are_due_are_one_call():
    with OperatorHarness.of(by_batch()) as harness:
        harness.set_processing_time(0)
        harness.process_element(element_of([(k, 10 + k % 3, True) for k in range(1, 1000)]), 0)
        harness.set_processing_time(10)
        assert harness.output == []
        harness.set_processing_time(100)
        values = [each.value for each in harness.output]
    assert [len(each) for each in values[:1]] == [999]
    assert values[0].batch["time"].to_pylist() == sorted(values[0].batch["time"].to_pylist())
    assert all(each.timestamps is None for each in values)  # results have no event time


@pytest.mark.parametrize("is_batch", [False, True])
def test_at_the_end_only_a_batch_fires_them(is_batch):
    class Late(KeyedBatchFunction):
        def process_batch(self, batch, context):
            context.register_processing_time_timers(context.keys, context.current_processing_time + 10**8)
            context.register_event_time_timers(context.keys, 7)

        def on_timer(self, keys, context):
            yield {"k": keys["k"], "name": pa.repeat(context.time_domain.name, keys.num_rows)}
            again = context.timestamps + 1
            if context.time_domain is TimeDomain.PROCESSING_TIME:  # would have no end
                context.register_processing_time_timers(keys, again)

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH if is_batch else RuntimeExecutionMode.STREAMING)
    rows = env.from_collection(pa.table({"k": [1, 2, 1]})).as_columns().key_by("k").process_batches(Late())
    clock = [(1, "PROCESSING_TIME"), (2, "PROCESSING_TIME")] if is_batch else []
    assert list(rows.execute_and_collect()) == [(1, "EVENT_TIME"), (2, "EVENT_TIME"), *clock]


def test_rows_that_have_no_time_have_none_behind_a_timer():
    with OperatorHarness.of(by_batch()) as harness:
        harness.set_processing_time(5)
        harness.process_element(element_of([(0, -3, True)]), NO_TIMESTAMP)
        harness.set_processing_time(6)
        assert rows_of(harness.output, True)[0] == (0, 2, False)


def test_a_job_fires_by_the_clock():
    class Soon(KeyedBatchFunction):
        def process_batch(self, batch, context):
            context.register_processing_time_timers(context.keys, context.current_processing_time + 5)

        def on_timer(self, keys, context):
            yield {"k": keys["k"]}

    def slowly(batch):
        time.sleep(0.03)
        return batch

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    rows = env.from_collection(pa.table({"k": [1, 2, 3, 4]})).as_columns(max_rows=1).map_batches(slowly)
    found = list(rows.key_by("k").process_batches(Soon()).execute_and_collect())
    assert found[:2] == [(1,), (2,)]
