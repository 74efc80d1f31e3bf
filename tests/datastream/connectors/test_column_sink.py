"""Parquet files that are written from column batches: no records are made, and each row is there once."""

import decimal

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from flinkbuf.common import Configuration, Types  # noqa: E402
from flinkbuf.common.serialization import BulkWriterFactory  # noqa: E402
from flinkbuf.datastream import StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.columns import sum_  # noqa: E402
from flinkbuf.datastream.connectors.file_system import (  # noqa: E402
    BucketAssigner,
    FileSink,
    OnCheckpointRollingPolicy,
)
from flinkbuf.datastream.formats import parquet_columns  # noqa: E402
from flinkbuf.datastream.formats.parquet import ParquetBulkWriters  # noqa: E402
from flinkbuf.datastream.formats.parquet_columns import ParquetColumnFiles  # noqa: E402


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
    monkeypatch.setattr(parquet_columns, "ROWS_PER_GROUP", 10)
    with open(tmp_path / "a", "wb") as file:
        writer = ParquetColumnFiles(pa.schema([("n", pa.int64())]))(file)
        for count in (3, 3, 0, 3, 3, 45, 1):
            writer.add_element(parquet_columns.ColumnBatch(pa.record_batch({"n": pa.array(range(count), pa.int64())})))
        writer.finish()
    metadata = pq.ParquetFile(tmp_path / "a").metadata
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [12, 20, 20, 5, 1]
    monkeypatch.setattr(parquet_columns, "_BYTES_PER_GROUP", 8)
    with open(tmp_path / "b", "wb") as file:
        writer = ParquetColumnFiles(pa.schema([("n", pa.int64())]))(file)
        writer.add_element(parquet_columns.ColumnBatch(pa.record_batch({"n": [1]})))
        writer.add_element(parquet_columns.ColumnBatch(pa.record_batch({"n": [2]})))
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
