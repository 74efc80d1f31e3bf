"""Whole jobs with checkpoints that fail in the middle: every kind of sink has each record once."""

import os
import time

import pytest

from flinkbuf.common.serialization import Encoder
from flinkbuf.common.watermark_strategy import WatermarkStrategy
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.functions import MapFunction, TwoPhaseCommitSinkFunction

COUNT = 400


class FailsOnce(MapFunction):
    """Slow enough for some checkpoints, and raises once, behind one."""

    def __init__(self, folder):
        self.flag = f"{folder}/failed"

    def map(self, value):
        time.sleep(0.002)
        if value == COUNT * 3 // 4 and not os.path.exists(self.flag):
            with open(self.flag, "w"):
                raise RuntimeError("the planted failure")
        return value


class Transactions(TwoPhaseCommitSinkFunction):
    """A transaction is a hidden file, which its name makes visible."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def begin_transaction(self):
        name = os.urandom(6).hex()
        self.file = open(f"{self.folder}/.{name}", "w")  # noqa: SIM115
        return name

    def invoke(self, transaction, value, context):
        self.file.write(f"{value}\n")

    def pre_commit(self, transaction):
        self.file.close()

    def commit(self, transaction):
        if os.path.exists(f"{self.folder}/.{transaction}"):
            os.replace(f"{self.folder}/.{transaction}", f"{self.folder}/{transaction}")

    def abort(self, transaction):
        if os.path.exists(f"{self.folder}/.{transaction}"):
            os.remove(f"{self.folder}/.{transaction}")

    def close(self):
        self.file.close()


@pytest.fixture
def database():
    """A PostgreSQL server, and a session on it; skips the test where there is none. Ask for it before `numbers`."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    from support.servers.postgres_server import postgres_server

    with postgres_server(max_prepared_transactions=10) as server:
        with psycopg.connect(server.connection, autocommit=True) as session:
            yield server, session


@pytest.fixture
def numbers(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(50)
    stream = env.from_source(NumberSequenceSource(1, COUNT), WatermarkStrategy.no_watermarks(), "numbers").map(
        FailsOnce(tmp_path)
    )
    yield env, stream
    assert os.path.exists(f"{tmp_path}/failed"), "the job was never restarted: this proves nothing"


def lines_of(folder):
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return sorted(int(line) for path in files for line in path.read_text().splitlines())


def test_records_that_are_collected(numbers):
    _, stream = numbers
    with stream.execute_and_collect() as records:
        assert list(records) == list(range(1, COUNT + 1))


@pytest.mark.parametrize("kind", ["resumed", "rolled"])
def test_files(tmp_path, numbers, kind):
    env, stream = numbers
    builder = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    if kind == "rolled":
        builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    stream.sink_to(builder.build())
    env.execute()
    assert lines_of(tmp_path / "out") == list(range(1, COUNT + 1))
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def test_a_two_phase_function(tmp_path, numbers):
    env, stream = numbers
    (tmp_path / "out").mkdir()
    stream.add_sink(Transactions(tmp_path / "out"))
    env.execute()
    assert lines_of(tmp_path / "out") == list(range(1, COUNT + 1))


def test_postgres(database, numbers):
    from flinkbuf.datastream.connectors.postgres import PostgresSink

    server, session = database
    env, stream = numbers
    session.execute("CREATE TABLE numbers (n int)")
    sink = PostgresSink.builder().set_connection(server.connection).set_table("numbers", ["n"]).build()
    stream.sink_to(sink)
    env.execute()
    rows = session.execute("SELECT n FROM numbers ORDER BY n").fetchall()
    assert [n for (n,) in rows] == list(range(1, COUNT + 1))
    assert session.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone() == (0,)
