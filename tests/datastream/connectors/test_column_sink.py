"""Parquet files that are written from column batches: no records are made, and each row is there once."""

import decimal
import hashlib
import json
import pathlib
import time

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
import pyarrow.parquet as pq  # noqa: E402

from flinkbuf.common import Configuration, Types  # noqa: E402
from flinkbuf.common.serialization import BulkWriterFactory  # noqa: E402
from flinkbuf.datastream import StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.columns import sum_  # noqa: E402
from flinkbuf.datastream.connectors.base import Committer, Sink, SinkWriter  # noqa: E402
from flinkbuf.datastream.connectors.file_system import (  # noqa: E402
    BucketAssigner,
    FileSink,
    OnCheckpointRollingPolicy,
)
from flinkbuf.datastream.formats.parquet import ParquetBulkWriters  # noqa: E402
from flinkbuf.datastream.formats.parquet_columns import ParquetColumnFiles  # noqa: E402
from flinkbuf.streaming.lakes import parquet_writer  # noqa: E402
from flinkbuf.streaming.sinks.collect import BATCHES_CAPACITY  # noqa: E402


def environment(parallelism=1, **options):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    for key, value in options.items():
        config.set_string(key.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def sink_of(folder, row_type="k int, n bigint"):
    builder = FileSink.for_bulk_format(str(folder), ParquetBulkWriters.for_row_type(row_type))
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def pairs(env, rows=((1, 2), (3, 4))):
    return env.from_collection(list(rows)).as_columns("k int, n bigint")


def pairs_table(rows):
    return pa.table({"k": [k for k, _ in rows], "n": [n for _, n in rows]})


def written(folder):
    paths = [path for path in folder.rglob("[!.]*") if path.is_file()]
    return sorted(tuple(row.values()) for path in paths for row in pq.ParquetFile(path).read().to_pylist())


def takes_columns(stream):
    return isinstance(stream._transformation.factory.sink.options.create_writer, ParquetColumnFiles)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_batches_are_written_as_they_are(tmp_path, parallelism):
    env = environment(parallelism)
    sums = pairs(env, [(n % 7, n) for n in range(100)]).rebalance().key_by("k").aggregate(n=sum_("n"))
    last = sums.key_by("k").aggregate(n=sum_("n"))
    _ = last.select("n", "k").sink_to(sink_of(tmp_path / "columns").build())
    _ = last.as_records("k int, n bigint").sink_to(sink_of(tmp_path / "records").build())
    env.execute()
    assert written(tmp_path / "columns") == written(tmp_path / "records") != []
    schemas = {pq.read_schema(path) for path in tmp_path.rglob("[!.]*-*") if path.is_file()}
    assert schemas == {pa.schema([("k", pa.int32()), ("n", pa.int64())])}


def test_small_batches_become_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_writer, "ROWS_PER_GROUP", 10)
    with open(tmp_path / "a", "wb") as file:
        writer = ParquetColumnFiles(pa.schema([("n", pa.int64())]))(file)
        for count in (3, 3, 0, 3, 3, 45, 1):
            writer.add_element(pa.record_batch({"n": pa.array(range(count), pa.int64())}))
        writer.finish()
    metadata = pq.ParquetFile(tmp_path / "a").metadata
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [12, 20, 20, 5, 1]
    monkeypatch.setattr(parquet_writer, "_BYTES_PER_GROUP", 8)
    with open(tmp_path / "b", "wb") as file:
        writer = ParquetColumnFiles(pa.schema([("n", pa.int64())]))(file)
        writer.add_element(pa.record_batch({"n": [1]}))
        writer.add_element(pa.record_batch({"n": [2]}))
        writer.abandon()
    assert pq.ParquetFile(tmp_path / "b").num_row_groups == 2


@pytest.mark.parametrize(
    ("row_type", "said"),
    [
        ("k int, m bigint", "the sink writes the columns k, m, and the column stream has k, n: say select"),
        ("k int", "the sink writes the columns k, and"),
        ("k int, n string", "column 'n' is string in the files and is int64 now"),
    ],
)
def test_other_columns_are_refused_where_the_sink_is_named(tmp_path, row_type, said):
    with pytest.raises((ValueError, TypeError), match=said):
        pairs(environment()).sink_to(sink_of(tmp_path, row_type).build())
    env = environment()
    _ = pairs(env).with_columns(k="k").sink_to(sink_of(tmp_path, row_type).build())  # these are known when they come
    with pytest.raises(Exception, match=said):
        env.execute()


def test_values_that_do_not_fit_are_refused(tmp_path):
    env = environment()
    prices = env.from_collection([(decimal.Decimal("1.5"),), (None,)]).as_columns("p decimal(5, 2)")
    _ = prices.sink_to(sink_of(tmp_path, Types.ROW_NAMED(["p"], [Types.BIG_DEC()])).build())
    env.execute()
    assert {row[0] for row in pq.read_table(tmp_path).to_pandas().to_numpy()} >= {decimal.Decimal("1.5")}
    env = environment()
    _ = pairs(env, [(1 << 30, 1)]).sink_to(sink_of(tmp_path / "no", "k tinyint, n bigint").build())
    with pytest.raises(Exception, match="column 'k' is int8 in the files and is int32 now, and its values do not fit"):
        env.execute()


class ByRow(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"k={element.k}"


class Rolled(OnCheckpointRollingPolicy):
    def should_roll_on_event(self, part, element):
        return element.k == 3


class Other(type(ParquetBulkWriters.for_row_type("k int"))):
    def create(self, file):
        return super().create(file)


def test_a_sink_that_looks_at_records_gets_them(tmp_path):
    env = environment()
    sinks = {
        "columns": sink_of(tmp_path / "columns"),
        "hours": sink_of(tmp_path / "hours").with_bucket_assigner(BucketAssigner.date_time_bucket_assigner()),
        "rows": sink_of(tmp_path / "rows").with_bucket_assigner(ByRow()),
        "rolled": sink_of(tmp_path / "rolled").with_rolling_policy(Rolled()),
        "other": FileSink.for_bulk_format(
            str(tmp_path / "other"), Other(ParquetBulkWriters.for_row_type("k int, n bigint")._create, None)
        ),
        "own": FileSink.for_bulk_format(
            str(tmp_path / "own"),
            BulkWriterFactory(lambda file: ParquetBulkWriters.for_row_type("k int, n bigint").create(file)),
        ),
    }
    taken = {name: takes_columns(pairs(env).sink_to(builder.build())) for name, builder in sinks.items()}
    assert {name for name, takes in taken.items() if takes} == {"columns", "hours"}
    env.execute()
    assert all(written(tmp_path / name) == [(1, 2), (3, 4)] for name in sinks)
    assert (tmp_path / "rows" / "k=3").is_dir()
    assert len(list((tmp_path / "rolled").rglob("[!.]*-0"))) == len(list((tmp_path / "rolled").rglob("[!.]*-1"))) == 1


class FailOnce:
    """Fails when the first half is through and a checkpoint has completed."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __call__(self, batch):
        import pathlib
        import time

        time.sleep(0.02)
        if batch["n"][0].as_py() == 30 and not pathlib.Path(self.marker).exists():
            pathlib.Path(self.marker).touch()
            raise RuntimeError("once")
        return batch


def test_each_row_is_there_once_though_the_job_fails(tmp_path):
    env = environment(restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="1 ms")
    env.enable_checkpointing(30)
    numbers = env.from_collection([pa.record_batch({"k": pa.array([n], pa.int32()), "n": [n]}) for n in range(50)])
    rows = numbers.as_columns("k int, n bigint").map_batches(FailOnce(tmp_path / "failed"))
    _ = rows.sink_to(sink_of(tmp_path / "out").build())
    env.execute()
    assert (tmp_path / "failed").exists()
    assert written(tmp_path / "out") == [(n, n) for n in range(50)]
    assert len(list((tmp_path / "out").glob("[!.]*"))) > 1  # a part for each checkpoint


class Journal(Sink):
    """Writes a line for each batch, and commits the numbers of its rows into a file of its own."""

    def __init__(self, folder):
        self.folder = str(folder)

    def of_columns(self, schema=None):
        if schema is not None and schema.names != ["k", "n"]:
            raise ValueError(f"the journal has k and n, got {schema.names}")
        return self

    def create_writer(self, context):
        return JournalWriter()

    def create_committer(self):
        return JournalCommitter(self.folder)


class JournalWriter(SinkWriter):
    def __init__(self):
        self.lines, self.flushed = [], []

    def write_batch(self, batch, context):
        assert isinstance(batch, pa.RecordBatch)
        assert context.timestamp() == (None if context.timestamps is None else max(context.timestamps))
        times = [None] * batch.num_rows if context.timestamps is None else context.timestamps.tolist()
        self.lines += zip(batch["k"].to_pylist(), batch["n"].to_pylist(), times, strict=True)

    def flush(self, end_of_input):
        self.flushed, self.lines = self.flushed + self.lines, []

    def prepare_commit(self):
        flushed, self.flushed = self.flushed, []
        return [flushed] if flushed else []


class JournalCommitter(Committer):
    def __init__(self, folder):
        self.folder = folder

    def commit(self, requests):
        for request in requests:
            name = hashlib.sha1(repr(request.committable).encode()).hexdigest()
            pathlib.Path(self.folder, name).write_text(json.dumps(request.committable))


def read_journal(folder):
    return sorted(tuple(line) for path in folder.iterdir() for line in json.loads(path.read_text()))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_sink_of_yours_takes_batches(tmp_path, parallelism):
    env = environment(parallelism)
    rows = [(n % 7, n) for n in range(50)]
    for folder in ("bare", "timed"):
        (tmp_path / folder).mkdir()
    stream = env.from_collection(pairs_table(rows)).as_columns(max_rows=8)
    stream.sink_to(Journal(tmp_path / "bare"))
    stream.assign_timestamps_and_watermarks("n").rebalance().sink_to(Journal(tmp_path / "timed"))
    env.execute()
    assert read_journal(tmp_path / "bare") == sorted((k, n, None) for k, n in rows)
    assert read_journal(tmp_path / "timed") == sorted((k, n, n) for k, n in rows)


def test_rows_come_once_through_a_failure(tmp_path):
    failed = tmp_path / "failed"

    def fail_once(batch):
        if 60 in batch["n"].to_pylist() and not failed.exists():
            while not any((tmp_path / "out").iterdir()):
                time.sleep(0.01)
            failed.touch()
            raise OSError("once")
        return batch

    (tmp_path / "out").mkdir()
    options = {"restart_strategy__type": "fixed-delay", "restart_strategy__fixed_delay__delay": "10ms"}
    env = environment(execution__checkpointing__interval="20ms", **options)
    numbers = [pa.record_batch({"k": [1], "n": [n]}) for n in range(100)]

    def slowly(batch):
        time.sleep(0.002)
        return batch

    stream = env.from_collection(pa.Table.from_batches(numbers)).as_columns().map_batches(slowly)
    stream.map_batches(fail_once).sink_to(Journal(tmp_path / "out"))
    env.execute()
    assert failed.exists()
    assert read_journal(tmp_path / "out") == [(1, n, None) for n in range(100)]


def test_what_a_sink_of_yours_refuses_is_said_where_it_is_named(tmp_path):
    table = pa.table({"n": [1]})
    with pytest.raises(ValueError, match="the journal has k and n, got"):
        environment().from_collection(table).as_columns().sink_to(Journal(tmp_path))

    class Records(Journal):
        def of_columns(self, schema=None):
            return None

    env = environment()
    env.from_collection(table).as_columns().sink_to(Records(tmp_path))
    with pytest.raises(Exception, match=r"JournalWriter\.write"):
        env.execute()


def test_the_program_is_given_batches():
    table = pairs_table([(n % 3, n) for n in range(100)])
    for parallelism in (1, 2):
        env = environment(parallelism)
        with env.from_collection(table).as_columns(max_rows=9).execute_and_collect_batches() as batches:
            found = list(batches)
        assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows <= 9 for batch in found)
        assert pa.Table.from_batches(found).sort_by("n").equals(table)
    sums = environment(2).from_collection(table).as_columns().key_by("k").aggregate(n=sum_("n"))
    last = (
        pa.Table.from_batches(sums.execute_and_collect_batches(), sums.schema()).group_by("k").aggregate([("n", "max")])
    )
    assert sorted(last.to_pydict()["n_max"]) == sorted(sum(range(k, 100, 3)) for k in range(3))
    empty = environment().from_collection(table.slice(0, 0)).as_columns()
    assert list(empty.execute_and_collect_batches("nothing")) == []


class SameArray:
    """Writes into one array of numpy for each batch, and gives the batch over it."""

    def __init__(self, make):
        self.numbers = np.zeros(10, np.int64)
        self.make = make

    def __call__(self, batch):
        found = self.numbers[: len(batch)]
        np.negative(batch["n"].to_numpy(), out=found)
        return self.make({"k": batch["k"].to_numpy(), "n": found})


@pytest.mark.parametrize("make", [dict, pa.record_batch, pa.table, pd.DataFrame], ids=lambda make: make.__name__)
def test_batches_over_an_array_that_their_function_uses_again_stay_what_they_were(tmp_path, make):
    rows = [(1, n) for n in range(40)]

    def negated(env):
        return pairs(env, rows).as_records().as_columns("k int, n bigint", max_rows=9).map_batches(SameArray(make))

    env = environment()
    negated(env).sink_to(sink_of(tmp_path).build())
    env.execute()
    assert written(tmp_path) == sorted((k, -n) for k, n in rows)
    with negated(environment()).execute_and_collect_batches() as batches:
        assert [-n for batch in list(batches) for n in batch["n"].to_pylist()] == [n for _, n in rows]


def test_a_job_waits_for_a_program_that_reads_batches_slowly():
    given = []

    def note(batch):
        given.append(batch.num_rows)
        return batch

    stream = environment().from_collection(pairs_table([(1, n) for n in range(1000)])).as_columns(max_rows=1)
    with stream.map_batches(note).execute_and_collect_batches() as batches:
        first = next(batches)
        time.sleep(0.1)
        assert len(given) <= BATCHES_CAPACITY + 3
    assert first.to_pylist() == [{"k": 1, "n": 0}]
