"""What changes in tables of a real PostgreSQL, read from its log: each change once, in order, whatever fails."""

import datetime
import itertools
import json
import os
import time
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import pytest

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

from support.programs.embedded import embedded  # noqa: E402
from support.servers.postgres_server import postgres_server  # noqa: E402
from support.waiting import wait_until  # noqa: E402
from support.worlds.source_attempt import SourceAttempt  # noqa: E402

from flinkbuf.common import Duration, RestartStrategies, WatermarkStrategy  # noqa: E402
from flinkbuf.common.types import Row, RowKind  # noqa: E402
from flinkbuf.datastream import KeyedProcessFunction  # noqa: E402
from flinkbuf.datastream.connectors.postgres import PostgresChangeSource, PostgresSetupError  # noqa: E402
from flinkbuf.datastream.state import ValueStateDescriptor  # noqa: E402
from flinkbuf.streaming.postgres import postgres_source  # noqa: E402
from flinkbuf.streaming.postgres.postgres_replication import ReplicationConnection  # noqa: E402
from flinkbuf.streaming.sources.input_status import InputStatus  # noqa: E402
from flinkbuf.streaming.sources.source import Boundedness  # noqa: E402
from flinkbuf.streaming.state.snapshot import OperatorSnapshot  # noqa: E402
from flinkbuf.types.types import Types  # noqa: E402
from flinkbuf.types.values import Watermark, WatermarkStatus  # noqa: E402

WORDS = Types.ROW_NAMED(["n", "word"], [Types.INT(), Types.STRING()])


class Database:
    """A session on the server, and a publication and a slot that are anew for each test."""

    def __init__(self, server):
        self.server = server
        self.connect()

    def connect(self):
        self.session = psycopg.connect(self.server.connection, autocommit=True)

    def execute(self, statement, parameters=None):
        return self.session.execute(statement, parameters)

    def value(self, statement):
        return self.execute(statement).fetchone()[0]

    def clear(self):
        self.execute("DROP PUBLICATION IF EXISTS published")
        self.execute("DROP TABLE IF EXISTS words, others, parts")
        if self.value("SELECT count(*) FROM pg_replication_slots"):
            wait_until(lambda: not self.value("SELECT count(*) FROM pg_stat_replication"), 20)
            self.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")

    def publish(self, columns="n int PRIMARY KEY, word text", table="words", what="FOR ALL TABLES"):
        self.execute(f"CREATE TABLE {table} ({columns})")
        self.execute(f"CREATE PUBLICATION published {what}")
        self.make_slot()

    def make_slot(self, plugin="pgoutput"):
        self.execute("SELECT pg_create_logical_replication_slot('the_slot', %s)", [plugin])

    @property
    def log_end(self):
        return self.value("SELECT pg_current_wal_insert_lsn()::text")

    @property
    def confirmed(self):
        return self.value("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")

    def builder(self, declared=WORDS):
        builder = PostgresChangeSource.builder().set_connection(self.server.connection)
        return builder.set_publication("published").set_slot("the_slot").set_type(declared)

    def read(self, declared=WORDS, **options):
        """What a source that is bounded by now gives."""
        builder = self.builder(declared).set_bounded(self.log_end)
        for name, value in options.items():
            getattr(builder, f"set_{name}")(value)
        return finished(Attempt(builder.build()))


@pytest.fixture(scope="module")
def server():
    with postgres_server(wal_level="logical") as server:
        yield server


@pytest.fixture
def database(server):
    database = Database(server)
    database.clear()
    yield database
    for attempt in Attempt.running:
        attempt.close()
    Attempt.running.clear()
    database.clear()
    database.session.close()


class Attempt(SourceAttempt):
    running: ClassVar = []  # what a test that fails leaves

    def __init__(self, source, parallelism=1, checkpoint=None, strategy=None):
        super().__init__(source, parallelism, checkpoint, strategy)
        self.running.append(self)

    def step(self, max_records=1):
        if self.failures:
            raise self.failures[0]
        for around in self.subtasks:
            around.mailbox.run()
            around.has_ended = around.operator.emit_next(around.output, max_records) == InputStatus.END_OF_INPUT
        return self.subtasks

    def emit(self, count):
        wait_until(lambda: len(self.values) >= count or not self.step(), 20)
        return self

    def emit_to_the_end(self):
        wait_until(lambda: all(around.has_ended for around in self.step(100)), 20)
        return self

    def complete(self, checkpoint_id):
        for around in self.subtasks:
            around.operator.notify_checkpoint_complete(checkpoint_id)


def finished(attempt):
    try:
        return told(attempt.emit_to_the_end().values)
    finally:
        attempt.close()


def told(rows):
    return [(str(row.row_kind), *row) for row in rows]


def test_each_kind_of_change_is_a_row_of_its_kind_in_the_order_of_commits(database):
    database.publish()
    with psycopg.connect(database.server.connection) as other:
        other.execute("INSERT INTO words VALUES (1, 'committed last')")
        database.execute("INSERT INTO words VALUES (2, 'b'), (3, NULL)")
        database.execute("UPDATE words SET word = 'B' WHERE n = 2")
        database.execute("UPDATE words SET n = 4 WHERE n = 3")
        database.execute("BEGIN; INSERT INTO words VALUES (9, 'rolled back'); ROLLBACK")
    database.execute("DELETE FROM words WHERE n = 2")
    database.execute("ALTER TABLE words REPLICA IDENTITY FULL")
    database.execute("UPDATE words SET word = 'x' WHERE n = 4")
    database.execute("DELETE FROM words WHERE n = 4")
    assert database.read() == [
        ("+I", 2, "b"),
        ("+I", 3, None),
        ("+U", 2, "B"),
        ("-U", 3, None),  # its key was changed
        ("+U", 4, None),
        ("+I", 1, "committed last"),
        ("-D", 2, None),
        ("-U", 4, None),
        ("+U", 4, "x"),
        ("-D", 4, "x"),
    ]


EVERY = {
    "b": ("boolean", Types.BOOLEAN(), [True, False]),
    "i2": ("smallint", Types.SHORT(), [-32768, 7]),
    "i8": ("bigint", Types.LONG(), [2**63 - 1, -(2**63)]),
    "f4": ("real", Types.FLOAT(), [0.10000000149011612, -float("inf")]),
    "f8": ("double precision", Types.DOUBLE(), [0.1, float("inf")]),
    "d": (
        "numeric(40, 10)",
        Types.BIG_DEC(),
        [Decimal("123456789012345678901234567890.0123456789"), Decimal("-1E-10")],
    ),
    "t": ("text", Types.STRING(), ["é\n\\'\"\t", ""]),
    "y": ("bytea", Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\0\\x\xff", b""]),
    "u": ("uuid", Types.STRING(), ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"]),
    "day": ("date", Types.SQL_DATE(), [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)]),
    "tod": ("time", Types.LOCAL_TIME(), [datetime.time(23, 59, 59, 999_999), datetime.time(0)]),
    "ts": ("timestamp", Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 1, 1, 2, 3, 4, 5), datetime.datetime.max]),
    "tz": (
        "timestamptz",
        Types.TIMESTAMP_LTZ(),
        [datetime.datetime(2024, 1, 1, 2, 3, 4, 500_000, datetime.timezone.utc)] * 2,
    ),
    "ia": ("int[]", Types.OBJECT_ARRAY(Types.INT()), [[1, None, 3], []]),
    "ta": ("text[]", Types.OBJECT_ARRAY(Types.OBJECT_ARRAY(Types.STRING())), [[['a"', "NULL"], ["{,}", "\\"]], []]),
    "ba": ("bytea[]", Types.OBJECT_ARRAY(Types.PRIMITIVE_ARRAY(Types.BYTE())), [[b"\0", b"a"], [None]]),
    "xa": ("timestamp[]", Types.OBJECT_ARRAY(Types.SQL_TIMESTAMP()), [[datetime.datetime(2024, 1, 1)], [None]]),
}


def test_values_of_each_type_come_as_they_were_written(database):
    columns = ", ".join(f"{name} {column}" for name, (column, *_) in EVERY.items())
    database.publish(columns + ", j json, n numeric")
    database.execute("ALTER ROLE tester SET timezone = 'Asia/Tokyo'; ALTER ROLE tester SET datestyle = 'German'")
    names = ", ".join(EVERY)
    for number in range(2):
        values = [values[number] for _, _, values in EVERY.values()]
        marks = ", ".join(["%s"] * len(EVERY))
        database.execute(f"INSERT INTO words ({names}, j, n) VALUES ({marks}, '{{\"a\": [1]}}', 'NaN')", values)
    database.execute("INSERT INTO words DEFAULT VALUES")
    types = [declared for _, declared, _ in EVERY.values()]
    rows = database.read(Types.ROW_NAMED([*EVERY, "j", "n"], [*types, Types.STRING(), Types.STRING()]))
    for number in range(2):
        assert list(rows[number][1:-2]) == [values[number] for _, _, values in EVERY.values()]
        assert json.loads(rows[number][-2]) == {"a": [1]} and rows[number][-1] == "NaN"
    assert rows[2] == ("+I", *[None] * (len(EVERY) + 2))
    database.execute("ALTER ROLE tester RESET ALL")


def test_large_values_that_an_update_leaves_alone_come_where_the_server_sends_them(database):
    database.publish()
    large = os.urandom(4000).hex()
    database.execute("ALTER TABLE words ALTER word SET STORAGE EXTERNAL, ADD other int")
    database.execute("INSERT INTO words VALUES (1, %s)", [large])
    database.execute("UPDATE words SET other = 1")
    with pytest.raises(PostgresSetupError, match=r"'word' of table public\.words .* REPLICA IDENTITY FULL"):
        database.read()
    assert database.read("n int, other int") == [("+I", 1, None), ("+U", 1, 1)]
    assert database.read(value_of_unchanged="?") == [("+I", 1, large), ("+U", 1, "?")]
    database.execute("ALTER TABLE words REPLICA IDENTITY FULL")
    database.execute("UPDATE words SET other = 2")
    assert database.read(value_of_unchanged="?")[2:] == [("-U", 1, large), ("+U", 1, large)]


def test_several_tables_with_the_name_of_each_a_column_list_and_a_filter(database):
    database.execute("CREATE TABLE others (word text, ignored int, n int PRIMARY KEY)")
    database.publish(what="FOR TABLE words WHERE (n < 10), others (word, n)")
    database.execute("INSERT INTO words VALUES (1, 'a'), (10, 'b'); INSERT INTO others VALUES ('c', 1, 2)")
    rows = database.read("n int, word string, origin string", table_field="origin")
    assert rows == [("+I", 1, "a", "public.words"), ("+I", 2, "c", "public.others")]


def test_a_truncation_is_an_error_unless_it_is_ignored(database):
    database.publish()
    database.execute("INSERT INTO words VALUES (1, 'a')")
    database.execute("TRUNCATE words")
    database.execute("INSERT INTO words VALUES (2, 'b')")
    with pytest.raises(PostgresSetupError, match=r"public\.words of PostgreSQL was truncated"):
        database.read()
    assert database.read(ignores_truncate=True) == [("+I", 1, "a"), ("+I", 2, "b")]


def test_a_table_may_change_as_long_as_its_columns_fit(database):
    database.publish()
    database.execute("INSERT INTO words VALUES (1, 'a')")
    database.execute("ALTER TABLE words ADD first int; INSERT INTO words VALUES (2, 'b', 3)")
    database.execute("ALTER TABLE words DROP word, ADD word varchar(9); INSERT INTO words VALUES (3, 4, 'c')")
    end = database.log_end
    database.execute("ALTER TABLE words ALTER n TYPE bigint; INSERT INTO words VALUES (4, 4, 'd')")
    attempt = Attempt(database.builder("word string").set_bounded().build())
    assert finished(attempt) == [("+I", "a"), ("+I", "b"), ("+I", "c"), ("+I", "d")]
    with pytest.raises(PostgresSetupError, match=r"'n' of table public\.words .* type bigint, .* declared Integer"):
        finished(Attempt(database.builder().set_bounded().build()))
    database.execute("ALTER TABLE words ALTER n TYPE int")
    attempt = Attempt(database.builder().set_bounded().build())
    with pytest.raises(PostgresSetupError, match="bigint"):  # it is refused under way, too
        attempt.emit_to_the_end()
    assert told(attempt.values) == [("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")]
    attempt.close()
    assert finished(Attempt(database.builder().set_bounded(end).build()))[2:] == [("+I", 3, "c")]


def test_what_does_not_fit_is_said_before_anything_is_read(database):
    database.execute("DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'glad')")
    database.publish("n int, kind mood, d date")
    for declared, words in (
        ("n int, missing int", r"public\.words of PostgreSQL has no column 'missing' .* it has n, kind, d"),
        ("n int, kind int", r"'kind' of table public\.words .* type mood, .* declared Integer; STRING takes any"),
    ):
        with pytest.raises(PostgresSetupError, match=words):
            database.read(declared)
    database.execute("INSERT INTO words VALUES (1, 'glad')")
    assert database.read("kind string") == [("+I", "glad")]
    database.execute("INSERT INTO words VALUES (1, 'sad', 'infinity')")
    with pytest.raises(PostgresSetupError, match="'d' of table .* has the value 'infinity', which .* DateTypeInfo"):
        database.read(Types.ROW_NAMED(["d"], [Types.SQL_DATE()]))
    database.execute("DROP TABLE words; DROP TYPE mood")
    with pytest.raises(PostgresSetupError, match="has no table in the publications published"):
        database.read()
    database.execute("DROP PUBLICATION published")
    with pytest.raises(PostgresSetupError, match="has no publication 'published'"):
        database.read()


# Checkpoints


def write_transactions(database, count=3):
    for number in range(count):
        database.execute("INSERT INTO words SELECT %s + n, 'x' FROM generate_series(0, 3) n", [4 * number])


@pytest.mark.parametrize("cut", [0, 2, 5, 8, 12])
def test_wherever_a_job_is_cut_it_goes_on_with_the_next_change(database, cut):
    """Also within a transaction, and at another parallelism."""
    database.publish()
    write_transactions(database)
    source = database.builder().set_bounded(database.log_end).build()
    first = Attempt(source, 2).emit(cut)
    checkpoint = first.checkpoint(1)
    before = database.confirmed
    first.emit(min(cut + 2, 12))
    assert database.confirmed == before
    if cut % 4 == 0:
        first.complete(1)  # or it has failed before it heard of it
    first.close()
    second = Attempt(source, 3 if cut % 3 else 1, checkpoint)
    rows = first.values[:cut] + second.emit_to_the_end().values
    assert [row.n for row in rows] == list(range(12))
    third = second.checkpoint(2)
    second.complete(2)
    second.close()
    assert database.confirmed > before
    assert finished(Attempt(source, 1, third)) == []


def test_the_slot_follows_complete_checkpoints_also_while_no_table_of_the_publication_changes(database):
    database.execute("CREATE TABLE others (n int)")
    database.publish(what="FOR TABLE words")
    attempt = Attempt(database.builder().build())
    write_transactions(database, 1)
    database.execute("INSERT INTO others VALUES (1)")
    start, end = database.confirmed, database.value("SELECT pg_current_wal_flush_lsn() - '0/0'")
    checkpoint_ids = itertools.count(1)

    def follows():
        attempt.step()
        checkpoint_id = next(checkpoint_ids)
        attempt.checkpoint(checkpoint_id)
        if checkpoint_id == 1:
            assert database.confirmed == start
        attempt.complete(checkpoint_id)
        return database.confirmed >= end

    wait_until(follows, 10, 0.05)
    attempt.close()


def test_timestamps_are_those_of_commits_and_a_quiet_slot_is_idle(database):
    database.publish()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    attempt = Attempt(database.builder().build(), 1, None, strategy)
    write_transactions(database, 1)
    attempt.emit(4)
    elements = attempt.subtasks[0].output.elements
    (timestamp,) = {element.timestamp for element in elements if not isinstance(element, (Watermark, WatermarkStatus))}
    assert abs(timestamp - time.time() * 1_000) < 60_000
    attempt.time.advance_to(250)
    assert Watermark(timestamp - 1) in elements
    attempt.time.advance_to(2_000)
    assert elements[-1] == WatermarkStatus.IDLE
    attempt.close()


# What would lose changes


def test_a_slot_that_is_missing_or_of_another_kind_is_refused(database):
    database.publish()
    source = database.builder().set_bounded().build()
    database.execute("SELECT pg_drop_replication_slot('the_slot')")
    with pytest.raises(PostgresSetupError, match="has no replication slot 'the_slot'.*pg_create_logical_replication"):
        finished(Attempt(source))
    database.make_slot("test_decoding")
    with pytest.raises(PostgresSetupError, match="for plugin test_decoding"):
        finished(Attempt(source))
    assert PostgresSetupError.can_restart is False


def test_a_slot_that_has_lost_what_the_checkpoint_needs_is_refused(database):
    database.publish()
    write_transactions(database)
    source = database.builder().set_bounded().build()
    attempt = Attempt(source).emit(2)
    checkpoint = attempt.checkpoint()
    attempt.close()
    wait_until(lambda: not database.value("SELECT count(*) FROM pg_stat_replication"), 10)
    database.execute("SELECT pg_replication_slot_advance('the_slot', pg_current_wal_flush_lsn())")
    with pytest.raises(PostgresSetupError, match="behind the checkpoint's place .* are not sent again"):
        finished(Attempt(source, 1, checkpoint))
    database.execute("SELECT pg_drop_replication_slot('the_slot')")
    with pytest.raises(PostgresSetupError, match="If it was there before, changes since are lost"):
        finished(Attempt(source, 1, checkpoint))
    database.make_slot()
    with pytest.raises(PostgresSetupError, match="behind the checkpoint's place"):
        finished(Attempt(source, 1, checkpoint))
    other = database.builder().set_slot("another_slot").build()
    with pytest.raises(PostgresSetupError, match="has a place in the replication slot 'the_slot'"):
        finished(Attempt(other, 1, checkpoint))


def changed(checkpoint, **changes):
    """A checkpoint whose split was another."""
    state, states = checkpoint
    snapshots = [OperatorSnapshot.decode(each) for each in states]
    lists = [
        {"SourceReaderState": [replace(each, **changes) for each in one.lists["SourceReaderState"]]}
        for one in snapshots
    ]
    return state, [OperatorSnapshot(lists=each).encode() for each in lists]


def test_a_checkpoint_of_other_changes_is_refused(database):
    database.publish()
    write_transactions(database)
    source = database.builder().set_bounded().build()
    attempt = Attempt(source).emit(2)  # within a transaction of four
    checkpoint = attempt.checkpoint()
    attempt.close()
    for wrong, words in (
        ({"system_id": "17"}, "is another server .* than the one that the checkpoint has a place of .17."),
        ({"publications": ("another",)}, r"lies within a transaction that was read by the publications \('another',\)"),
        ({"transaction": 1}, "committed at 0/1 .* 2 changes were read .* sends one committed at .* instead"),
        ({"change_count": 5}, "has 4 changes, and 5 were read before"),
        ({"position": 1 << 40, "transaction": None}, "the log .* to .* only, before .* 100/0: .* set back"),
        ({"timeline": 999}, "has the log .* to 0/0 only"),
    ):
        with pytest.raises(PostgresSetupError, match=words):
            finished(Attempt(source, 1, changed(checkpoint, **wrong)))
    again = finished(Attempt(source, 1, changed(checkpoint, change_count=3)))
    assert [n for _, n, _ in again] == list(range(3, 12))


def test_a_server_that_was_set_back_to_before_the_checkpoint_is_refused(database):
    """Its log goes on from the backup, another way, and may be beyond the checkpoint's place by now."""
    database.publish()
    write_transactions(database, 1)
    source = database.builder().build()
    attempt = Attempt(source).emit(4)
    database.execute("CHECKPOINT")
    checkpoint = attempt.checkpoint(1)
    attempt.close()
    database.server.back_up()
    database.execute("INSERT INTO words VALUES (4, 'in no backup')")
    attempt = Attempt(source, 1, checkpoint).emit(1)
    later_checkpoint = attempt.checkpoint(2)
    attempt.close()

    database.session.close()
    database.server.set_back()
    database.connect()
    for number in range(4, 40):
        database.execute("INSERT INTO words VALUES (%s, repeat('x', 100))", [number])
    with pytest.raises(PostgresSetupError, match="the log .* only, before .* before it had all"):
        finished(Attempt(source, 1, later_checkpoint))
    attempt = Attempt(source, 1, checkpoint).emit(36)
    assert [row.n for row in attempt.values] == list(range(4, 40))
    again = attempt.checkpoint(3)
    attempt.close()
    database.execute("INSERT INTO words VALUES (40, 'the other way')")
    assert Attempt(source, 1, again).emit(1).values[0].n == 40


def test_a_slot_whose_log_the_server_has_dropped_is_refused(database):
    database.publish()
    write_transactions(database)
    attempt = Attempt(database.builder().build()).emit(2)
    checkpoint = attempt.checkpoint()
    attempt.close()
    wait_until(lambda: not database.value("SELECT count(*) FROM pg_stat_replication"), 10)
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    database.execute("SELECT pg_reload_conf()")
    for _ in range(3):
        database.execute("INSERT INTO words VALUES (-1, NULL); DELETE FROM words WHERE n = -1")
        database.execute("SELECT pg_switch_wal()")
    database.execute("CHECKPOINT")
    try:
        for again in (checkpoint, None):
            with pytest.raises(PostgresSetupError, match=r"given the replication slot 'the_slot' up .*= lost"):
                finished(Attempt(database.builder().set_bounded().build(), 1, again))
    finally:
        database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        database.execute("SELECT pg_reload_conf()")


def test_a_slot_that_another_job_reads_is_waited_for_and_then_an_error(database, monkeypatch):
    database.publish()
    write_transactions(database)
    first = Attempt(database.builder().build()).emit(4)
    monkeypatch.setattr(postgres_source, "_TAKEOVER_S", 0.3)
    with pytest.raises(Exception, match=r"is active for PID .* each job needs one of its own"):
        finished(Attempt(database.builder().set_bounded().build()))
    monkeypatch.undo()
    second = Attempt(database.builder().set_bounded().build())
    second.step()
    first.close()
    assert len(finished(second)) == 12


# Jobs


class CountsChanges(KeyedProcessFunction):
    """How many rows of a key there are; raises once."""

    def __init__(self, folder):
        self.flag = f"{folder}/failed"

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, row, context):
        time.sleep(0.002)
        if row.n == 300 and not os.path.exists(self.flag):
            with open(self.flag, "w"):
                raise RuntimeError("the planted failure")
        by = 1 if row.row_kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
        count = (self.count.value() or 0) + by
        self.count.update(count)
        yield row.n % 10, count


def counting_job(source, folder, restart_count=1):
    env = embedded(2)
    env.enable_checkpointing(50)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(restart_count, 100))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "changes").set_parallelism(1)
    return stream.key_by(lambda row: row.n % 10).process(CountsChanges(folder), Types.TUPLE([Types.INT(), Types.INT()]))


def expected(count):
    """One key more of each for each row, in order."""
    return {(key, number) for key in range(10) for number in range(1, count // 10 + 1)}


def test_a_job_whose_task_fails_counts_each_change_once(database, tmp_path):
    database.publish()
    for number in range(4):  # transactions larger than what is between two checkpoints
        database.execute("INSERT INTO words SELECT %s + n, 'x' FROM generate_series(0, 99) n", [100 * number])
    start = database.confirmed
    with counting_job(
        database.builder().set_bounded(database.log_end).build(), tmp_path
    ).execute_and_collect() as found:
        rows = list(found)
    assert os.path.exists(f"{tmp_path}/failed")
    assert len(rows) == 400 and set(rows) == expected(400)
    wait_until(lambda: database.confirmed > start, 10)


def test_a_job_whose_server_is_killed_goes_on_when_it_is_there_again(database, tmp_path):
    (tmp_path / "failed").touch()
    database.publish()
    database.execute("INSERT INTO words SELECT n, 'x' FROM generate_series(0, 199) n")
    # Far behind what is there: the end is set by what is written behind the kill.
    until = database.value("SELECT (pg_current_wal_insert_lsn() + 200000)::text")
    rows, killed = [], False
    with counting_job(database.builder().set_bounded(until).build(), tmp_path, 20).execute_and_collect() as found:
        for row in found:
            rows.append(row)
            if len(rows) >= 50 and not killed:
                killed = True
                database.session.close()
                database.server.stop()
                database.server.start()
                database.connect()
                database.execute("INSERT INTO words SELECT n, 'x' FROM generate_series(200, 399) n")
                database.execute("SELECT pg_logical_emit_message(true, 'end', repeat('x', 300000))")
    assert len(rows) == 400 and set(rows) == expected(400)


# What is said at once


def test_a_connection_is_called_and_given_up_as_its_text_says(database):
    for given, expected in (("", ("flinkbuf", "60000")), (" application_name=mine tcp_user_timeout=5", ("mine", "5"))):
        connection = ReplicationConnection(database.server.connection + given)
        options = {option.keyword: option.val for option in connection._link.info}
        assert tuple(options[name].decode() for name in (b"application_name", b"tcp_user_timeout")) == expected
        connection.close()


def test_what_is_missing_or_wrong_is_said_when_the_source_is_built(monkeypatch):
    builder = PostgresChangeSource.builder()
    for method, arguments in (
        ("set_connection", ["dbname=x"]),
        ("set_publication", ["p"]),
        ("set_slot", ["s"]),
        ("set_type", ["n int"]),
    ):
        with pytest.raises(ValueError, match=f"needs {method}"):
            builder.build()
        getattr(builder, method)(*arguments)
    for call, words in (
        (lambda: builder.set_slot("A-b"), "a-z, 0-9 and _"),
        (builder.set_publication, "a publication has a name"),
        (lambda: builder.set_bounded("now"), "is written as"),
        (builder.set_table_field("n").build, "needs a field of the type that is a STRING"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    for declared in (Types.ROW([Types.INT()]), Types.INT(), "n map<string, int>"):
        with pytest.raises(TypeError, match="a row with names|no column of PostgreSQL"):
            PostgresChangeSource.builder().set_type(declared)
    builder = (
        PostgresChangeSource.builder().set_connection("dbname=x").set_publication("p").set_slot("s").set_type("n int")
    )
    with pytest.raises(ValueError, match='takes what libpq does, .*: missing "="'):
        builder.set_connection("flights").build()
    builder.set_connection("dbname=x")
    assert builder.build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert builder.set_bounded("1/0").build().boundedness is Boundedness.BOUNDED
    assert builder.build().get_produced_type() == Types.ROW_NAMED(["n"], [Types.INT()])
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"PostgresChangeSource needs psycopg: pip install 'flinkbuf\[postgres\]'"):
        builder.build()


def test_a_server_that_is_not_there_is_an_error_that_says_so(tmp_path):
    builder = PostgresChangeSource.builder().set_connection(f"host={tmp_path} dbname=x user=y")
    attempt = Attempt(builder.set_publication("p").set_slot("s").set_type("n int").build())
    with pytest.raises(Exception, match="cannot connect to PostgreSQL for replication: .*No such file"):
        attempt.emit_to_the_end()
    attempt.close()
    assert Row(1) == (1,)
