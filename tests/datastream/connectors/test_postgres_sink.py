"""Rows into a real PostgreSQL: exactly once whatever fails, or in batches."""

import pickle
import random
import threading
from dataclasses import replace

import cloudpickle
import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

from support.servers.postgres_server import postgres_server  # noqa: E402
from support.worlds.failing_sinks import play, stored, values_of, write_with_failures  # noqa: E402

from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402
from flinkbuf.datastream.connectors.postgres import PostgresSetupError, PostgresSink  # noqa: E402
from flinkbuf.errors import FlinkbufError  # noqa: E402
from flinkbuf.streaming.chain.operator_config import ExecutionSettings  # noqa: E402
from flinkbuf.streaming.sinks import postgres_sink  # noqa: E402
from flinkbuf.streaming.sinks.postgres_sink import TransactionNames  # noqa: E402
from flinkbuf.streaming.sinks.sink_factories import SinkWriterFactory  # noqa: E402
from flinkbuf.testing import OperatorHarness  # noqa: E402
from flinkbuf.types.values import Row  # noqa: E402

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


def test_a_row_that_is_changed_after_it_was_given_is_sent_as_it_was():
    rows = postgres_sink.Rows(postgres_sink.PostgresOptions("", statement="insert into t values (%s, %s)"))
    row, lock = [0, [0]], threading.Lock()
    for number in (1, 2):
        row[0] = row[1][0] = number
        rows.add(row)
    rows.add((lock,))  # of which there is no copy
    assert rows.batch == [[1, [1]], [2, [2]], (lock,)]


@pytest.fixture(scope="module")
def server():
    with postgres_server(max_prepared_transactions=20) as server:
        yield server


class Database:
    def __init__(self, server):
        self.connection = server.connection
        self.session = psycopg.connect(server.connection, autocommit=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.session.close()

    def execute(self, statement):
        return self.session.execute(statement)

    @property
    def rows(self):
        return self.execute("SELECT n, word FROM words ORDER BY n").fetchall()

    @property
    def prepared(self):
        return [name for (name,) in self.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid").fetchall()]


@pytest.fixture
def database(server):
    database = Database(server)
    database.execute("DROP TABLE IF EXISTS words; CREATE TABLE words (n int, word text)")
    yield database
    for name in database.prepared:
        database.execute(f"ROLLBACK PREPARED '{name}'")
    database.session.close()


def builder(database):
    return PostgresSink.builder().set_connection(database.connection).set_table("words", ["n", "word"])


def opened(sink, restore=None, epoch=1, job="job", **options):
    operator = pickle.loads(cloudpickle.dumps(SinkWriterFactory(sink)))()
    options = {"settings": WITH_CHECKPOINTS, "is_keyed": False, **options}
    harness = OperatorHarness(operator, restore=restore, **options)
    harness.context.task = replace(harness.context.task, epoch=epoch, job_id=job)
    try:
        harness.open()
    except BaseException:
        harness.close()
        raise
    return harness


def kill(harness):
    """The process is gone: the server sees its connections end, and nothing else is done."""
    harness.operator._writer._connection.close()
    harness.operator._committer.close()


def test_rows_are_visible_when_the_checkpoint_behind_them_counts(database):
    sink = opened(builder(database).build())
    sink.process_element((1, "a"))
    sink.process_element(Row(2, None))
    sink.snapshot(1)
    sink.process_element([3, "tab\tand\nmore"])
    assert database.rows == [] and len(database.prepared) == 1
    sink.operator.notify_checkpoint_complete(1)
    assert database.rows == [(1, "a"), (2, None)] and database.prepared == []
    sink.snapshot(2)
    sink.snapshot(3)  # nothing was written: nothing is prepared
    assert len(database.prepared) == 1
    sink.operator.notify_checkpoint_complete(3)
    assert database.rows[2:] == [(3, "tab\tand\nmore")]
    sink.process_element((4, "never committed"))
    sink.close()
    assert len(database.rows) == 3


SCRIPT = [1, 2, ("snap", 1), 3, ("done", 1), 4, 5, ("snap", 2), 6, ("snap", 3), ("done", 3), 7, 8]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_wherever_it_fails_each_row_is_there_once(database, parallelism, cut):
    snapshots = {}
    sink = builder(database).set_batch_size(2).build()
    first = opened(sink)
    play(first, SCRIPT[:cut], snapshots, lambda number: (number, str(number)))
    kill(first)
    done = max(snapshots, default=0)
    left = values_of(SCRIPT[SCRIPT.index(("snap", done)) + 1 :] if done else SCRIPT)
    restore = [snapshots[done]] if done else None
    for attempt in range(2):  # the second one prepares something, too, and fails before it counts
        others = [opened(sink, restore, parallelism=parallelism, subtask_index=index) for index in range(parallelism)]
        if attempt == 0:
            for other in others:
                other.process_element((99, "lost"))
                other.snapshot(done + 1)
                kill(other)
    assert database.prepared == []
    for number, value in enumerate(left):
        others[number % parallelism].process_element((value, str(value)))
    for other in others:
        other.end_input()
        other.finish()
        other.snapshot(9)
        other.operator.notify_checkpoint_complete(9)
        other.close()
    assert database.rows == [(number, str(number)) for number in values_of(SCRIPT)]
    assert database.prepared == []


@pytest.mark.parametrize("seed", range(6))
def test_random_failures(database, seed):
    chance = random.Random(seed)
    sink = builder(database).set_batch_size(chance.choice([1, 3, 1_000])).build()
    rows = [(number, "x") for number in range(60)]
    write_with_failures(rows, lambda snapshot: opened(sink, snapshot), kill, chance).close()
    assert database.rows == rows
    assert database.prepared == []


def test_without_checkpoints_everything_is_committed_at_the_end(database):
    sink = opened(builder(database).build(), settings=ExecutionSettings())
    for number in range(2_500):
        sink.process_element((number, "x"))
    assert database.rows == []
    sink.end_input()
    sink.finish()
    assert len(database.rows) == 2_500
    sink.close()


def test_statements_take_what_parameters_a_function_makes(database):
    database.execute("ALTER TABLE words ADD PRIMARY KEY (n)")
    upsert = "INSERT INTO words VALUES (%(n)s, %(word)s) ON CONFLICT (n) DO UPDATE SET word = excluded.word"
    sink = builder(database).set_sql(upsert, lambda record: {"n": len(record), "word": record}).build()
    harness = opened(sink, settings=ExecutionSettings())
    for word in ("a", "bb", "c"):
        harness.process_element(word)
    harness.end_input()
    harness.finish()
    harness.close()
    assert database.rows == [(1, "c"), (2, "bb")]
    plain = PostgresSink.builder().set_connection(database.connection).set_sql("INSERT INTO words VALUES (%s)").build()
    harness = opened(plain, settings=ExecutionSettings())
    harness.process_element(7)
    harness.end_input()
    harness.finish()
    harness.close()
    assert database.rows[-1] == (7, None)


def test_at_least_once_batches_are_committed_by_size_by_time_and_at_checkpoints(database):
    guaranteed = builder(database).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    sink = opened(guaranteed.set_batch_size(2).set_batch_interval(500).build())
    sink.process_element((1, "a"))
    assert database.rows == []
    sink.process_element((2, "b"))
    assert len(database.rows) == 2
    sink.process_element((3, "c"))
    sink.set_processing_time(499)
    assert len(database.rows) == 2
    sink.set_processing_time(1_000)
    assert len(database.rows) == 3
    sink.process_element((4, "d"))
    sink.snapshot(1)
    assert len(database.rows) == 4 and database.prepared == []
    sink.process_element((5, "e"))
    sink.close()
    assert len(database.rows) == 4


def test_a_prefix_of_ones_own_lets_another_job_clear_away(database):
    sink = builder(database).set_transaction_prefix("words-sink").build()
    abandoned, other = opened(sink), opened(builder(database).build())
    for harness in (abandoned, other):
        harness.process_element((1, "a"))
        harness.snapshot(1)
        kill(harness)
    mine, others = sorted(database.prepared, key=lambda name: not name.startswith("words-sink:0:0:"))
    opened(sink).close()
    assert database.prepared == [others] and mine != others


def test_what_a_program_of_a_newer_epoch_has_prepared_is_left_to_it(database):
    sink = builder(database).build()
    first = opened(sink, epoch=1)
    first.process_element((0, "of nobody"))
    first.snapshot(1)
    newer = opened(sink, epoch=2)  # it has taken the job over, and goes on from its beginning
    assert database.prepared == []
    newer.process_element((1, "a"))
    newer.snapshot(1)
    opened(sink, epoch=1).close()  # of the program that slept
    assert len(database.prepared) == 1
    newer.operator.notify_checkpoint_complete(1)
    assert database.rows == [(1, "a")]
    newer.process_element((2, "b"))
    newer.snapshot(2)
    opened(sink, epoch=3).close()
    assert database.prepared == []
    first.close()
    newer.close()


def test_epochs_of_another_job_say_nothing(database):
    sink = builder(database).set_transaction_prefix("words-sink").build()
    abandoned = opened(sink, epoch=7, job="one")
    abandoned.process_element((1, "a"))
    abandoned.snapshot(1)
    kill(abandoned)
    opened(sink, epoch=1, job="two").close()
    assert database.prepared == []


def test_a_transaction_that_somebody_else_has_ended_is_an_error_unless_it_may_have_been_committed(database):
    sink = opened(builder(database).build())
    sink.process_element((1, "a"))
    state = stored(sink.snapshot(1))
    database.execute(f"ROLLBACK PREPARED '{database.prepared[0]}'")
    with pytest.raises(FlinkbufError, match="is gone, though this job has not committed it"):
        sink.operator.notify_checkpoint_complete(1)
    sink.close()
    opened(builder(database).build(), state).close()


def test_a_commit_is_tried_again_when_the_server_comes_back(database, monkeypatch, caplog):
    monkeypatch.setattr(postgres_sink, "_FIRST_WAIT_S", 0.01)
    sink = opened(builder(database).build())
    sink.process_element((1, "a"))
    sink.snapshot(1)
    connect, failures = postgres_sink.connect, iter(range(3))

    def refuse(options):
        if next(failures, None) is not None:
            raise psycopg.OperationalError("the server is starting up")
        return connect(options)

    monkeypatch.setattr(postgres_sink, "connect", refuse)
    sink.operator.notify_checkpoint_complete(1)
    assert database.rows == [(1, "a")]
    assert caplog.text.count("could not be committed yet: the server is starting up") == 3
    sink.close()


def test_prepared_transactions_survive_the_server():
    with postgres_server(max_prepared_transactions=2) as server:
        with Database(server) as database:
            database.execute("CREATE TABLE words (n int, word text)")
            sink = opened(builder(database).build())
            sink.process_element((1, "a"))
            state = stored(sink.snapshot(1))
        server.stop()
        server.start()
        sink.close()
        with Database(server) as database:
            opened(builder(database).build(), state).close()
            assert database.rows == [(1, "a")]


def test_a_server_that_prepares_nothing_or_not_enough_says_what_to_set():
    with postgres_server(max_prepared_transactions=0) as server:
        with Database(server) as database:
            with pytest.raises(
                PostgresSetupError, match="max_prepared_transactions = 0.* to 2 or more .*AT_LEAST_ONCE"
            ):
                opened(builder(database).build())
        server.stop()
        server.settings["max_prepared_transactions"] = 1
        server.start()
        with Database(server) as database:
            database.execute("CREATE TABLE words (n int, word text)")
            sink = opened(builder(database).build(), parallelism=4)
            sink.process_element((1, "a"))
            sink.snapshot(1)
            sink.process_element((2, "b"))
            with pytest.raises(PostgresSetupError, match="as many prepared transactions as it may.* to 8 or more"):
                sink.snapshot(2)
            sink.close()
    assert PostgresSetupError.can_restart is False


def test_what_is_missing_or_wrong_is_said_when_the_sink_is_built(monkeypatch):
    with pytest.raises(ValueError, match="needs set_connection"):
        PostgresSink.builder().set_table("t", ["a"]).build()
    with pytest.raises(ValueError, match='takes what libpq does, .*: missing "="'):
        PostgresSink.builder().set_connection("flights").set_table("t", ["a"]).build()
    start = PostgresSink.builder().set_connection("dbname=x")
    with pytest.raises(ValueError, match="needs set_table.* or set_sql"):
        start.build()
    for call, words in (
        (lambda: start.set_table("t", "abc"), "columns must be a list"),
        (lambda: start.set_table("t", []), "columns must be a list"),
        (lambda: start.set_batch_size(0), "batch_size must be at least 1"),
        (lambda: start.set_batch_interval(-1), "batch_interval_ms must not be negative"),
        (lambda: start.set_transaction_prefix("a:b"), "neither ':' nor quotes"),
        (lambda: start.set_transaction_prefix("x" * 121), "1 to 120 bytes"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="must be a DeliveryGuarantee"):
        start.set_delivery_guarantee("exactly")
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install 'flinkbuf\[postgres\]'"):
        start.set_table("t", ["a"]).build()


def test_names_of_others_are_left_alone():
    names = TransactionNames("p", 0, 2, 3, "job")
    assert names.left_behind(names.name("x")) and names.left_behind("p:2:9:job:1:x")
    for place in ("p:1:9", "p:0:2", "pp:0:9", "p:0", "p:0:9:9", "p:a:9", "p::9", "p:0:-1"):
        for name in (f"{place}:x", f"{place}:job:1:x"):
            assert not names.left_behind(name), name
    for holder in ("job", "job:a", "job:-1", "job:1:1"):
        assert not names.left_behind(f"p:0:9:{holder}:x"), holder


def test_what_a_newer_epoch_of_the_same_job_has_prepared_is_not_left_behind():
    names = TransactionNames("p", 0, 2, 3, "job", epoch=2)
    found = {epoch: names.left_behind(replace(names, epoch=epoch).name("x")) for epoch in (1, 2, 3, 10)}
    assert found == {1: True, 2: True, 3: False, 10: False}
    assert names.left_behind(replace(names, epoch=3, job="other").name("x"))
    assert names.left_behind("p:0:9:x")  # of a version that wrote no epochs


def test_the_longest_prefix_leaves_room_for_the_rest_of_a_name(database):
    prefix = "x" * 120
    sink = opened(builder(database).set_transaction_prefix(prefix).build(), epoch=999_999, job="0123456789abcdef" * 2)
    sink.process_element((1, "a"))
    sink.snapshot(10**12)
    (name,) = database.prepared
    assert name.startswith(f"{prefix}:0:0:01234567:999999:")
    sink.close()
