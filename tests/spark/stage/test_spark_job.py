"""Programs on Spark: the results of an embedded job, whatever happens to the processes; and a clear end."""

import collections
import contextlib
import datetime
import os
import re
import signal
import threading
import time
from decimal import Decimal
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import Row
from pyspark.sql.types import LongType, StructField, StructType
from support.waiting import wait_until

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.common.time import Time
from flinkbuf.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.errors import RemoteTransportError
from flinkbuf.runtime.protocol.failure import JobCanceledError, JobFailedError
from flinkbuf.spark.frames.arrow_input import arrow_input
from flinkbuf.spark.frames.arrow_output import arrow_output
from flinkbuf.spark.frames.schema import from_spark_rows
from flinkbuf.spark.stage import job, job_stage
from flinkbuf.spark.stage.job import active_context

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("does_not_hang")]

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"}


def new_env(parallelism=2, target="spark", **properties):
    configuration = Configuration()
    configuration.set_string("execution.target", target)
    for name, value in properties.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(parallelism)


def restarting(attempts=3, **options):
    return new_env(**{**RESTARTS, "restart-strategy.fixed-delay.attempts": str(attempts)}, **options)


# ---- results


class CountWithTimer(KeyedProcessFunction):
    """Counts by key, and gives the count when event time ends."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


class FirstField:
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


EVEN = OutputTag("even", Types.LONG())


class SplitEven(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield value
        else:
            yield EVEN, value


def words(env):
    return env.from_collection([(f"w{n % 7}", n) for n in range(3_000)], PAIR)


def timed(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    return words(env).assign_timestamps_and_watermarks(strategy)


def key_of(pair):
    return pair[0]


def added(left, right):
    return left[0], left[1] + right[1]


def sums(env):
    return words(env).key_by(key_of, Types.STRING()).reduce(added)


def windows(env):
    windowed = timed(env).key_by(key_of, Types.STRING()).window(TumblingEventTimeWindows.of(Time.milliseconds(500)))
    return windowed.reduce(added)


def timers(env):
    return timed(env).key_by(key_of, Types.STRING()).process(CountWithTimer())


def side_outputs(env):
    odd = env.from_collection(range(500), Types.LONG()).rebalance().process(SplitEven(), Types.LONG())
    return odd.union(odd.get_side_output(EVEN).map(lambda n: -n, Types.LONG()))


def undeclared(env):
    return env.from_collection([{"n": n} for n in range(200)]).rebalance().map(lambda record: sorted(record.items()))


def results_of(program, target):
    env, found = new_env(target=target), []
    program(env).add_sink(found.append)
    env.execute()
    return sorted(map(repr, found))


@pytest.mark.parametrize("program", [sums, windows, timers, side_outputs, undeclared])
def test_a_program_gives_what_it_gives_in_an_embedded_job(sc, program):
    found = results_of(program, "spark")
    assert found and found == results_of(program, "embedded")


def test_records_can_be_collected_while_they_come(sc):
    with new_env().from_collection(range(100), Types.LONG()).map(lambda n: n + 1).execute_and_collect() as found:
        assert sorted(found) == list(range(1, 101))


def test_tasks_run_in_processes_of_spark_one_a_slot(sc):
    stream = new_env().from_collection(range(64)).rebalance().map(lambda n: os.getpid())
    pids = set(stream.execute_and_collect(limit=64))
    assert len(pids) == 2 and os.getpid() not in pids


def test_big_functions_go_by_broadcast_which_is_destroyed(sc, monkeypatch):
    made = []
    broadcast = sc.broadcast

    def noting(value):
        made.append(broadcast(value))
        return made[-1]

    monkeypatch.setattr(sc, "broadcast", noting)
    ballast = os.urandom(2 * job.BROADCAST_FROM)
    found = new_env().from_collection([1]).map(lambda n: len(ballast)).execute_and_collect(limit=10)
    assert found == [2 * job.BROADCAST_FROM]
    assert len(made) == 1 and not os.path.exists(made[0]._path)


def test_functions_read_sparks_own_broadcast_variables(sc, tmp_path):
    """The stage is started by another thread than that which pickled the functions, and again after a failure."""
    names, path = sc.broadcast(["even", "odd"]), str(tmp_path / "tries")

    def fails_once(n):
        if counted(path) < 2:
            raise ValueError("not yet")
        return names.value[n % 2]

    given = restarting(parallelism=1).from_rdd(sc.parallelize([1, 2], 1).map(lambda n: n)).map(fails_once)
    assert given.execute_and_collect(limit=5) == ["odd", "even"]
    values = new_env().from_rdd(sc.parallelize([1, 2], 2).map(lambda n: n)).map(lambda n: names.value[n % 2])
    assert values.to_rdd().map(str.upper).collect() == ["ODD", "EVEN"]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_records_that_spark_pickled_together_share_nothing(sc, parallelism):
    def appended(record):
        record[1].append(record[0])
        return record[1]

    shared = []
    data = sc.parallelize([(number, shared) for number in (1, 2, 3)], 1)
    found = new_env(parallelism).from_rdd(data).map(appended).execute_and_collect()
    assert sorted(found) == [[1], [2], [3]]


@pytest.mark.parametrize("type_info", [None, Types.MAP(Types.STRING(), Types.LONG())])
def test_what_a_function_goes_on_changing_reaches_spark_as_it_was(sc, type_info):
    def reusing(first):
        record = {}
        for number in range(first, first + 100):
            record["number"] = number
            yield record

    stream = new_env().from_rdd(sc.parallelize([0, 100], 2)).flat_map(reusing, type_info)
    assert sorted(record["number"] for record in stream.to_rdd().collect()) == list(range(200))


def test_modules_and_files_come_along(sc, tmp_path):
    (tmp_path / "shipped_by_test.py").write_text("ANSWER = 42\n")
    (tmp_path / "words.txt").write_text("hello")
    env = new_env()
    env.add_python_file(str(tmp_path / "shipped_by_test.py"))
    env.register_cached_file(str(tmp_path / "words.txt"), "words")

    class Reads(MapFunction):
        def open(self, runtime_context):
            self.path = runtime_context.get_distributed_cache().get_file("words")

        def map(self, value):
            import shipped_by_test

            with open(self.path) as file:
                return file.read(), shipped_by_test.ANSWER + value

    assert env.from_collection([1]).map(Reads()).execute_and_collect(limit=5) == [("hello", 43)]


# ---- input from Spark


class WithSubtask(MapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return self.index, value


def test_partition_i_is_read_by_subtask_i(sc):
    source = new_env().from_rdd(sc.parallelize(range(100), 2), Types.LONG())
    found = source.map(WithSubtask()).execute_and_collect(limit=1_000)
    assert [sorted(n for at, n in found if at == index) for index in (0, 1)] == [list(range(50)), list(range(50, 100))]


def test_more_partitions_than_subtasks_are_brought_together_in_order(sc):
    source = new_env().from_rdd(sc.parallelize(range(100), 8))
    assert source.get_execution_environment().get_parallelism() == 2
    found = source.map(WithSubtask()).execute_and_collect(limit=1_000)
    assert sorted(n for _, n in found) == list(range(100))
    assert {at for at, n in found if n < 50} == {0} and {at for at, n in found if n >= 50} == {1}


def test_a_narrow_input_and_two_inputs_meet_in_one_job(sc):
    env = new_env()
    numbers, texts = env.from_rdd(sc.parallelize(range(50), 1)), env.from_rdd(sc.parallelize(["a", "b", "c"], 3))
    found = numbers.map(str).union(texts).execute_and_collect(limit=1_000)
    assert sorted(found) == sorted([*map(str, range(50)), "a", "b", "c"])


def test_an_empty_rdd_is_an_empty_stream(sc):
    assert new_env().from_rdd(sc.emptyRDD()).execute_and_collect(limit=10) == []


COLUMNS = (
    "yes boolean, tiny tinyint, small smallint, n int, big bigint, f float, d double, money decimal(12,3), s string, "
    "data binary, day date, at timestamp, wall timestamp_ntz, list array<int>, pairs map<string,int>, "
    "nested struct<x:int,y:array<string>>"
)
FULL_ROW = Row(
    yes=True,
    tiny=-7,
    small=300,
    n=-70_000,
    big=2**40,
    f=0.5,
    d=1e300,
    money=Decimal("-12.345"),
    s="héllo",
    data=bytearray(b"\0\xff"),
    day=datetime.date(2024, 2, 29),
    at=datetime.datetime(2024, 2, 29, 12, 0, 0, 123456),
    wall=datetime.datetime(1969, 12, 31, 23, 59, 59),
    list=[1, None, 3],
    pairs={"a": 1, "b": None},
    nested=Row(x=None, y=["p", "q"]),
)
EMPTY_ROW = Row(**dict.fromkeys(FULL_ROW.asDict()))


def test_all_types_of_columns_come_in_and_go_out(spark):
    frame = spark.createDataFrame([FULL_ROW, EMPTY_ROW], COLUMNS)
    stream = new_env().from_data_frame(frame)
    seen = stream.map(lambda row: (row.s, type(row).__module__, row.nested and row.nested.y, row.money))
    assert sorted(seen.execute_and_collect(limit=5), key=repr) == sorted(
        [(None, "flinkbuf.types.row", None, None), ("héllo", "flinkbuf.types.row", ["p", "q"], Decimal("-12.345"))],
        key=repr,
    )
    back = new_env().from_data_frame(frame).to_data_frame(frame.schema)
    assert back.schema == frame.schema
    assert sorted(back.collect(), key=repr) == sorted(frame.collect(), key=repr)


@pytest.mark.parametrize("partitions", [2, 5])
def test_rows_of_a_data_frame_come_as_arrow_and_are_what_they_are_as_objects(spark, partitions):
    frame = spark.createDataFrame([FULL_ROW, EMPTY_ROW] * 10, COLUMNS).repartition(partitions)
    stream = new_env().from_data_frame(frame)
    assert stream._transformation.factory.read is not None
    as_objects = new_env().from_rdd(frame.rdd, from_spark_rows(frame.schema))
    assert sorted(stream.execute_and_collect(limit=99), key=repr) == sorted(
        as_objects.execute_and_collect(limit=99), key=repr
    )


@pytest.mark.parametrize(
    "expression", ["id, id", "array(timestamp_seconds(id)) as at", "make_ym_interval(1, id) as months"]
)
def test_columns_that_arrow_has_no_place_for_come_as_objects(spark, expression):
    frame = spark.range(3).selectExpr(*expression.split(", ", 1) if expression == "id, id" else [expression])
    assert arrow_input(frame, Types.ROW_NAMED(["id"], [Types.LONG()])) is None


def test_rows_go_to_spark_as_arrow_and_are_what_they_were(spark):
    columns = [name for name in FULL_ROW.asDict() if name != "money"]
    frame = spark.createDataFrame([FULL_ROW, EMPTY_ROW] * 20, COLUMNS).select(columns)
    stream = new_env().from_data_frame(frame)
    assert arrow_output(stream.get_type(), frame.schema, is_single=False) is not None
    back = stream.to_data_frame(frame.schema)
    assert back.schema == frame.schema
    assert sorted(back.collect(), key=repr) == sorted(frame.collect(), key=repr)


def test_none_in_a_column_that_is_not_nullable_is_refused(spark):
    wanted = StructType([StructField("n", LongType(), nullable=False)])
    records = arrow_output(None, wanted, is_single=False)
    gathered = records.gathered()
    gathered.add_record((1,))
    gathered.add_record((None,))
    with pytest.raises(ValueError, match="column 'n': null, but the column is declared NOT NULL"):
        records.message_of(gathered.finish())


@pytest.mark.parametrize(
    ("known", "ddl"),
    [
        (None, "at timestamp"),
        (Types.ROW_NAMED(["money"], [Types.BIG_DEC()]), "money decimal(10, 2)"),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), "a bigint, b bigint"),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), "a string"),
        (Types.ROW_NAMED(["a"], [Types.OBJECT_ARRAY(Types.LOCAL_DATE_TIME())]), "a array<timestamp>"),
    ],
)
def test_what_arrow_would_change_goes_to_spark_as_objects(spark, known, ddl):
    assert arrow_output(known, StructType.fromDDL(ddl), is_single=False) is None


def test_a_data_frame_goes_in_and_out_by_the_declared_type(spark):
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "concat('n', id % 4) as name", "id / 2 as half")
    keyed = new_env().from_data_frame(frame).key_by(lambda row: row.name, Types.STRING())
    largest = keyed.reduce(lambda left, right: right if right.id > left.id else left)
    found = largest.to_data_frame()
    assert found.dtypes == [("id", "bigint"), ("name", "string"), ("half", "double")]
    top = found.groupBy("name").max("id").collect()
    assert sorted(map(tuple, top)) == [("n0", 36), ("n1", 37), ("n2", 38), ("n3", 39)]


def test_single_values_become_one_column(spark):
    stream = new_env().from_rdd(spark.sparkContext.parallelize([1, 2], 2), Types.LONG())
    frame = stream.map(lambda n: n * 10, Types.LONG()).to_data_frame()
    assert frame.dtypes == [("value", "bigint")] and sorted(row.value for row in frame.collect()) == [10, 20]


# ---- output to Spark


def squares(sc, function=lambda n: n * n):
    return new_env().from_rdd(sc.parallelize(range(1_000), 2), Types.LONG()).map(function, Types.LONG()).to_rdd()


def test_an_rdd_is_computed_by_a_job_each_time_spark_wants_it(sc, tmp_path):
    path = str(tmp_path)

    def noted(n):
        if n == 0:
            open(f"{path}/{time.monotonic_ns()}", "w").close()
        return n * n

    rdd = squares(sc, noted)
    assert not os.listdir(path)  # lazily
    assert rdd.getNumPartitions() == 2
    for computed in (1, 2):
        assert rdd.glom().collect() == [[n * n for n in range(500)], [n * n for n in range(500, 1_000)]]
        assert len(os.listdir(path)) == computed
    assert rdd.map(lambda n: (n % 2, 1)).reduceByKey(int.__add__).collectAsMap() == {0: 500, 1: 500}


def test_records_come_as_spark_asks_for_them(sc, tmp_path):
    """What nobody reads is not made: the source waits."""
    path = str(tmp_path / "made")

    def source(part):
        for n in range(100_000):
            if n % 100 == 0:
                with open(path, "w") as file:
                    file.write(str(n))
            yield n

    def read_slowly(records):
        first = next(records)
        time.sleep(1.0)
        with open(path) as file:
            yield first, int(file.read())
        yield sum(1 for _ in records)

    rdd = new_env(parallelism=1).from_rdd(sc.parallelize([0], 1).mapPartitions(source)).to_rdd()
    (first, made), rest = rdd.mapPartitions(read_slowly).collect()
    assert (first, rest) == (0, 99_999) and 900 <= made < 5_000


def test_who_reads_nothing_or_little_keeps_nobody_waiting(sc):
    rdd = squares(sc)
    assert rdd.mapPartitions(lambda records: [1]).collect() == [1, 1]
    assert rdd.mapPartitions(lambda records: [next(records)]).collect() == [0, 250_000]


def test_who_reads_little_of_much_keeps_nobody_waiting_and_fails_nobody(sc):
    """The task of whoever reads no more waits for room at that moment; the other one still reads."""

    def read(index, records):
        if index == 0:
            yield next(records)
            time.sleep(0.3)
        else:
            yield sum(1 for _ in records if time.sleep(0.0001) is None)

    data = sc.parallelize(range(20_000), 2)
    rdd = new_env().from_rdd(data, Types.LONG()).map(lambda n: n, Types.LONG()).to_rdd()
    assert rdd.mapPartitionsWithIndex(read).collect() == [0, 10_000]


def test_a_failure_reaches_spark_as_the_functions_own_error(sc):
    rdd = squares(sc, lambda n: 1 // (n - 700))
    with pytest.raises(Exception, match=r"ZeroDivisionError: integer division or modulo by zero\s+in operator 'Map'"):
        rdd.collect()


def read_late(records):
    """Read on only when the process' task manager is gone, as Spark's thread does where it gets no turn."""
    first = next(records)
    deadline = time.monotonic() + 20
    while any(each.name == "flinkbuf task manager" for each in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield first
    yield from records


@pytest.mark.parametrize("read", [iter, read_late])
def test_a_stage_that_failed_runs_again_where_a_shuffle_follows(sc, tmp_path, read):
    path = str(tmp_path / "failed")

    def fails_once(n):
        if n == 700 and not os.path.exists(path):
            open(path, "w").close()
            raise ValueError("once")
        return n

    rdd = squares(sc, fails_once).mapPartitions(read)
    found = rdd.map(lambda n: (n % 3, 1)).reduceByKey(int.__add__).collectAsMap()
    assert found == {0: 334, 1: 333, 2: 333} and os.path.exists(path)


def test_a_result_is_forgotten_once_nobody_can_compute_it(sc):
    import gc

    from flinkbuf.spark.stage import job_output

    before = set(job_output._outputs)
    rdd = squares(sc)
    derived = rdd.map(str)
    assert rdd.count() == 1_000
    (output,) = job_output._outputs - before
    del rdd
    gc.collect()
    sc._jvm.System.gc()
    job_output.forget_outputs()
    assert derived.count() == 1_000 and output in job_output._outputs
    del derived
    deadline = time.monotonic() + 20
    while output in job_output._outputs and time.monotonic() < deadline:
        gc.collect()
        sc._jvm.System.gc()
        job_output.forget_outputs()
        time.sleep(0.2)
    assert output not in job_output._outputs


# ---- failures and restarts


def test_a_failing_function_is_reported_as_in_python(sc):
    stream = new_env().from_collection(range(10)).rebalance().map(lambda n: 1 // (n - 7))
    with pytest.raises(ZeroDivisionError) as e:
        stream.execute_and_collect(limit=100)
    assert re.search(r"(?s)Traceback.*in operator 'Map' of task Map.*with the record 7", str(e.value.__cause__))
    assert isinstance(e.value, JobFailedError) and e.value.operator_name == "Map"


def counted(path):
    """How often something happened, over all processes."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    open(f"{path}/{os.getpid()}-{time.monotonic_ns()}", "w").close()
    return len(os.listdir(path))


def pids_of(path):
    return {name.split("-")[0] for name in os.listdir(path)}


def test_a_failing_function_is_restarted_in_the_processes_that_are_there(sc, tmp_path):
    path = str(tmp_path / "tries")

    def fails_twice(n):
        if n == 5 and counted(path) < 3:
            raise ValueError("not yet")
        return n

    found = []
    env = restarting()
    env.from_collection(range(10)).rebalance().map(fails_twice).add_sink(found.append)
    client = env.execute_async("in place")
    client.get_job_execution_result().result()
    assert set(found) == set(range(10)) and len(os.listdir(path)) == 3
    assert stages_of(sc, client) == [1]


def stages_of(sc, client):
    """Which of the Spark jobs were run that a job may have asked for."""
    groups = {run: f"flinkbuf-{client.get_job_id()}-{run}" for run in range(1, 5)}
    return [run for run, group in groups.items() if sc.statusTracker().getJobIdsForGroup(group)]


def test_what_came_from_spark_is_read_again_in_a_new_stage(sc, tmp_path):
    path = str(tmp_path / "tries")

    def fails_once(n):
        if n == 75 and counted(path) < 2:
            raise ValueError("not yet")
        return n

    found = []
    env = restarting()
    env.from_rdd(sc.parallelize(range(100), 2)).map(fails_once).add_sink(found.append)
    client = env.execute_async("in a new stage")
    client.get_job_execution_result().result()
    assert set(found) == set(range(100)) and len(os.listdir(path)) == 2
    assert stages_of(sc, client) == [1, 2]


def kills_once(path, at):
    def function(n):
        if n == at and counted(path) < 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    return function


def test_a_killed_worker_fails_the_job_with_what_spark_says_of_it(sc, tmp_path):
    stream = new_env().from_collection(range(10)).rebalance().map(kills_once(str(tmp_path / "kills"), 5))
    started = time.monotonic()
    with pytest.raises(Exception, match=r"task manager .* is gone: .*Spark says: .*Python worker exited"):
        stream.execute_and_collect(limit=100)
    assert time.monotonic() - started < 20


def test_the_job_of_a_killed_worker_goes_on_in_a_new_stage(sc, tmp_path):
    found = []
    env = restarting()
    env.from_collection(range(10)).rebalance().map(kills_once(str(tmp_path / "kills"), 5)).add_sink(found.append)
    env.execute("after a kill")
    assert set(found) == set(range(10)) and len(pids_of(str(tmp_path / "kills"))) == 2


# ---- cancel


def waits(path):
    def function(n):
        counted(path)
        time.sleep(0.05)
        return n

    return function


def forever():
    while True:
        yield 1


def test_a_running_job_is_cancelled_and_its_stage_ends(sc, tmp_path):
    path = str(tmp_path / "calls")
    env = new_env()
    env.add_source(forever).rebalance().map(waits(path)).print()
    client = env.execute_async("to be cancelled")
    wait_until(lambda: os.path.exists(path) and len(pids_of(path)) == 2)
    client.cancel().result()
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()
    wait_until(lambda: not sc.statusTracker().getActiveJobsIds())


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.2])
def test_a_job_is_cancelled_in_whatever_phase(sc, pause_s):
    env = new_env()
    env.add_source(forever).rebalance().map(lambda n: n).add_sink(lambda n: None)
    client = env.execute_async("to be cancelled early")
    time.sleep(pause_s)
    started = time.monotonic()
    client.cancel().result()
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()
    assert time.monotonic() - started < 20  # Spark looks now and then only whether the task of a worker is cancelled
    wait_until(lambda: not sc.statusTracker().getActiveJobsIds())


def test_a_stage_that_spark_ends_fails_the_job_with_the_reason(sc, tmp_path):
    path = str(tmp_path / "calls")
    env = new_env()
    env.add_source(forever).rebalance().map(waits(path)).print()
    client = env.execute_async("to be ended")
    wait_until(lambda: os.path.exists(path))
    sc.cancelAllJobs()
    with pytest.raises(Exception, match=r"cancelled"):
        client.get_job_execution_result().result()


# ---- nothing is left


def of_worker(part):
    """What the process of a task holds."""
    time.sleep(0.3)  # so that both workers get one
    names = sorted(thread.name for thread in threading.enumerate())
    yield os.getpid(), names, len(os.listdir("/proc/self/fd"))


def test_jobs_leave_nothing_in_workers_nor_in_the_driver(sc):
    def run():
        words = new_env().from_rdd(sc.parallelize([("a", 1), ("b", 2)] * 50, 2), PAIR)
        assert len(words.key_by(key_of, Types.STRING()).reduce(added).execute_and_collect(limit=1_000)) == 100

    def held():
        names = collections.Counter(thread.name for thread in threading.enumerate() if "Dummy" not in thread.name)
        return names, len(os.listdir("/proc/self/fd"))

    run()
    workers = {pid: rest for pid, *rest in sc.parallelize(range(2), 2).mapPartitions(of_worker).collect()}
    threads, descriptors = held()
    for _ in range(19):
        run()
    after = {pid: rest for pid, *rest in sc.parallelize(range(2), 2).mapPartitions(of_worker).collect()}
    assert after == workers, "the workers are the same, with the same threads and files"
    wait_until(lambda: held()[0] == threads)
    assert held()[1] <= descriptors + 2  # py4j opens a connection for each of its threads


# ---- refusals


def test_too_few_slots_are_refused_with_the_numbers(sc):
    env = new_env(parallelism=3)
    env.from_collection([1]).rebalance().map(lambda n: n).print()
    with pytest.raises(
        ValueError,
        match=r"job 'wide' with 3 slots runs 3 tasks at once, but local\[2\] has slots for 2 .*set a parallelism of at "
        r"most 2, start Spark with local\[3\], or set execution.target to 'local'",
    ):
        env.execute("wide")


def test_input_that_no_barrier_stage_can_read_is_refused(sc):
    together = sc.union([sc.parallelize([1], 1), sc.parallelize([2], 1)])
    env = new_env()
    env.from_rdd(together).print()
    with pytest.raises(ValueError, match=r"put together from the 1 of .*put a shuffle between, such as"):
        env.execute()


def test_a_result_of_a_job_is_no_input_of_another_without_a_shuffle(sc):
    env = new_env()
    env.from_rdd(squares(sc)).print()
    with pytest.raises(ValueError, match=r"made in a barrier stage, .*put a shuffle"):
        env.execute()


def test_dynamic_allocation_is_refused():
    settings = {"spark.dynamicAllocation.enabled": "true"}
    context = SimpleNamespace(master="yarn", getConf=lambda: settings)
    graph = SimpleNamespace(vertices=[], settings=SimpleNamespace(job_name="elastic"))
    with pytest.raises(ValueError, match=r"job 'elastic' needs all .*set spark\.dynamicAllocation\.enabled=false"):
        job.check_stage(context, graph, SimpleNamespace(vertices=(), edges=(), is_batch=False, slot_limit=None))


def test_a_program_without_spark_is_told_to_make_one(sc, monkeypatch):
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(RuntimeError, match=r"no SparkContext to run the job in: make one first.*execution.target"):
        active_context()
    connected = SimpleNamespace(SparkSession=SimpleNamespace(getActiveSession=lambda: object()))
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql.connect.session", connected)
    with pytest.raises(RuntimeError, match=r"client of Spark Connect.*spark-submit.*execution.target to 'local'"):
        active_context()


def test_a_stream_may_be_given_to_spark_again_and_another_one_of_its_program(sc, spark):
    """As when a cell of a notebook is run twice, or changed and run again."""
    source = new_env().from_data_frame(spark.range(0, 4, 1, 2))
    numbers = source.map(lambda row: row.id, output_type=Types.LONG())
    for _ in range(2):
        assert sorted(numbers.to_data_frame("n bigint").collect()) == [(0,), (1,), (2,), (3,)]
    assert sorted(source.filter(lambda row: row.id > 1).to_rdd().map(tuple).collect()) == [(2,), (3,)]
    assert numbers.get_execution_environment()._operators == []


def test_a_refused_stream_leaves_the_program_as_it_was(sc):
    env = new_env()
    stream = env.from_rdd(sc.parallelize(range(4), 2))
    found = []
    stream.add_sink(found.append)
    lock = threading.Lock()
    with pytest.raises(TypeError, match="lock"):
        stream.map(lambda n: lock).to_rdd()
    env._operators = [each for each in env._operators if each.name != "Map"]
    env.execute()
    assert sorted(found) == [0, 1, 2, 3]


def test_columns_that_nobody_declared_are_asked_for(sc):
    with pytest.raises(ValueError, match=r"no declared type.*pass to_data_frame\(schema\)"):
        new_env().from_rdd(sc.parallelize([(1, 2)])).to_data_frame()


def test_what_is_neither_rdd_nor_data_frame_is_refused(spark):
    with pytest.raises(TypeError, match="from_rdd takes an RDD, got .*a DataFrame goes to from_data_frame"):
        new_env().from_rdd(spark.range(3))
    with pytest.raises(TypeError, match="from_data_frame takes a DataFrame of pyspark, got .*an RDD goes to from_rdd"):
        new_env().from_data_frame(spark.sparkContext.emptyRDD())


def test_a_program_that_reads_spark_runs_on_no_other_target(sc):
    env = new_env(target="embedded")
    env.from_rdd(sc.parallelize([1])).print()
    with pytest.raises(RuntimeError, match="reads from Spark, so its program runs on Spark only"):
        env.execute()


# ---- what Spark says


def test_the_line_that_says_what_happened_is_found():
    lost = "Job aborted\nExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: killed"
    assert job_stage.summary_of(lost)[0].startswith("ExecutorLostFailure (executor 1")
    crash = "Job aborted due to x\norg.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat a"
    assert job_stage.summary_of(crash) == ("Python worker exited unexpectedly (crashed)", "")


def test_a_worker_that_lacks_flinkbuf_is_not_asked_again(sc):
    text = "Job aborted\nx: Traceback (most recent call last):\n  File x\nRuntimeError: this worker of Spark runs py"
    failure = job_stage.failure_of(Py4JError(text), sc)
    assert not failure.can_restart and failure.message == "this worker of Spark runs py"
    assert isinstance(failure.to_exception(), RuntimeError) and "File x" in failure.text
    chained = text.replace(
        "\nRuntimeError", "\nOSError: x\n\nDuring handling of the above exception, ...:\n\nRuntimeError"
    )
    assert job_stage.failure_of(Py4JError(chained), sc).type_name == "builtins.RuntimeError"
    network = text.replace("RuntimeError: this", "flinkbuf.errors.RemoteTransportError: no way to the driver")
    failure = job_stage.failure_of(Py4JError(network), sc)
    assert failure.can_restart and isinstance(failure.to_exception(), RemoteTransportError)


def test_a_task_that_cannot_reach_the_driver_fails_the_job_with_the_port_to_open(sc, monkeypatch):
    lease = job.listen_for_tasks(sc.getConf())
    monkeypatch.setattr(lease.server, "address", ("127.0.0.1", 9))
    env = new_env()
    env.from_collection([1]).print()
    with pytest.raises(RemoteTransportError, match=r"(?s)127\.0\.0\.1.*9.*spark\.flinkbuf\.driver"):
        env.execute()
    lease.close()
