"""`transform_with_state` in queries of Spark: results as of Spark's own operator, restarts, repeated batches."""

import contextlib
import json
import os
import time
from collections import Counter, defaultdict

import pytest

import flinkbuf as fb

pytest.importorskip("pyspark.sql").functions
pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
from facts import FACTS, Facts  # noqa: E402
from processors import AllKinds, Base, EventTimers, FromInitial, ProcessingTime, told  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

pytestmark = pytest.mark.spark

ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OUTPUT = "key string, told string"
KEYS = ["a", "b", None, "dd", "e"]
# Pseudo-random and the same each time: keys, values below 50, times that come back by up to two seconds, few without.
BATCHES = [
    [
        (
            KEYS[(7 * n * n + batch) % 5],
            (11 * n + 17 * batch) % 50,
            None if n == 5 else f"1970-01-01T00:00:{batch + (n * 0.617) % 2:09.6f}Z",
        )
        for n in range(12)
    ]
    for batch in range(3)
]
BATCHES[0].append(("a", 4, "1970-01-01T00:00:00.000000Z"))  # exactly at the first watermark


@pytest.fixture(scope="module")
def session(spark):
    with settings(spark, {"spark.sql.streaming.stateStore.providerClass": ROCKS_DB}):
        yield spark


@contextlib.contextmanager
def settings(spark, values):
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def write_batch(folder, number, rows):
    """Write a file that will be a micro-batch: they are read in the order of their times."""
    folder.mkdir(exist_ok=True)
    hidden, file = folder / f".{number:03}", folder / f"{number:03}.json"
    hidden.write_text("".join(json.dumps({"key": key, "value": value, "at": at}) + "\n" for key, value, at in rows))
    os.utime(hidden, (1e9 + number, 1e9 + number))
    hidden.rename(file)


@pytest.fixture
def stream(session, tmp_path):
    """A streaming DataFrame with the batches, each of which is a micro-batch."""
    for number, rows in enumerate(BATCHES):
        write_batch(tmp_path / "in", number, rows)
    return streaming(session, tmp_path)


def streaming(session, tmp_path):
    reader = session.readStream.schema("key string, value bigint, at timestamp").option("maxFilesPerTrigger", 1)
    return reader.json(str(tmp_path / "in"))


def run(output, checkpoint, mode="append", until=None):
    """Return the rows of each batch, in any order; with `until`, stop after that batch."""
    given = defaultdict(list)

    def keep(batch, number):
        given[number] = sorted(map(tuple, batch.collect()), key=repr)

    query = output.writeStream.foreachBatch(keep).outputMode(mode).option("checkpointLocation", str(checkpoint))
    if until is None:
        query.trigger(availableNow=True).start().awaitTermination()
    else:
        running = query.start()
        try:
            while running.isActive and not (running.lastProgress or {"batchId": -1})["batchId"] >= until:
                time.sleep(0.05)
        finally:
            running.stop()
        if running.exception():
            raise running.exception()
    return {number: rows for number, rows in given.items() if rows and (until is None or number <= until)}


def both(stream, keys, processor, tmp_path, mode="append", time_mode="none", initial=None, until=None):
    """Return what Spark's operator gives, and what ours does."""
    grouped = stream.groupBy(*keys)
    theirs = grouped.transformWithState(processor, OUTPUT, mode, time_mode, initial)
    ours = fb.transform_with_state(grouped, processor, OUTPUT, mode, time_mode, initial)
    return run(theirs, tmp_path / "theirs", mode, until), run(ours, tmp_path / "ours", mode, until)


# ---- as Spark does


def test_each_kind_of_state_as_in_spark(stream, tmp_path):
    halves = stream.withColumn("half", F.expr("nullif(value % 3, 2) = 0"))
    theirs, ours = both(halves, ["key", "half"], AllKinds(), tmp_path, "update")
    assert ours == theirs
    assert sum(map(len, ours.values())) > 15


@pytest.mark.long  # each access to state is a message to Spark
def test_each_fact_as_in_spark(stream, tmp_path):
    theirs, ours = both(stream, ["key"], Facts(), tmp_path, "update")
    for batch, rows in theirs.items():
        assert [row for row in ours[batch] if row not in rows] == []
    assert ours == theirs
    assert {row[1].split()[0] for rows in ours.values() for row in rows} == {name for name, *_ in FACTS}


def test_timers_of_event_time_and_late_rows_as_in_spark(stream, tmp_path):
    delayed = stream.withWatermark("at", "300 milliseconds")
    theirs, ours = both(delayed, ["key"], EventTimers(), tmp_path, "append", "eventTime")
    assert ours == theirs
    assert any("timer" in row[1] for rows in ours.values() for row in rows)


def test_processing_time_as_in_spark(stream, tmp_path):
    theirs, ours = both(stream, ["key"], ProcessingTime(), tmp_path, "update", "processingTime", until=2)
    assert ours == theirs
    assert sorted(ours) == [0, 1, 2]


def test_an_initial_state_as_in_spark(session, stream, tmp_path):
    initial = session.createDataFrame([("a", 10), ("a", 5), ("zz", 4), (None, 7)], "key string, start bigint")
    theirs, ours = both(stream, ["key"], FromInitial(), tmp_path, initial=initial.groupBy("key"))
    assert ours == theirs


# ---- each record once


class Sum(Base):
    def init(self, handle):
        self.sum = handle.getValueState("sum", "n bigint")

    def handleInputRows(self, key, rows, timerValues):
        self.sum.update(((self.sum.get() or (0,))[0] + sum(row.value for row in rows),))
        yield told(key, self.sum.get()[0])


def sums_of(batches):
    sums, given = Counter(), {}
    for number, rows in enumerate(batches):
        for key, value, _ in rows:
            sums[key] += value
        told_now = [(str((key,)), str(sums[key])) for key in {key for key, _, _ in rows}]
        given[number] = sorted(told_now, key=repr)
    return given


def test_a_query_goes_on_where_it_was_and_a_batch_that_is_repeated_counts_once(session, stream, tmp_path):
    checkpoint, expected = tmp_path / "state", sums_of([*BATCHES, BATCHES[1], BATCHES[2]])

    def summed(key_groups=None):
        grouped = streaming(session, tmp_path).groupBy("key")
        return fb.transform_with_state(grouped, Sum(), OUTPUT, key_groups=key_groups)

    assert run(summed(), checkpoint) == {number: expected[number] for number in range(3)}
    # As if the driver had died between the state's commit and the batch's: Spark runs batch 2 again.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    write_batch(tmp_path / "in", 3, BATCHES[1])
    with settings(session, {"spark.sql.shuffle.partitions": "3"}):  # the checkpoint's number holds
        assert run(summed(), checkpoint) == {2: expected[2], 3: expected[3]}
    write_batch(tmp_path / "in", 4, BATCHES[2])
    partitions = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])["conf"]
    groups = int(partitions["spark.sql.shuffle.partitions"])
    with pytest.raises(Exception, match=f"call transform_with_state\\(\\) with key_groups={groups}"):
        run(summed(key_groups=groups + 1), checkpoint)
    assert run(summed(key_groups=groups), checkpoint) == {4: expected[4]}


def test_a_batch_data_frame(session):
    rows = [(key, value) for batch in BATCHES for key, value, _ in batch]
    frame = session.createDataFrame(rows, "key string, value bigint").repartition(3)
    summed = fb.transform_with_state(frame.groupBy("key"), Sum(), OUTPUT)
    sums = Counter()
    for key, value in rows:
        sums[key] += value
    assert sorted(map(tuple, summed.collect())) == sorted((str((key,)), str(total)) for key, total in sums.items())


def test_keys_of_many_types_are_one_key_where_they_are_equal(session):
    rows = session.range(40).selectExpr(
        "if(id % 2 = 0, 0.0D, -0.0D) as zero",
        "if(id % 2 = 0, double('nan'), float('nan')) as no_number",
        "timestamp_micros(id % 2) as at",
        "cast(id % 2 as decimal(4,1)) as m",
        "date_add(date'2020-01-01', cast(id % 2 as int)) as day",
        "unhex('00ff') as x",
        "id % 2 = 0 as b",
        "id as value",
    )
    keys = ["zero", "no_number", "at", "m", "day", "x", "b"]
    summed = fb.transform_with_state(rows.groupBy(*keys), Sum(), OUTPUT)
    assert sorted(row.told for row in summed.collect()) == [str(sum(range(0, 40, 2))), str(sum(range(1, 40, 2)))]


# ---- what is refused where it is said


def refusals(session):
    frame = session.createDataFrame([("a", 1)], "key string, value bigint")
    grouped = frame.groupBy("key")
    struct = frame.select(F.struct("key").alias("s"), "value")

    class Twice(Sum):
        def init(self, handle):
            handle.getValueState("sum", "n bigint")
            handle.getListState("sum", "n bigint")

    class Brief(Sum):
        def init(self, handle):
            handle.getValueState("sum", "n bigint", 1000)

    class Early(Sum):
        def init(self, handle):
            handle.registerTimer(1)

    with_time = {"time_mode": "processingTime"}
    return {
        "grouped must be a grouped DataFrame": (frame, Sum(), OUTPUT),
        "must be a pyspark.sql.streaming.StatefulProcessor": (grouped, Sum, OUTPUT),
        "make it a column with withColumn": (frame.groupBy(F.col("value") + 1), Sum(), OUTPUT),
        "is grouped by nothing": (frame.groupBy(), Sum(), OUTPUT),
        "must come from groupBy": (frame.rollup("key"), Sum(), OUTPUT),
        "such as the fields of a struct": (struct.groupBy("s"), Sum(), OUTPUT),
        "time_mode must be one of 'none', 'processingTime', 'eventTime', got 'later'": (
            grouped, Sum(), OUTPUT, {"time_mode": "later"}
        ),
        "output_mode must be one of": (grouped, Sum(), OUTPUT, {"output_mode": "all"}),
        "key_groups must be an int from 1 to 32768, got 0": (grouped, Sum(), OUTPUT, {"key_groups": 0}),
        "needs a watermark": (grouped, Sum(), OUTPUT, {"time_mode": "eventTime"}),
        "'sum' is asked for twice": (grouped, Twice(), OUTPUT),
        "counted in processing time": (grouped, Brief(), OUTPUT),
        "timers need time_mode": (grouped, Early(), OUTPUT),
        "has no key that a timer could belong to": (grouped, Early(), OUTPUT, with_time),
        "of the types string, initial_state by bigint": (
            grouped, Sum(), OUTPUT, {"initial_state": frame.groupBy("value")}
        ),
    }  # fmt: skip


def test_mistakes_are_refused_at_the_call(session):
    for message, (grouped, processor, output, *rest) in refusals(session).items():
        with pytest.raises((TypeError, ValueError, RuntimeError)) as raised:
            fb.transform_with_state(grouped, processor, output, **(rest[0] if rest else {}))
        assert message in str(raised.value)


class Wrong(Base):
    """Gives what is no row, or keeps what the state cannot hold."""

    def __init__(self, value):
        self.value = value

    def init(self, handle):
        self.state = handle.getValueState("state", "n int")

    def handleInputRows(self, key, rows, timerValues):
        if self.value is None:
            yield ("a", "b")
        self.state.update((self.value,))


@pytest.mark.parametrize(
    ("value", "message"),
    [(1 << 31, "the state 'state', field 'n'"), (1.5, "the state 'state', field 'n'"), (None, "must give rows")],
)
def test_values_are_never_changed_silently(session, value, message):
    frame = session.createDataFrame([("a", 1)], "key string, value bigint")
    with pytest.raises(Exception, match=message):
        fb.transform_with_state(frame.groupBy("key"), Wrong(value), OUTPUT).collect()
