"""async_map(): the async operator in Spark tasks, over records and over Arrow batches."""

import asyncio
import datetime
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

import pytest

import flinkbuf as fb
from flinkbuf.async_io.function import AsyncOptions
from flinkbuf.spark.async_map.async_map import RecordTask
from flinkbuf.spark.async_map.frame import FrameTask
from flinkbuf.spark.async_map.report import Report, StatsParam, log_in_task

RECORDS = list(range(200))


async def tenfold(record):
    await asyncio.sleep(0.001 * (record % 3))
    return 10 * record


class Server:
    """An aiohttp server in a process of its own, as the tasks are: /double/<n>; a tenth of the calls fails first."""

    def __init__(self):
        source = Path(__file__).parents[2] / "support" / "servers" / "http_server.py"
        self.process = subprocess.Popen([sys.executable, source], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def close(self):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    server = Server()
    yield server
    server.close()


# ---------------------------------------------------------------- RDD


@pytest.mark.spark
@pytest.mark.parametrize("ordered", [True, False])
def test_an_rdd_gives_an_rdd_of_the_results(sc, ordered):
    stats = fb.async_io.AsyncStats()
    mapped = fb.async_map(sc.parallelize(RECORDS, 3), tenfold, ordered=ordered, capacity=10, stats=stats)
    assert mapped.getNumPartitions() == 3
    got = mapped.collect()
    assert (got if ordered else sorted(got)) == [10 * record for record in RECORDS]
    assert (stats.tasks, stats.records, stats.results, stats.calls) == (3, 200, 200, 200)
    assert 1 <= stats.max_in_flight <= 10 and stats.quantile(0.99) > 0.001


@pytest.mark.spark
def test_each_task_opens_and_closes_its_own_session(sc, tmp_path):
    async def make_session(context):
        await asyncio.sleep(0)
        Path(tmp_path, f"open {context.partition}").touch()
        return f"session {context.partition} of {context.partition_count}"

    async def close_session(session):
        Path(tmp_path, f"close {session.split()[1]}").touch()

    async def call(record, session):
        return session

    got = fb.async_map(sc.parallelize(range(4), 2), call, open=make_session, close=close_session).collect()
    assert got == ["session 0 of 2"] * 2 + ["session 1 of 2"] * 2
    assert sorted(os.listdir(tmp_path)) == ["close 0", "close 1", "open 0", "open 1"]


@pytest.mark.spark
def test_take_closes_the_session_of_a_task_that_is_not_read_to_its_end(sc, tmp_path):
    def touch(name):
        return lambda *_: Path(tmp_path, name).touch()

    async def call(record, session):
        await asyncio.sleep(0.001)
        return record

    endless = sc.parallelize([0], 1).flatMap(lambda _: iter(range(10**9)))
    assert fb.async_map(endless, call, open=touch("open"), close=touch("close")).take(3) == [0, 1, 2]
    until = time.monotonic() + 10
    while len(os.listdir(tmp_path)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert sorted(os.listdir(tmp_path)) == ["close", "open"]


@pytest.mark.spark
def test_a_failed_call_fails_the_job_with_record_attempts_and_the_users_traceback(sc):
    async def fails_on_seven(record):
        await asyncio.sleep(0)
        if record == 7:
            raise LookupError("seven is not there")
        return record

    with pytest.raises(Exception) as raised:
        fb.async_map(
            sc.parallelize(range(10), 2), fails_on_seven, retry=fb.async_io.FixedDelayRetry(2, 0.001)
        ).collect()
    text = str(raised.value)
    assert "failed for record 2 of partition 1 after 3 calls: LookupError: seven is not there; the record: 7" in text
    assert "in fails_on_seven" in text and "AsyncCallError" in text


@pytest.mark.spark
def test_a_real_server_is_called_from_tasks_with_retries(sc, server):
    import aiohttp

    url = server.url

    async def double(record, session):
        async with session.get(f"{url}/double/{record}") as response:
            response.raise_for_status()
            return await response.json()

    stats = fb.async_io.AsyncStats()
    doubled = fb.async_map(
        sc.parallelize(RECORDS, 2),
        double,
        open=aiohttp.ClientSession,
        timeout=20.0,
        ordered=False,
        stats=stats,
        retry=fb.async_io.ExponentialRetry(3, 0.01, jitter=0.2),
    )
    assert sorted(doubled.collect()) == [2 * record for record in RECORDS]
    assert stats.retried == 20 and stats.calls == 220


@pytest.mark.spark
def test_skipped_records_reach_the_driver_with_their_errors(sc, caplog):
    async def picky(record):
        if record % 50 == 0:
            raise ValueError("round")
        return record

    stats = fb.async_io.AsyncStats()
    with caplog.at_level(logging.INFO, "flinkbuf"):
        assert fb.async_map(sc.parallelize(RECORDS, 2), picky, on_error="skip", stats=stats).count() == 196
    assert {(each.record, each.error) for each in stats.skipped_records} == {
        (n, "ValueError: round") for n in (0, 50, 100, 150)
    }
    assert (
        caplog.text.count("a task ended after") == 2 and "4 skipped" not in caplog.text and "2 skipped" in caplog.text
    )


@pytest.mark.spark
def test_as_many_skipped_records_are_kept_as_the_driver_says_and_those_that_cannot_travel_as_text(sc):
    class Odd:
        def __reduce__(self):
            raise TypeError("stays here")

        def __repr__(self):
            return "odd"

    async def fails(record):
        raise ValueError

    stats = fb.async_io.AsyncStats(kept_limit=3)
    data = sc.parallelize(range(20), 2).map(lambda record: Odd() if record == 0 else record)
    assert fb.async_map(data, fails, on_error="skip", stats=stats).count() == 0
    assert [each.record for each in stats.skipped_records] in (["odd", 1, 2, 10, 11, 12], [10, 11, 12, "odd", 1, 2])


@pytest.mark.spark
def test_a_task_that_runs_tells_so_in_its_log(sc, tmp_path):
    def log_to_file():
        sys.flinkbuf_test_kept = sys.stderr
        sys.stderr = open(tmp_path / "log", "a")  # noqa: SIM115  # log_as_before closes it

    def log_as_before(session):
        sys.stderr.close()
        sys.stderr = sys.flinkbuf_test_kept
        assert logging.getLogger("flinkbuf").handlers == []

    async def slow(record, session):
        await asyncio.sleep(0.3)
        return record

    for _ in range(2):  # a worker is used again, and does not say everything twice
        data = sc.parallelize(range(2), 1)
        fb.async_map(
            data,
            slow,
            capacity=1,
            options=fb.async_io.AsyncMapOptions(log_interval=0.1),
            open=log_to_file,
            close=log_as_before,
        ).count()
    lines = (tmp_path / "log").read_text().splitlines()
    assert 4 <= len(lines) <= 14
    assert " INFO flinkbuf: async: partition 0: 1 records, 0 results, 1 calls" in lines[0] and "1 in flight" in lines[0]


def test_logging_that_somebody_has_configured_is_used_and_none_is_set_up(monkeypatch, capsys):
    import pyspark

    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: "a task")
    monkeypatch.setattr(logging.root, "handlers", [])  # those of pytest
    logger = logging.getLogger("flinkbuf")

    def printed():
        log_in_task("%d of %s", 3, "them")
        return capsys.readouterr().err

    assert printed().endswith(" INFO flinkbuf: 3 of them\n")
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
    for holder in (logger, logging.root):
        mine = logging.NullHandler()
        holder.addHandler(mine)
        assert printed() == ""
        holder.removeHandler(mine)
    monkeypatch.setattr(logger, "level", logging.ERROR)
    assert printed() == ""


def test_a_map_that_logs_nothing_says_nothing(monkeypatch):
    import pyspark

    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: None)
    task = RecordTask(tenfold, AsyncOptions(log_interval=0), Report(), 1)
    monkeypatch.setattr("flinkbuf.spark.async_map.report.log_in_task", None)  # not called
    assert list(task(iter([1, 2]))) == [10, 20]


@pytest.mark.spark
def test_two_maps_in_one_task_do_not_disturb_each_other(sc):
    twice = fb.async_map(fb.async_map(sc.parallelize(RECORDS, 2), tenfold, capacity=5), tenfold, capacity=7)
    assert twice.collect() == [100 * record for record in RECORDS]


@pytest.mark.spark
def test_a_rate_limit_of_the_job_is_divided_among_its_tasks(sc):
    started = time.perf_counter()
    data = sc.parallelize(range(40), 2)
    assert (
        fb.async_map(
            data, tenfold, options=fb.async_io.AsyncMapOptions(rate_limit=100, rate_limit_scope="job"), ordered=False
        ).count()
        == 40
    )
    assert time.perf_counter() - started >= 19 / 50 - 0.06


# ---------------------------------------------------------------- DataFrame


@pytest.fixture(scope="module")
def frame(spark):
    return spark.range(3000).selectExpr("id", "cast(id % 7 as string) as name", "id as twice").repartition(2)


async def row_of(row):
    await asyncio.sleep(0.0001 * (row.id % 2))
    return {"twice": 2.0 * row.id, "text": f"{row.name} {row['id']}"}


@pytest.mark.spark
@pytest.mark.parametrize("ordered", [True, False])
def test_a_dataframe_keeps_its_columns_and_gets_those_of_the_result(frame, ordered):
    mapped = fb.async_map(frame, row_of, schema="twice double, text string", ordered=ordered)
    assert mapped.schema.simpleString() == "struct<id:bigint,name:string,twice:double,text:string>"
    rows = mapped.collect()
    if ordered:
        assert [row.id for row in rows] == [row.id for row in frame.collect()]
    assert sorted(rows) == [(n, str(n % 7), 2.0 * n, f"{n % 7} {n}") for n in range(3000)]


@pytest.mark.spark
def test_a_result_may_be_a_tuple_a_plain_value_or_nothing(frame, spark):
    async def pair(row):
        return (row.id, None) if row.id % 2 else None

    async def single(row):
        return row.id + 1

    async def listed(row):
        return [row.id + 1]

    few = frame.where("id < 4")
    assert sorted(fb.async_map(few, pair, schema="a long, b string").select("id", "a", "b").collect()) == [
        (0, None, None),
        (1, 1, None),
        (2, None, None),
        (3, 3, None),
    ]
    assert sorted(fb.async_map(few, single, schema="next long").select("next").collect()) == [(1,), (2,), (3,), (4,)]
    assert sorted(fb.async_map(few, listed, schema="next long").select("next").collect()) == [(1,), (2,), (3,), (4,)]
    assert fb.async_map(few.where("id = 0"), listed, schema="next array<long>").collect()[0].next == [1]


@pytest.mark.spark
def test_flat_results_repeat_the_row_and_drop_it(frame):
    async def copies(row):
        await asyncio.sleep(0)
        return [(n,) for n in range(row.id)]

    rows = (
        fb.async_map(frame.where("id < 4"), copies, schema="n long", options=fb.async_io.AsyncMapOptions(flat=True))
        .select("id", "n")
        .collect()
    )
    assert sorted(rows) == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]


@pytest.mark.spark
def test_keys_batches_and_errors_see_rows(frame):
    async def lengths(rows):
        await asyncio.sleep(0)
        return [(len(rows),) if row.id else ValueError("zero") for row in rows]

    rows = fb.async_map(
        frame.where("id < 100"),
        lengths,
        schema="n int",
        options=fb.async_io.AsyncMapOptions(batch_size=10),
        on_error=lambda row, error: (-row.id - 1,),
    ).collect()
    assert len(rows) == 100 and [row.n for row in rows if row.id == 0] == [-1]
    keyed = fb.async_map(
        frame.where("id < 100"),
        row_of,
        schema="twice double, text string",
        options=fb.async_io.AsyncMapOptions(key="name"),
        ordered=False,
    )
    assert keyed.count() == 100


@pytest.mark.spark
def test_a_value_that_does_not_fit_the_schema_names_the_column(frame):
    async def wrong(row):
        return "text"

    with pytest.raises(Exception, match="column 'n' is declared as int32 in schema="):
        fb.async_map(frame, wrong, schema="n int").collect()

    async def unknown(row):
        return {"m": 1}

    with pytest.raises(Exception, match=r"gave columns \['m'\] that are not in schema= \(n\)"):
        fb.async_map(frame, unknown, schema="n int").collect()


@pytest.mark.spark
def test_counters_of_a_dataframe_reach_the_driver(frame):
    stats = fb.async_io.AsyncStats()
    fb.async_map(frame, row_of, schema="twice double, text string", stats=stats).write.format("noop").mode(
        "overwrite"
    ).save()
    assert stats.records == stats.results == 3000


@pytest.mark.spark
def test_the_function_sees_the_values_of_collect_and_may_give_them_back(spark):
    """Structs, maps, arrays of them and timestamps, whatever the zone of the session."""
    when = datetime.datetime(2013, 7, 1, 12, 30, 0, 5)
    schema = (
        "place struct<name: string, at: struct<x: double, since: timestamp>>, seen array<struct<n: int>>, "
        "counts map<string, struct<n: int>>, moment timestamp, local timestamp_ntz, day date, price decimal(10, 2)"
    )
    value = (("JFK", (1.5, when)), [(1,), (2,), None], {"a": (7,), "b": None}, when, when, when.date(), None)
    data = spark.createDataFrame([value, (None,) * 7], schema)
    expected = data.collect()

    async def call(row):
        if row.place is None:
            return None
        assert row.place.at.x == 1.5 and row.counts["a"].n == 7 and row.seen[1].n == 2
        return {f"{name}_2": row[name] for name in row.asDict()} | {"place_2": row.place.asDict()}

    for zone in ("UTC", "America/New_York"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            copies = ", ".join(f"{field.name}_2 {field.dataType.simpleString()}" for field in data.schema)
            both = fb.async_map(data, call, schema=copies).collect()
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert [tuple(row[:7]) for row in both] == [tuple(row[7:]) for row in both] == [tuple(row) for row in expected]


@pytest.mark.spark
def test_a_variant_is_the_one_of_collect_and_may_be_given_back(spark):
    data = spark.sql("select parse_json('{\"a\": 1}') v, array(parse_json('2'), null) w")

    async def call(row):
        assert row.v.toPython() == {"a": 1} and row.w[0].toPython() == 2
        return row.v, row.w

    mapped = fb.async_map(data, call, schema="x variant, y array<variant>")
    assert mapped.selectExpr("to_json(x)", "to_json(y[0])", "y[1]").collect() == [('{"a":1}', "2", None)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("result", "column"),
    [((98.6, None, None), "n"), ((None, Decimal("1.5"), None), "m"), ((None, None, [2, 2.5]), "a")],
)
def test_a_number_that_is_not_whole_is_refused_and_not_cut_off(spark, result, column):
    async def call(row):
        return result

    with pytest.raises(Exception, match=f"column '{column}' is declared as .* is not a whole number"):
        fb.async_map(spark.range(1), call, schema="n int, m long, a array<int>").collect()

    async def whole(row):
        return 98.0, Decimal(7), [True]

    mapped = fb.async_map(spark.range(1), whole, schema="n int, m long, a array<int>")
    assert mapped.collect() == [(0, 98, 7, [1])]


def test_an_hour_that_comes_twice_keeps_its_moments_apart(monkeypatch):
    types = pytest.importorskip("pyspark.sql.types", reason="PySpark is not installed")
    from flinkbuf.spark.async_map.arrow_values import from_arrow, to_arrow

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        for text in (
            "2024-11-03 05:30:00.000001",
            "2024-11-03 06:30:00.999999",
            "0001-01-03 00:00:00",
            "2024-07-01 00:00:00",
        ):
            moment = datetime.datetime.fromisoformat(text + "+00:00")
            local = from_arrow(types.TimestampType())(moment)
            micros = (moment - datetime.datetime.fromisoformat("1970-01-01T00:00+00:00")) // datetime.timedelta(
                microseconds=1
            )
            expected = types.TimestampType().fromInternal(micros)  # as in collect()
            assert (local, local.fold) == (expected, expected.fold)
            assert to_arrow(types.TimestampType())(local) == moment
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.spark
def test_a_limit_does_not_wait_for_a_whole_batch_of_slow_calls(spark, tmp_path):
    async def slow(row):
        await asyncio.sleep(0.05)
        with open(tmp_path / "calls", "a") as file:
            file.write("x")
        return "x" * 20_000  # PySpark gathers 64 KiB before it gives anything back

    data = spark.range(0, 2000, numPartitions=1)
    assert len(fb.async_map(data, slow, schema="text string", capacity=10).limit(5).collect()) == 5
    assert len((tmp_path / "calls").read_text()) < 1000


@pytest.mark.spark
def test_none_for_a_column_that_is_not_null_is_refused(frame):
    async def gives_none(row):
        return None

    with pytest.raises(Exception, match="column 'n' is declared NOT NULL in schema="):
        fb.async_map(frame, gives_none, schema="n int not null").collect()


INSIDE = [
    ("s struct<a: int, b: struct<c: int not null>>", {"a": 1, "b": {"c": None}}, "s.b.c"),
    ("s struct<a: array<struct<b: int not null>>>", {"a": [{"b": 1}, {"b": None}]}, "s.a[].b"),
    ("s map<string, struct<b: int not null>>", {"k": {"b": None}}, "s{value}.b"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("schema", "result", "path"), INSIDE, ids=[path for _, _, path in INSIDE])
def test_none_for_a_field_inside_that_is_not_null_is_refused_with_its_path(frame, schema, result, path):
    from pyspark.sql.types import StructType

    from flinkbuf.spark.async_map.frame import ResultColumns

    fields = StructType.fromDDL(schema).fields
    columns = ResultColumns(fields, ["s"])
    with pytest.raises(
        ValueError, match=rf"field '{re.escape(path)}' is declared NOT NULL .*: declare it without NOT NULL"
    ):
        columns.arrays([(result,)])
    assert columns.arrays([(None,)])["s"].null_count == 1, "the whole may be null"


@pytest.mark.spark
def test_elements_that_may_not_be_null_and_keys_are_looked_at_too(spark):
    from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField

    from flinkbuf.spark.async_map.frame import ResultColumns

    array = ResultColumns([StructField("a", ArrayType(IntegerType(), containsNull=False))], ["a"])
    assert array.arrays([([1, 2],), (None,), ([],)])["a"].to_pylist() == [[1, 2], None, []]
    with pytest.raises(ValueError, match=r"field 'a\[\]' is declared NOT NULL"):
        array.arrays([([1, None],)])
    items = ResultColumns([StructField("m", MapType(StringType(), IntegerType(), valueContainsNull=False))], ["m"])
    assert items.arrays([({"x": 1},), (None,)])["m"].null_count == 1
    with pytest.raises(ValueError, match=r"field 'm\{value\}' is declared NOT NULL"):
        items.arrays([({"x": None},)])


@pytest.mark.spark
def test_two_fields_of_one_name_in_a_struct_are_refused_with_their_path(spark, frame):
    async def ten(row):
        return 10

    with pytest.raises(ValueError, match=r"schema= has two fields 's\.b\[\]\.x' in one struct.* another name"):
        fb.async_map(frame, ten, schema="s struct<b: array<struct<x: int, x: int>>>")
    data = spark.sql("select 1 as id, named_struct('x', 1, 'x', 2) as s")
    with pytest.raises(ValueError, match=r"the DataFrame has two fields 's\.x' in one struct"):
        fb.async_map(data, ten, schema="n int")
    other = data.selectExpr("id", "cast(s as struct<x: int, y: int>) s")
    assert fb.async_map(other, ten, schema="n int").collect() == [(1, (1, 2), 10)]


@pytest.mark.spark
def test_names_are_compared_as_spark_compares_them(spark, frame):
    async def ten(row):
        return 10

    async def by_name(row):
        return {"TWICE": row.id, "n": 1}

    assert fb.async_map(frame, ten, schema="TWICE int").columns == ["id", "name", "twice"]
    mapped = fb.async_map(frame.where("id = 3"), by_name, schema="n int, TWICE int")  # a dict has the names of schema=
    assert mapped.columns == ["id", "name", "twice", "n"] and mapped.collect() == [(3, "3", 3, 1)]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        mapped = fb.async_map(frame, ten, schema="TWICE int")
        assert mapped.columns == ["id", "name", "twice", "TWICE"]
        assert mapped.where("id = 3").collect() == [(3, "3", 3, 10)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(ValueError, match="the DataFrame has columns of the same name: id"):
        fb.async_map(frame.crossJoin(frame.select("id")), ten, schema="n int")
    with pytest.raises(ValueError, match="schema= has columns of the same name: N, n"):
        fb.async_map(frame, ten, schema="n int, N int")


# ---------------------------------------------------------------- refusals, and what needs no Spark


@pytest.mark.spark
def test_wrong_arguments_are_refused_on_the_driver(sc, frame):
    data = sc.parallelize([1])
    with pytest.raises(TypeError, match="takes an RDD or a DataFrame, got builtins.list"):
        fb.async_map([1], tenfold)
    with pytest.raises(ValueError, match="a DataFrame needs schema="):
        fb.async_map(frame, row_of)
    with pytest.raises(ValueError, match="the DataFrame has no columns, so Spark would bring no row"):
        fb.async_map(frame.select(), row_of, schema="a int")
    for schema in ("double", ""):
        with pytest.raises(ValueError, match=f"schema= names no column.* got '{schema}'"):
            fb.async_map(frame, row_of, schema=schema)
    with pytest.raises(ValueError, match="schema= is for DataFrames"):
        fb.async_map(data, tenfold, schema="a int")
    with pytest.raises(TypeError, match=r"options must be an fb.async_io.AsyncMapOptions\(\), got \{'flat': True\}"):
        fb.async_map(data, tenfold, options={"flat": True})
    with pytest.raises(ValueError, match="rate_limit_scope"):
        fb.async_map(data, tenfold, options=fb.async_io.AsyncMapOptions(rate_limit_scope="world"))
    for stats in (fb.async_io.AsyncStats, 5):
        with pytest.raises(TypeError, match=r"stats must be an fb.async_io.AsyncStats\(\), got"):
            fb.async_map(data, tenfold, stats=stats)
    with pytest.raises(ValueError, match="rate_limit must be a number .* got '5'"):
        fb.async_map(data, tenfold, options=fb.async_io.AsyncMapOptions(rate_limit="5", rate_limit_scope="job"))
    with pytest.raises(ValueError, match="capacity must be"):
        fb.async_map(data, tenfold, capacity=0)
    with pytest.raises(TypeError, match="would be called with"):
        fb.async_map(data, tenfold, open=list)


@pytest.mark.spark
def test_a_finished_row_does_not_wait_for_the_result_of_another_one(spark, tmp_path):
    """The second call ends when the first row is there, which is a few bytes."""
    seen = tmp_path / "seen"

    async def call(row):
        while row.id and not seen.exists():
            await asyncio.sleep(0.01)
        return row.id

    called = fb.async_map(spark.range(0, 2, 1, 1), call, schema="found bigint", timeout=60)
    assert called.limit(1).collect() == [(0, 0)]
    seen.touch()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch_of_finished_rows_is_given_while_a_call_goes_on(ordered):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyspark.sql.types import LongType, StructField, StructType

    seen = threading.Event()

    async def call(row):
        while row.id == 2 and not seen.is_set():
            await asyncio.sleep(0.001)
        return row.id

    found = StructField("found", LongType())
    options = AsyncOptions(timeout=60, ordered=ordered)
    task = FrameTask(call, options, Report(), StructType().add("id", "long"), ["id", "found"], [found], ["found"])
    batches = task(iter([pa.record_batch({"id": [0, 1, 2]})]))
    rows = next(batches).to_pylist()
    while len(rows) < 2:  # the machine was slow
        rows += next(batches).to_pylist()
    assert rows == [{"id": 0, "found": 0}, {"id": 1, "found": 1}]
    seen.set()
    assert [row for batch in batches for row in batch.to_pylist()] == [{"id": 2, "found": 2}]


@pytest.mark.spark
def test_a_task_survives_pickling_and_needs_no_spark(spark):
    task = pickle.loads(pickle.dumps(RecordTask(tenfold, AsyncOptions(), Report(), 1)))
    assert list(task(iter([1, 2]))) == [10, 20]
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyspark.sql.types import StructType

    results = StructType.fromDDL("twice double, text string").fields  # for which PySpark needs a session
    schema = StructType.fromDDL("id long, name string, twice long")
    task = FrameTask(
        row_of, AsyncOptions(), Report(), schema, ["id", "name", "twice", "text"], results, ["twice", "text"]
    )
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", "b"], "twice": [0, 0]})
    (out,) = task(iter([batch]))
    assert out.to_pylist() == [
        {"id": 1, "name": "a", "twice": 2.0, "text": "a 1"},
        {"id": 2, "name": "b", "twice": 4.0, "text": "b 2"},
    ]


def test_counts_add_up():
    param = StatsParam()
    first, second = (
        fb.async_io.AsyncStats(records=3, max_in_flight=2, tasks=1),
        fb.async_io.AsyncStats(records=4, max_in_flight=9, tasks=1),
    )
    second.add_latency(0.5)
    total = param.addInPlace(param.addInPlace(param.zero(first), first), second)
    assert (total.records, total.max_in_flight, total.tasks) == (7, 9, 2)
    assert total.quantile(0.5) == pytest.approx(0.5, rel=0.08)
    assert pickle.loads(pickle.dumps(StatsParam(is_driver=True))).is_driver is False
