"""exchange(mode="pipelined"): the blocking exchange's answer while all runs, and a clear end whatever happens."""

import contextlib
import gc
import itertools
import json
import logging
import os
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import BarrierTaskContext, SparkContext, TaskContext

import flinkbuf as fb
from flinkbuf.network.ports import listen
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.spark.exchange import pipelined
from flinkbuf.spark.exchange.arguments import STAGE_USER
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.pipelined import PipelinedTask, _check_consumer, meeting_place_of
from flinkbuf.spark.java import find_java
from flinkbuf.spark.stage import barrier_stage, meeting, stage_runs
from flinkbuf.spark.stage.driver_address import DriverAddress, listen_for_tasks
from flinkbuf.spark.stage.meeting import Meeting, meeting_of
from flinkbuf.spark.stage.stage_progress import SparkStages

pytestmark = pytest.mark.spark

TYPE = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING()])
RECORDS = [(number, f"name {number % 17}") for number in range(1000)]


@pytest.fixture(scope="module")
def data(sc):
    """1000 records in 2 partitions, in order; there are two slots."""
    return sc.parallelize(RECORDS, 2).cache()


def exchange(data, key=1, **options):
    if "partitioner" in options:
        key = None
    return fb.exchange(data, key, **{"type": TYPE, "mode": "pipelined", **options})


def partitions(rdd):
    return within(60, rdd.glom().collect)


def within(seconds, work):
    """Do the work, but do not let it hang the tests, nor keep the slots from those that follow."""
    outcome = {}

    def run():
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        SparkContext._active_spark_context.cancelAllJobs()
        thread.join(10)
        pytest.fail(f"it hangs: not done after {seconds} s")
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def leave(path, text):
    """Write a file that is whole as soon as it is there."""
    draft = path.with_name(f"{path.name}.draft of {os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def wait_until(is_true, seconds=20):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# ---------------------------------------------------------------- the answer


def everything_to_the_last(record, count):
    return count - 1


@pytest.mark.parametrize(
    "partitioner",
    [
        fb.by_key(1),
        fb.by_key(0),
        "global",
        "forward",
        "broadcast",
        "rescale",
        everything_to_the_last,
    ],
    ids=repr,
)
@pytest.mark.parametrize("num_partitions", [1, 2])
def test_it_answers_as_the_blocking_exchange_does(data, partitioner, num_partitions):
    if partitioner == "forward" and num_partitions == 1:
        pytest.skip("forward keeps the number of partitions")
    options = {"partitioner": partitioner, "num_partitions": num_partitions}
    ours = partitions(exchange(data, **options))
    theirs = partitions(fb.exchange(data, type=TYPE, **options))
    assert [sorted(part) for part in ours] == [sorted(part) for part in theirs]


@pytest.mark.parametrize("partitioner", ["rebalance", "shuffle"])
def test_random_partitioners_give_every_partition_its_share(data, partitioner):
    parts = partitions(exchange(data, partitioner=partitioner))
    assert sorted(itertools.chain(*parts)) == RECORDS
    assert min(map(len, parts)) > 400


def test_what_one_partition_sends_to_another_keeps_its_order(data):
    for part in partitions(exchange(data)):
        for producer in range(2):
            numbers = [number for number, _ in part if number // 500 == producer]
            assert numbers == sorted(numbers)
            assert numbers


@pytest.mark.parametrize("part_count", [1, 3, 7])
def test_data_in_another_number_of_partitions_are_brought_into_as_many_as_there_are_tasks(sc, part_count):
    source = sc.parallelize(RECORDS, part_count)
    for partitioner in (fb.by_key(1), "rescale"):
        options = {"partitioner": partitioner, "num_partitions": 2}
        parts = partitions(exchange(source, **options))
        theirs = partitions(fb.exchange(source, type=TYPE, **options))
        assert [sorted(part) for part in parts] == [sorted(part) for part in theirs]
    for part in partitions(exchange(source, num_partitions=2)):
        for share in map(set, partitions(source)):
            own = [record for record in part if record in share]
            assert own == sorted(own)


def test_empty_data_give_empty_partitions(sc):
    assert partitions(exchange(sc.parallelize([], 2))) == [[], []]
    assert partitions(exchange(sc.emptyRDD())) == [[]]
    assert partitions(exchange(sc.parallelize([], 2), type=None)) == [[], []]
    assert sorted(partitions(exchange(sc.parallelize(RECORDS[:1], 2)))) == [[], RECORDS[:1]]


def test_rows_timestamps_and_a_type_left_out_are_as_in_the_blocking_exchange(spark, data, caplog):
    frame = spark.createDataFrame([(1, "JFK"), (2, "BOS")], "id int, origin string").repartition(2)
    rows = within(60, exchange(frame.rdd, "origin", type=frame.schema).collect)
    assert sorted(row.asDict()["origin"] for row in rows) == ["BOS", "JFK"]
    with caplog.at_level(logging.WARNING, "flinkbuf"):
        assert sorted(within(60, exchange(data, type=None).collect)) == RECORDS
    assert "a sample of" in caplog.text


def test_small_buffers_and_little_memory_are_enough(data):
    config = fb.NetworkConfig(
        segment_size=4096, buffers_per_channel=0, floating_buffers_per_gate=0, max_overdraft_buffers_per_gate=0
    )
    assert sorted(within(60, exchange(data, config=config).collect)) == RECORDS


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the command openssl makes the certificate")
def test_the_tasks_may_talk_over_tls(data, tmp_path):
    key, certificate = tmp_path / "all.key", tmp_path / "all.pem"
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=all"
    subprocess.run(["openssl", *command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    config = fb.NetworkConfig(tls=fb.network.TlsConfig(certificate=certificate, key=key, authority=certificate))

    def knock(records):
        """Talk to the data port of this very task, as somebody without a certificate, and as one with it."""
        first = next(records)
        (env,) = pipelined.running.values()
        yield first, [tls_answer(env.address, None), tls_answer(env.address, (certificate, key))]
        for record in records:
            yield record, None

    got = within(60, exchange(data, config=config).mapPartitions(knock).collect)
    assert sorted(record for record, _ in got) == RECORDS
    answers = [answers for _, answers in got if answers is not None]
    assert len(answers) == 2
    for without, with_certificate in answers:
        assert "CERTIFICATE_REQUIRED" in without.upper().replace(" ", "_")
        assert with_certificate == "TLSv1.3"
    of_driver = meeting_of(data.context).server_of(config.tls).address
    assert "CERTIFICATE_REQUIRED" in tls_answer(of_driver, None).upper().replace(" ", "_")
    assert tls_answer(of_driver, (certificate, key)) == "TLSv1.3", "what tasks and driver say is encrypted, too"


def tls_answer(address, certificate):
    """What a server says to a TLS handshake: the version that was agreed on, or why there was none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate)
    try:
        with socket.create_connection(address, 10) as plain, context.wrap_socket(plain) as connection:
            connection.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                connection.recv(1)  # a server that misses the certificate says so after the handshake
            return connection.version()
    except OSError as error:
        return str(error)


def test_it_may_stand_before_a_shuffle_and_after_one(data):
    counts = (
        exchange(data.repartition(2)).map(lambda record: (record[1], 1)).reduceByKey(lambda one, other: one + other)
    )
    assert sum(dict(within(60, counts.collect)).values()) == 1000


FOUR_TASKS = """
    import json, sys
    import flinkbuf as fb
    from pyspark import SparkConf, SparkContext

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false",
                "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                "spark.pyspark.python": sys.executable}
    sc = SparkContext(conf=SparkConf().setMaster("local[4]").setAppName("test").setAll(settings.items()))
    records = [(number, "name %d" % (number % 17)) for number in range(20_000)]
    found = {}
    for part_count in (4, 6, 2):
        data = sc.parallelize(records, part_count)
        for name in ("by_key", "rebalance", "rescale", "shuffle", "global", "broadcast", "forward"):
            # Other numbers of partitions are brought to the four tasks first, whatever follows; but for "rescale".
            if part_count != 4 and name not in ("by_key", "rebalance", "rescale"):
                continue
            partitioner = fb.by_key(1) if name == "by_key" else name
            options = {"partitioner": partitioner, "type": "n bigint, s string", "num_partitions": 4}
            moved = (fb.exchange(data, mode=mode, **options) for mode in ("pipelined", "blocking"))
            ours, theirs = ([sorted(map(tuple, part)) for part in each.glom().collect()] for each in moved)
            whole = sorted(sum(ours, []))
            wanted = sorted(records * (4 if name == "broadcast" else 1))
            found[f"{name} of {part_count}"] = [whole == wanted, ours == theirs, [len(part) for part in ours]]
    print(json.dumps(found))
    sc.stop()
"""


@pytest.mark.long
def test_four_tasks_answer_as_the_blocking_exchange_does(tmp_path):
    home = str(Path(fb.__file__).parent.parent)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
        "JAVA_HOME": str(find_java()),
        "PYTHONPATH": home,
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FOUR_TASKS)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for name, (is_whole, is_equal, sizes) in json.loads(done.stdout.splitlines()[-1]).items():
        assert is_whole, name
        if name.split()[0] in ("rebalance", "shuffle") or name == "rescale of 2":
            assert max(sizes) - min(sizes) < 400, (name, sizes)
        else:
            assert is_equal, name


# ---------------------------------------------------------------- while it runs


def test_first_results_leave_before_the_last_record_is_read(sc, tmp_path):
    seen = tmp_path / "seen"

    def source(index, _):
        yield index, "early"
        deadline = time.monotonic() + 30
        while not seen.exists():
            assert time.monotonic() < deadline, "the first record did not arrive while the source was not at its end"
            time.sleep(0.01)
        yield index, "late"

    def take(records):
        for record in records:
            seen.touch()
            yield record

    moved = exchange(sc.parallelize(range(2), 2).mapPartitionsWithIndex(source), partitioner="broadcast")
    assert sorted(within(60, moved.mapPartitions(take).collect)) == sorted(
        [(index, when) for index in range(2) for when in ("early", "late")] * 2
    )


def test_a_slow_consumer_holds_the_producers_back_and_memory_stays_bounded(sc, tmp_path):
    """Task 0 takes nothing until no more is made: not all that could be made, but what fits the buffers."""

    def source(index, _):
        for number in range(200_000):
            leave(tmp_path / f"made {index}", str(number)) if number % 100 == 0 else None
            yield number, "x" * 100

    def take(index, records):
        made = -1
        if index == 0:
            next(records)
            wait_until((tmp_path / "made 1").exists)
            while made != (made := int((tmp_path / "made 1").read_text())):
                time.sleep(1)
        yield made, sum(1 for _ in records)

    moved = exchange(sc.parallelize(range(2), 2).mapPartitionsWithIndex(source), partitioner="global")
    (made, count), (_, nothing) = within(120, moved.mapPartitionsWithIndex(take).collect)
    assert (count, nothing) == (399_999, 0)
    segments = 64  # more than partition and gate of both tasks have
    assert made < segments * 32768 / 110


def test_every_run_is_summed_up_in_the_log_and_in_a_table(data, sc, caplog):
    moved = exchange(data)
    with caplog.at_level(logging.INFO, "flinkbuf"):
        within(60, moved.count)
        within(60, moved.count)
    summaries = fb.spark.exchange_summaries()[-2:]
    assert summaries == fb.spark.exchange_summaries(sc)[-2:]
    assert len({summary.exchange_id for summary in summaries}) == 1
    for summary in summaries:
        assert str(summary) in caplog.text
        assert summary.total("records_in") == summary.total("records_out") == 1000
        assert summary.total("bytes_in") == summary.total("bytes_out") > 0
        assert all(task.total_ms > 0 for task in summary.tasks)
        assert len(summary.table().splitlines()) == 3


def test_a_run_can_be_looked_at_where_the_program_asks_for_pages(data, sc, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("FLINKBUF_PROPERTIES", "rest.enabled: true")

    def take(index, records):
        yield next(records)
        wait_until((tmp_path / "seen").exists)
        yield from records

    moved = exchange(data).mapPartitionsWithIndex(take)
    with caplog.at_level(logging.INFO, "flinkbuf"):
        counts = []
        counting = threading.Thread(target=lambda: counts.append(moved.count()))
        counting.start()
        wait_until(lambda: "can be looked at" in caplog.text)
        (address, job_id) = re.search(r"exchange \w+ can be looked at: (http://\S+)/#/job/(\w+)", caplog.text).groups()

        def job():
            with urllib.request.urlopen(f"{address}/jobs/{job_id}", timeout=20) as answer:
                return json.load(answer)

        wait_until(lambda: job()["state"] == "RUNNING" and job()["vertices"][0]["status"] == "RUNNING")
        (vertex,) = job()["vertices"]
        assert vertex["name"].startswith("exchange ") and vertex["parallelism"] == 2
        (tmp_path / "seen").touch()
        counting.join(60)
    assert counts == [1000]
    wait_until(lambda: job()["state"] == "FINISHED")
    assert job()["vertices"][0]["metrics"]["read-records"] == 1000


def test_two_jobs_at_once_do_not_disturb_each_other(sc):
    """One partition each, so that both have a slot; and two jobs over one and the same exchange."""

    def slow(record):
        time.sleep(0.001)
        return record

    one = exchange(sc.parallelize(RECORDS, 1).map(slow))
    two = exchange(sc.parallelize(RECORDS[:500], 1).map(slow))
    results = [None] * 3

    def run(index, rdd):
        results[index] = rdd.collect()

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate((one, two, one))]

    def run_all():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    within(60, run_all)
    assert results == [RECORDS, RECORDS[:500], RECORDS]


# ---------------------------------------------------------------- who stops early


STOPS = {
    "after some": lambda records: itertools.islice(records, 5),
    "after one": lambda records: [next(records)],
    "before the first": lambda records: [],
    "without a look": lambda records: iter(()),
    "by close": lambda records: (records.close(), [])[1],
}


@pytest.mark.parametrize("name", STOPS)
def test_one_who_stops_early_still_sends_the_others_what_is_theirs(sc, name):
    stop = STOPS[name]
    count = 100_000
    source = sc.parallelize(range(2), 2).flatMap(lambda index: ((number, "x" * 20) for number in range(count)))
    moved = exchange(source, partitioner=lambda record, channels: record[0] % channels)

    def take(index, records):
        return stop(records) if index == 0 else records

    parts = partitions(moved.mapPartitionsWithIndex(take))
    assert len(parts[0]) <= 5
    assert [number for number, _ in sorted(parts[1])] == sorted([*range(1, count, 2)] * 2)


class Head:
    """Looks at the first record; as it holds a method of its own, only the garbage collector ends it."""

    def __init__(self, records):
        self.records = records
        self.read = self.look

    def look(self):
        return next(self.records)


def let_go_in_a_cycle(records):
    head = Head(records)
    del records
    yield head.read()
    del head
    gc.collect()  # which comes by itself, sooner or later
    yield 0, "after"


def let_go_at_the_end(records):
    head = Head(records)
    return [head.read()]


def let_go_in_a_thread_that_goes_on(records):
    given = [records]
    del records
    taken = queue.SimpleQueue()

    def take():
        records = given.pop()
        taken.put(next(records))
        del records

    threading.Thread(target=take).start()
    return [taken.get()]


def let_go_in_a_thread(records):
    taken = queue.SimpleQueue()
    given = [records]
    del records

    def take():
        records = given.pop()
        taken.put(next(records))
        del records
        taken.put(None)

    thread = threading.Thread(target=take)
    thread.start()
    yield from iter(taken.get, None)
    thread.join()


@pytest.mark.parametrize(
    "let_go", [let_go_in_a_cycle, let_go_at_the_end, let_go_in_a_thread, let_go_in_a_thread_that_goes_on]
)
def test_whoever_lets_go_of_the_records_the_others_get_theirs(sc, let_go):
    count = 20_000

    def source(index, _):
        for number in range(count):
            yield number, "x" * 20

    def take(index, records):
        given = [records]
        del records
        return given.pop() if index else let_go(given.pop())

    moved = exchange(sc.parallelize(range(2), 2).mapPartitionsWithIndex(source), partitioner="rebalance")
    assert len(partitions(moved.mapPartitionsWithIndex(take))[1]) == count


@pytest.fixture
def keen_looks(monkeypatch):
    """The driver looks after its runs five times a second."""
    monkeypatch.setattr(stage_runs, "LOOK_MS", 200)


@pytest.mark.usefixtures("keen_looks")
@pytest.mark.parametrize("let_go", [let_go_at_the_end, let_go_in_a_thread_that_goes_on])
def test_the_rest_may_take_its_time_after_the_end_of_its_task(sc, monkeypatch, let_go):
    monkeypatch.setattr(stage_runs, "LOOK_MS", 50)

    def source(index, _):
        for number in range(1500):
            time.sleep(0.001 if number > 100 else 0)
            yield number, "x"

    def take(index, records):
        given = [records]
        del records
        return given.pop() if index else let_go(given.pop())

    moved = exchange(sc.parallelize(range(2), 2).mapPartitionsWithIndex(source), partitioner="rebalance")
    assert len(partitions(moved.mapPartitionsWithIndex(take))[1]) == 1500


def test_a_consumer_that_stops_and_holds_the_records_keeps_nobody_waiting(sc, data):
    source = sc.parallelize(range(2), 2).flatMap(lambda index: ((number, "x" * 20) for number in range(100_000)))

    def take(index, records):
        if index:
            return records
        sys.flinkbuf_test_holds = records
        return [next(records)]

    first, second = partitions(exchange(source, partitioner="rebalance").mapPartitionsWithIndex(take))
    assert (len(first), len(second)) == (1, 100_000)
    assert within(60, exchange(data).count) == len(RECORDS), "and the next one runs"


def test_what_is_left_is_made_as_if_the_task_still_ran(sc):
    def source(index, _):
        for number in range(1000):
            assert TaskContext.get().partitionId() == BarrierTaskContext.get().partitionId() == index
            yield number, "x"

    def take(index, records):
        return records if index else []

    moved = exchange(sc.parallelize(range(2), 2).mapPartitionsWithIndex(source), partitioner="rebalance")
    assert [len(part) for part in partitions(moved.mapPartitionsWithIndex(take))] == [0, 1000]


def test_all_may_stop_early(data):
    moved = exchange(data)
    assert [len(part) for part in partitions(moved.mapPartitions(lambda records: itertools.islice(records, 3)))] == [
        3,
        3,
    ]
    assert partitions(moved.mapPartitions(lambda records: [])) == [[], []]


def test_take_of_one_partition_is_an_early_stop(sc):
    source = sc.parallelize([0], 1).flatMap(lambda _: ((number, "x") for number in range(100_000)))
    assert within(60, lambda: exchange(source).take(3)) == [(0, "x"), (1, "x"), (2, "x")]


# ---------------------------------------------------------------- who fails


class Survivor:
    """Passes the records on; what ends them is written to a file, with the seconds since the other's end."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, index, records):
        try:
            yield from records
        except Exception as error:
            gone = float((self.folder / "gone").read_text())
            leave(self.folder / f"task {index}", json.dumps([time.time() - gone, type(error).__name__, str(error)]))
            raise

    def leave(self):
        leave(self.folder / "gone", str(time.time()))

    def report(self, index):
        wait_until((self.folder / f"task {index}").exists)
        return json.loads((self.folder / f"task {index}").read_text())


def endless(sc):
    """Records for a minute and more, if nobody ends it."""

    def source(_):
        for number in range(60_000):
            time.sleep(0.001)
            yield number, "x"

    return sc.parallelize(range(2), 2).mapPartitions(source)


WAYS_TO_GO = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "exception": lambda: json.loads("no JSON"),
}


@pytest.mark.parametrize("way", WAYS_TO_GO)
@pytest.mark.parametrize("where", ["source", "taker", "taker, a function"])
def test_when_a_task_is_gone_the_others_fail_within_five_seconds_and_name_it(sc, tmp_path, way, where):
    survivor, go = Survivor(tmp_path), WAYS_TO_GO[way]

    def end(records):
        for count, record in enumerate(records):
            if count == 100:
                survivor.leave()
                go()
            yield record

    def source(index, records):
        return end(records) if where == "source" and index == 1 else records

    def take(index, records):
        if index == 1 and where == "taker, a function":
            return list(end(records))
        return end(records) if index == 1 and where == "taker" else survivor(index, records)

    moved = exchange(endless(sc).mapPartitionsWithIndex(source), partitioner="rebalance")
    started = time.monotonic()
    with pytest.raises(Exception, match="PythonException|Python worker exited|PeerFailedError") as failure:
        within(50, moved.mapPartitionsWithIndex(take).collect)
    assert time.monotonic() - started < 45
    seconds, name, text = survivor.report(0)
    assert seconds < 5
    assert name == "PeerFailedError"
    assert "task 0: task 1 (process " in text
    if way == "exception":
        assert "JSONDecodeError" in str(failure.value), "the user sees the cause"
    if way == "exception" and where == "source":
        assert "JSONDecodeError: Expecting value" in text
    assert sorted(within(60, exchange(sc.parallelize(RECORDS, 2)).collect)) == RECORDS, "and the next one runs"


def test_a_record_that_does_not_fit_is_the_error_that_the_user_sees(sc, tmp_path):
    survivor = Survivor(tmp_path)

    def source(index, records):
        yield from itertools.islice(records, 300 if index else None)
        survivor.leave()
        yield "late", 3.5

    moved = exchange(endless(sc).mapPartitionsWithIndex(source), partitioner="rebalance").mapPartitionsWithIndex(
        survivor
    )
    with pytest.raises(Exception, match=r"TypeError: producer 1, record 300: field 'f0'") as failure:
        within(50, moved.collect)
    assert "PeerFailedError" not in str(failure.value).split("Driver stacktrace")[0]
    assert "failed with TypeError: producer 1, record 300" in survivor.report(0)[2]


def test_a_sampled_type_that_does_not_fit_is_explained(sc):
    mixed = sc.parallelize(range(5000), 2).map(lambda number: (number, "late" if number == 2400 else number / 2))
    with pytest.raises(Exception, match=r"declare type= so that it fits every record"):
        within(60, exchange(mixed, 0, type=None).collect)


def test_an_error_of_the_users_code_comes_through_unchanged(sc):
    def fail(number):
        if number == 700:
            raise TypeError("my own message, record 1500")
        return number, "fine"

    with pytest.raises(Exception, match=r"TypeError: my own message, record 1500(\n|$)"):
        within(60, exchange(sc.parallelize(range(1000), 2).map(fail)).collect)


def test_where_spark_itself_takes_no_more_the_others_are_told_what_may_have_happened(spark, sc):
    source = sc.parallelize(range(2), 2).flatMap(lambda index: ((number, "x" * 20) for number in range(300_000)))
    moved = exchange(source, partitioner="global")  # task 1 has none of the five that are enough
    frame = spark.createDataFrame(moved, "number long, name string")
    with pytest.raises(Exception, match="Spark wanted no more of its records, as for the limit"):
        within(90, frame.limit(5).repartition(2).collect)
    between = spark.createDataFrame(moved.repartition(2), "number long, name string")
    assert len(within(90, between.limit(5).repartition(2).collect)) == 5


@pytest.mark.usefixtures("keen_looks")
def test_where_spark_takes_no_more_while_the_task_waits_for_others_these_are_told_what_may_have_happened(spark, sc):
    """Task 0 had the five that are enough and waits for task 1, which has none: it never learns of its own end."""

    def source(index, _):
        yield from ((2 * number, "x") for number in range(20_000) if index == 0)
        if index == 0:
            return
        for number in range(20):
            yield 2 * number + 1, "to task 1 itself"
            time.sleep(2)

    moved = exchange(
        sc.parallelize(range(2), 2).mapPartitionsWithIndex(source), partitioner=lambda record, count: record[0] % 2
    )
    with pytest.raises(Exception, match=r"Spark wanted no more of (its|their) records, as for the limit\(\)"):
        within(40, spark.createDataFrame(moved, "number long, name string").limit(5).repartition(2).collect)


def test_an_error_of_the_code_that_reads_the_records_is_all_that_is_said(data, tmp_path):
    said = tmp_path / "said"

    def take_one_and_fail(records):
        sys.unraisablehook = lambda unraisable: said.write_text(repr(unraisable.exc_value))
        next(records)
        raise LookupError("my own")

    with pytest.raises(Exception, match="LookupError: my own"):
        within(60, exchange(data).mapPartitions(take_one_and_fail).collect)
    assert not said.exists(), said.read_text()


def test_a_task_that_fails_before_it_joins_does_not_leave_the_others_waiting(sc):
    def source(index, records):
        if index == 1:
            raise OSError("no input")
        return records

    with pytest.raises(Exception, match="OSError: no input"):
        within(40, exchange(sc.parallelize(RECORDS, 2).mapPartitionsWithIndex(source)).collect)


def test_a_failed_result_stage_is_not_run_again_but_one_before_a_shuffle_is(sc, tmp_path):
    def fail_once(index, records):
        for record in records:
            marker = tmp_path / "failed"
            if index == 1 and not marker.exists():
                marker.touch()
                raise OSError("once")
            yield record

    moved = exchange(sc.parallelize(RECORDS, 2)).mapPartitionsWithIndex(fail_once)
    with pytest.raises(Exception, match="(?s)Could not recover from a failed barrier ResultStage.*once"):
        within(60, moved.collect)
    (tmp_path / "failed").unlink()
    assert sorted(within(60, moved.map(lambda record: (record[0], record)).partitionBy(2).values().collect)) == RECORDS


def test_a_function_that_fails_twice_in_the_same_way_is_not_tried_a_third_time(sc, tmp_path):
    def fail(index, records):
        for record in records:
            if index == 1:
                (tmp_path / f"attempt {TaskContext.get().taskAttemptId()}").touch()
                raise OSError("always")
            yield record

    moved = exchange(sc.parallelize(RECORDS, 2).mapPartitionsWithIndex(fail))
    # Now and then Spark begins an attempt in part, which the tasks refuse; the second time it makes no more of them.
    ends = "failed with OSError: always, and so did one of the attempt before|Spark has started 1 of its 2 tasks again"
    with pytest.raises(Exception, match=f"(?s){ends}"):
        within(60, moved.map(lambda record: (record[0], record)).partitionBy(2).collect)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_stage_whose_task_failed_before_it_joined_is_started_again_once(sc, tmp_path):
    def fail_once(index, records):
        (tmp_path / f"task {index} of attempt {TaskContext.get().taskAttemptId()}").touch()
        if index == 0 and len(list(tmp_path.glob("task 0 *"))) == 1:
            time.sleep(0.3)  # the other one has joined by then, more often than not
            raise OSError("once")
        return iter(RECORDS[index::2])

    moved = exchange(sc.parallelize(range(2), 2).mapPartitionsWithIndex(fail_once))
    shuffled = moved.map(lambda record: (record[0], record)).partitionBy(2)
    assert sorted(within(90, shuffled.values().collect)) == RECORDS
    assert len(list(tmp_path.iterdir())) == 4, "both tasks, twice"


def test_spark_says_which_attempt_a_task_is_of(sc, tmp_path):
    def note(index, records):
        context = TaskContext.get()
        (tmp_path / f"{context.taskAttemptId()} {index} {context.stageId()}").touch()
        if len(list(tmp_path.glob(f"* {index} *"))) == 1:
            wait_until(lambda: list(tmp_path.glob(f"* {1 - index} *")), 60)
            raise OSError("once")  # both of them: the output of one that ends well meanwhile would be kept
        return records

    noted = sc.parallelize(RECORDS, 2).barrier().mapPartitionsWithIndex(note)
    assert within(60, noted.partitionBy(2).count) == len(RECORDS)
    tasks, _, stages = zip(*(map(int, path.name.split()) for path in tmp_path.iterdir()), strict=True)
    known = SparkStages(sc)
    assert [known.attempt_of(stages[0], task, 2).number for task in sorted(tasks)] == [0, 0, 1, 1]
    assert known.attempt_of(stages[0], max(tasks) + 1, 2) is known.attempt_of(10**6, max(tasks), 2) is None


def part_of_spark(sc, name):
    """By its field: py4j looks at all methods of a class, and one of SparkEnv's needs what PySpark 4.3 leaves out."""
    field = sc._jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField(name)
    field.setAccessible(True)
    return field.get(sc._jsc.sc().env())


def test_a_stage_that_spark_starts_again_in_part_is_started_whole(sc, tmp_path):
    """As after the loss of an executor, or where one task succeeds just when another one fails."""

    def note(index, records):
        (tmp_path / f"task {index} of attempt {TaskContext.get().taskAttemptId()}").touch()
        return records

    moved = exchange(sc.parallelize(RECORDS, 2)).mapPartitionsWithIndex(note)
    shuffled = moved.map(lambda record: (record[0], record)).partitionBy(2)
    assert sorted(within(60, shuffled.values().collect)) == RECORDS
    shuffle = shuffled._jrdd.rdd().dependencies().apply(0).rdd().dependencies().apply(0).shuffleId()
    location = part_of_spark(sc, "blockManager").blockManagerId()
    part_of_spark(sc, "mapOutputTracker").unregisterMapOutput(shuffle, 1, location)
    assert sorted(within(60, shuffled.values().collect)) == RECORDS
    assert len(list(tmp_path.iterdir())) == 4, "both tasks, twice: the attempt with one of them did not get that far"


@pytest.mark.usefixtures("keen_looks")
def test_a_cache_that_has_lost_a_partition_is_an_error_that_says_so(sc, data):
    result = exchange(data).persist()
    try:
        assert within(60, result.count) == len(RECORDS)
        part_of_spark(sc, "blockManager").removeBlock(sc._jvm.org.apache.spark.storage.RDDBlockId(result.id(), 0), True)
        with pytest.raises(Exception, match="1 of the 2 tasks ended without taking part.*cache") as failure:
            within(60, result.count)
        assert "unpersist" in str(failure.value)
    finally:
        result.unpersist(blocking=True)
    assert within(60, result.count) == len(RECORDS)


def test_a_cancelled_job_ends_its_workers_and_the_next_one_runs(sc, tmp_path):
    def take(index, records):
        leave(tmp_path / f"process of {index}", str(os.getpid()))
        return records

    def run():
        sc.setJobGroup("to be cancelled", "", interruptOnCancel=True)
        with pytest.raises(Py4JJavaError):
            exchange(endless(sc), partitioner="rebalance").mapPartitionsWithIndex(take).collect()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    paths = [tmp_path / f"process of {index}" for index in range(2)]
    wait_until(lambda: all(path.exists() for path in paths))
    pids = [int(path.read_text()) for path in paths]
    sc.cancelJobGroup("to be cancelled")
    thread.join(20)
    assert not thread.is_alive()
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    assert sorted(within(60, exchange(sc.parallelize(RECORDS, 2)).collect)) == RECORDS


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---------------------------------------------------------------- what is left behind


def footprint(records):
    """What this worker process holds: threads, sockets, address space."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(descriptor))
        except OSError:
            continue
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return records, {
        "pid": os.getpid(),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "sockets": sum(link.startswith("socket:") for link in links),
        "others": sum("eventfd" in link or "eventpoll" in link or "flinkbuf" in link for link in links),
        "bytes": pages * 4096,
    }


def measure(sc):
    held = within(60, sc.parallelize(range(2), 2).mapPartitions(lambda it: [footprint(len(list(it)))[1]]).collect)
    return {one.pop("pid"): one for one in held}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")
def test_workers_that_are_used_again_keep_nothing_of_an_exchange(sc, data):
    def stop_one(index, records):
        return [] if index else records

    def some_exchanges(count):
        for number in range(count):
            moved = exchange(data)
            within(60, (moved.mapPartitionsWithIndex(stop_one) if number % 2 else moved).count)

    some_exchanges(4)
    before = measure(sc)
    some_exchanges(20)
    after = measure(sc)
    same = before.keys() & after.keys()
    assert same, "the workers were used again"
    for pid in same:
        assert after[pid].pop("bytes") - before[pid].pop("bytes") < 8e6  # the buffers of 20 exchanges are 20 MB
        assert after[pid] == before[pid]


def test_the_driver_has_one_server_and_one_thread_that_asks_spark_for_all_exchanges(sc, data):
    def threads():
        return {thread for thread in threading.enumerate() if thread.name.startswith(("flinkbuf", "job exchange"))}

    within(60, exchange(data).count)
    wait_until(lambda: {thread.name for thread in threads()} == {"flinkbuf-control", "flinkbuf-stages"})
    before = threads()
    for _ in range(3):
        within(60, exchange(data).count)
    wait_until(lambda: threads() == before)
    assert [thread.name for thread in before].count("flinkbuf-stages") == 1
    assert meeting_of(sc) is meeting_of(sc)


# ---------------------------------------------------------------- the way to the driver


def test_a_task_that_cannot_reach_the_driver_says_what_to_open_and_what_to_set(sc, data):
    with listen("127.0.0.1", 0) as probe:
        nobody = probe.getsockname()
    write = WriteTask(77, TYPE, as_partitioner("rebalance"), 2, 2)
    task = PipelinedTask(write, *meeting_place_of(sc, write))
    task = replace(task, driver=replace(task.driver, address=nobody))
    with pytest.raises(Py4JJavaError) as failure:
        within(60, data.barrier().mapPartitionsWithIndex(task).collect)
    host, port = nobody
    text = " ".join(str(failure.value).split())
    assert re.search(
        rf"RemoteTransportError: exchange 0{{14}}4d, task [01]: .*cannot reach the driver at {host}:{port}", text
    )
    assert f"open TCP port {port} of {host}" in text
    for setting in ("driver.port", "driver.host", "driver.bindAddress"):
        assert f"spark.flinkbuf.{setting}" in text


def test_if_one_task_cannot_reach_the_driver_all_end_and_say_which_and_why(sc, data, tmp_path, monkeypatch):
    monkeypatch.setattr(stage_runs, "LOOK_MS", 20)  # Spark kills the other one's process after two seconds
    with listen("127.0.0.1", 0) as probe:
        nobody = probe.getsockname()
    write = WriteTask(77, TYPE, as_partitioner("rebalance"), 2, 2)
    task = PipelinedTask(write, *meeting_place_of(sc, write))

    def run(index, records):
        try:
            if index == 1:
                wait_until((tmp_path / "the other has come").exists, 60)  # Spark may kill it before it has begun
                return replace(task, driver=replace(task.driver, address=nobody))(index, records)
            return task(index, records)
        except fb.errors.PeerFailedError as error:
            leave(tmp_path / f"task {index}", str(error))
            raise

    def tell_of_the_other():
        known = meeting_of(sc).runs._runs
        wait_until(lambda: any(write.name in group_id for group_id, _ in list(known)), 60)
        leave(tmp_path / "the other has come", "")

    teller = threading.Thread(target=tell_of_the_other)
    teller.start()
    with pytest.raises(Py4JJavaError, match="cannot reach the driver"):
        within(60, data.barrier().mapPartitionsWithIndex(run).collect)
    teller.join()
    wait_until((tmp_path / "task 0").exists)
    assert "had not come yet, failed with" in (tmp_path / "task 0").read_text()
    assert f"cannot reach the driver at {nobody[0]}:{nobody[1]}" in (tmp_path / "task 0").read_text()


def test_a_driver_that_cannot_listen_says_so_before_anything_starts(data, monkeypatch):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        conf = {"spark.driver.host": "127.0.0.1", "spark.flinkbuf.driver.port": f"{port},{port}"}
        deaf = Meeting(lambda tls: listen_for_tasks(conf, tls), SparkStages(data.context))
        monkeypatch.setattr(meeting, "_by_owner", {data.context: deaf})
        with pytest.raises(OSError, match=r"none of the 2 ports of spark\.flinkbuf\.driver\.port can be listened at"):
            exchange(data)
    deaf.close()


def test_a_task_may_listen_at_another_address_than_it_is_known_by(sc, data):
    write = WriteTask(78, TYPE, as_partitioner("rebalance"), 2, 2)
    task = PipelinedTask(write, *meeting_place_of(sc, write), bind_host="0.0.0.0")
    assert sorted(within(60, data.barrier().mapPartitionsWithIndex(task).collect)) == RECORDS


def test_the_secret_is_not_shown():
    address = DriverAddress(("127.0.0.1", 7000), "exchange", b"do not show")
    task = PipelinedTask(WriteTask(7, TYPE, as_partitioner("global"), 1, 1), address, None)
    assert "do not show" not in repr(task)


# ---------------------------------------------------------------- before it starts


def test_more_tasks_than_slots_are_refused_with_the_numbers(sc):
    with pytest.raises(
        ValueError,
        match=r"with 3 partitions runs 3 tasks at once, but local\[2\] has slots for 2 .*"
        r"pass num_partitions=2, start Spark with local\[3\], or use mode='blocking'",
    ):
        exchange(sc.parallelize(RECORDS, 3))
    assert sorted(within(60, exchange(sc.parallelize(RECORDS, 3), num_partitions=2).collect)) == RECORDS


def test_the_slots_are_asked_for_before_the_sample_is_taken(sc):
    def never(record):
        raise AssertionError("a job ran")

    with pytest.raises(ValueError, match="slots for 2"):
        exchange(sc.parallelize(RECORDS, 3).map(never), type=None)


def test_dynamic_allocation_is_refused_where_spark_refuses_it():
    def context(master, **settings):
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        return SimpleNamespace(master=master, getConf=lambda: settings)

    with pytest.raises(ValueError, match=r"set spark\.dynamicAllocation\.enabled=false for this application"):
        barrier_stage.check_allocation(context("yarn", spark_dynamicAllocation_enabled="true"), STAGE_USER)
    barrier_stage.check_allocation(context("local[2]", spark_dynamicAllocation_enabled="true"), STAGE_USER)
    barrier_stage.check_allocation(context("yarn"), STAGE_USER)


def executor(number, came, went=None, cores=2):
    """What Spark's status store says of one."""

    def time_of(seconds):
        return SimpleNamespace(getTime=lambda: int(1000 * seconds))

    removed = SimpleNamespace(isDefined=lambda: went is not None, get=lambda: time_of(went))
    return SimpleNamespace(
        id=lambda: number, addTime=lambda: time_of(came), removeTime=lambda: removed, totalCores=lambda: cores
    )


def cluster(age, executors=(), master="spark://host", **conf):
    """A SparkContext on a cluster that started `age` seconds ago, and data of its."""
    found = SimpleNamespace(size=lambda: len(executors), apply=executors.__getitem__)
    store = SimpleNamespace(executorList=lambda only_active: found)
    context = SimpleNamespace(
        master=master,
        startTime=(time.time() - age) * 1000,
        getConf=lambda: {f"spark.{name.replace('_', '.')}": value for name, value in conf.items()},
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)),
    )
    return SimpleNamespace(context=context)


@pytest.fixture
def slots_as_time_goes_on(monkeypatch):
    """A function that says how many slots Spark will count, one look after the other."""
    monkeypatch.setattr(barrier_stage, "_LOOK_S", 0.001)
    monkeypatch.setattr(barrier_stage, "REPLACEMENT_S", 0.2)

    def are(*slots):
        looks = itertools.chain(slots, itertools.repeat(slots[-1]))
        monkeypatch.setattr(barrier_stage, "slot_count", lambda data: next(looks))

    return are


LOST_ONE = [executor("driver", 0, cores=8), executor("0", 0, went=10_000), executor("1", 0)]


def test_executors_that_are_on_their_way_are_waited_for(slots_as_time_goes_on):
    slots_as_time_goes_on(0, 1, 4)
    barrier_stage.check_slots(cluster(age=0), 4, STAGE_USER)


def test_a_lost_executor_is_waited_for_however_old_the_context_is(slots_as_time_goes_on, caplog):
    slots_as_time_goes_on(2, 2, 4)
    barrier_stage.check_slots(cluster(10_800, LOST_ONE), 4, STAGE_USER)
    assert "has slots for 2 tasks at once where 4 are needed and 4 are to be expected; waiting" in caplog.text
    slots_as_time_goes_on(0, 4)
    barrier_stage.check_slots(cluster(10_800, executor_instances="2", executor_cores="4", task_cpus="2"), 4, STAGE_USER)
    slots_as_time_goes_on(2)
    with pytest.raises(ValueError, match="has slots for 2 .*give the application more executors or cores"):
        barrier_stage.check_slots(cluster(10_800, LOST_ONE), 4, STAGE_USER)  # it never comes back


@pytest.mark.parametrize(
    "settings",
    [
        {"cores_max": "4"},
        {"cores_max": "9", "executor_cores": "4", "task_cpus": "2"},
        {"master": "local-cluster[2,2,1024]"},
    ],
)
def test_executors_that_take_long_to_start_are_waited_for(settings, slots_as_time_goes_on):
    first_of_two = [executor("0", 20_000, cores=2)]
    slots_as_time_goes_on(2, 2, 4)
    barrier_stage.check_slots(cluster(31, first_of_two, **settings), 4, STAGE_USER)
    slots_as_time_goes_on(2)
    with pytest.raises(ValueError, match="has slots for 2 "):
        barrier_stage.check_slots(cluster(31, first_of_two, **settings), 4, STAGE_USER)  # the second never comes


def test_what_a_cluster_never_had_is_refused_at_once(slots_as_time_goes_on, monkeypatch, caplog):
    slots_as_time_goes_on(2)
    monkeypatch.setattr(barrier_stage, "REPLACEMENT_S", 60.0)
    replaced = [executor("0", 0, went=10), executor("1", 0), executor("2", 20)]  # there were never more than 4 at once
    started = time.monotonic()
    for executors, task_count in ((LOST_ONE, 5), (replaced, 5), ([], 3)):
        with pytest.raises(ValueError, match="give the application more executors or cores"):
            barrier_stage.check_slots(cluster(10_800, executors), task_count, STAGE_USER)
    assert time.monotonic() - started < 20
    assert not caplog.text


def test_slots_are_counted_as_spark_counts_them(sc, data):
    assert barrier_stage.slot_count(data) == 2


def test_data_that_spark_cannot_make_in_a_barrier_stage_are_refused_with_the_way_out(sc, data):
    one = sc.parallelize(RECORDS, 1)
    for wrong in (one.union(one), sc.parallelize(RECORDS, 4).coalesce(2), one.union(one).map(tuple).cache()):
        with pytest.raises(ValueError, match=r"put together from the \d of .*such as data\.repartition\(2\)"):
            exchange(wrong)
    assert len(within(60, exchange(one.union(one).repartition(2)).collect)) == 2000


def test_one_pipelined_exchange_does_not_feed_another_without_a_shuffle_between(data):
    first = exchange(data)
    for wrong in (first, first.map(tuple)):
        with pytest.raises(ValueError, match="the data are made in a barrier stage, such as that of another pipelined"):
            exchange(wrong)
    for between in (first.repartition(2), fb.exchange(first, 0, type=TYPE)):
        assert sorted(within(60, exchange(between).collect)) == RECORDS


# ---------------------------------------------------------------- who reads the records


def test_a_consumer_that_fails_is_told_from_one_that_has_enough():
    outcome = []

    def results():
        handled = sys.exc_info()[1]
        try:
            yield 1
            yield 2
        except GeneratorExit as stop:
            try:
                _check_consumer(stop, handled)
            except fb.errors.PeerFailedError as error:
                outcome.append(str(error))
            else:
                outcome.append("enough")

    def fail_and_close():
        generator = results()
        next(generator)
        try:
            raise KeyError("mine")
        except KeyError:
            generator.close()

    next(results())  # dropped
    fail_and_close()
    generator = results()
    next(generator)
    generator.close()
    try:
        raise OSError("handled before it began")
    except OSError:
        next(results())
    assert outcome == ["enough", "the code that reads its records failed with KeyError: 'mine'", "enough", "enough"]
