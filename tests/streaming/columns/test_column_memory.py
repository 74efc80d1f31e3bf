"""Memory is flat under a session that never ends, and before a slow sink; FLINKBUF_MEMORY_ROUNDS=3000 takes longer."""

import os
import time

import numpy as np
import pyarrow as pa
import pytest
from support.process_memory import resident_kib

from flinkbuf.common import Configuration, Time
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.columns import count, first, last, max_, sum_
from flinkbuf.datastream.connectors.base import Sink, SinkWriter
from flinkbuf.datastream.window import EventTimeSessionWindows
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns import key_windows
from flinkbuf.testing import OperatorHarness

ROUNDS = int(os.environ.get("FLINKBUF_MEMORY_ROUNDS", "120"))
ROWS = 2000
GROWTH = 24 << 10  # KiB of this process, besides what the rounds need at once


def embedded(parallelism=1):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def round_of(number):
    """One row of the key 0, whose session goes on, and rows of keys that are there once."""
    keys = np.arange(number * ROWS, (number + 1) * ROWS)
    keys[0] = 0
    texts = pa.array([f"{'x' * 40}{key}" for key in keys])
    times = np.full(ROWS, 50 * number)
    return ColumnBatch(pa.record_batch({"k": keys, "n": keys % 97, "s": texts}), times)


def test_a_session_that_never_ends(monkeypatch):
    monkeypatch.setattr(key_windows, "MIN_OVER", 4 * ROWS)
    rows = embedded().from_collection([]).as_columns("k bigint, n bigint, s string").key_by("k")
    windows = rows.window(EventTimeSessionWindows.with_gap(Time.milliseconds(60)))
    program = windows.aggregate(rows=count(), n=sum_("n"), first=first("s"), last=last("s"), most=max_("s"))._stream
    before, ended = None, 0
    with OperatorHarness.of(program) as harness:
        for number in range(ROUNDS):
            harness.process_element(round_of(number), 0)
            harness.process_watermark(50 * number)
            ended += sum(len(each.value) for each in harness.output if hasattr(each, "value"))
            harness.output.clear()
            operator = harness.operator
            assert operator.table.open_count <= 3 * ROWS
            assert max(len(operator.table), operator.key_count) <= 16 * ROWS
            if number == ROUNDS // 3:
                before, nbytes = resident_kib(), operator.aggregates.nbytes
        assert operator.aggregates.nbytes < 4 * nbytes
        assert resident_kib() - before < GROWTH
        harness.process_watermark(2**63 - 1)
        (session,) = [
            row
            for each in harness.output
            if hasattr(each, "value")
            for row in each.value.batch.to_pylist()
            if row["k"] == 0
        ]
    assert session["rows"] == ROUNDS
    assert ended >= (ROUNDS - 3) * (ROWS - 1)


class Slow(Sink):
    def of_columns(self, schema=None):
        return self

    def create_writer(self, context):
        return SlowWriter()


class SlowWriter(SinkWriter):
    def write_batch(self, batch, context):
        time.sleep(0.002)
        taken.append((batch.num_rows, resident_kib()))

    def flush(self, end_of_input):
        pass


taken = []


class Batches:
    """Makes batches of half a MiB, and notes how many of their rows the sink has not taken."""

    def __init__(self, count):
        self.count = count
        self.most_waiting = 0

    def __iter__(self):
        for number in range(self.count):
            texts = pa.array([f"{number}{'x' * 250}{row}" for row in range(ROWS)])
            self.most_waiting = max(self.most_waiting, number * ROWS - sum(rows for rows, _ in taken))
            yield pa.record_batch({"s": texts})


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_slow_sink_holds_the_source_back(parallelism):
    taken.clear()
    batches, env = Batches(ROUNDS), embedded(parallelism)
    env.add_source(batches).as_columns("s string").rebalance().with_columns(t="s").sink_to(Slow())
    env.execute()
    assert sum(rows for rows, _ in taken) == ROUNDS * ROWS
    assert batches.most_waiting <= 100 * ROWS
    sizes = [size for _, size in taken]
    assert max(sizes[ROUNDS // 3 :]) - max(sizes[: ROUNDS // 3]) < GROWTH  # of 100 MiB that come meanwhile, or more
