"""The writer of a streaming query, called as Spark does: one object plans and writes a batch, another commits it."""

import os
import pickle

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark.sql.datasource", reason="PySpark 4 has data sources in Python")

from pyspark.sql.types import StructType  # noqa: E402

from flinkbuf.partition_files.data_set import DATA, PartitionDataSet  # noqa: E402
from flinkbuf.partition_files.part_reader import cut_pieces, read_pieces  # noqa: E402
from flinkbuf.spark.data_source import stream_writer  # noqa: E402
from flinkbuf.spark.data_source.options import WriteOptions  # noqa: E402

SCHEMA = StructType().add("id", "long")
ARROW = pa.schema([("id", pa.int64())])


@pytest.fixture
def data_set(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_writer, "_query_id", lambda: "the query")
    return PartitionDataSet(str(tmp_path / "set"))


def writer(data_set, overwrite=False):
    options = WriteOptions.of({"path": data_set.path, "key": "id", "num_partitions": "2", "compact_files": "8"})
    return stream_writer.FlinkbufStreamWriter(SCHEMA, overwrite, options)


def write(data_set, tasks, overwrite=False):
    """What the tasks of a batch tell the driver."""
    planned = pickle.dumps(writer(data_set, overwrite))
    return [pickle.loads(planned).write(iter([pa.record_batch([rows], schema=ARROW)])) for rows in tasks]


def rows(data_set):
    manifest = data_set.manifest()
    found = []
    for pieces in cut_pieces(manifest.files, range(2)):
        for batch in read_pieces(data_set.directory(DATA), pieces, ARROW, 100):
            found += batch.column("id").to_pylist()
    return sorted(found)


def test_a_batch_counts_once_however_often_it_is_written_and_many_leave_few_files(data_set):
    for number in range(20):
        for tasks in ([[number], [100 + number]], [[100 + number], [number]]):
            messages = write(data_set, tasks)
            writer(data_set).commit(messages, number)
    assert rows(data_set) == [*range(20), *range(100, 120)]
    manifest = data_set.manifest()
    assert manifest.batches == {"the query": 19}
    assert len(manifest.files) <= 8 + 3
    data_set.sweep(0)
    assert len(os.listdir(data_set.directory(DATA))) == 2 * len(manifest.files)


def test_batches_without_rows_and_batches_that_fail_leave_nothing(data_set):
    writer(data_set).commit(write(data_set, [[]]), 0)
    assert rows(data_set) == []
    writer(data_set).commit(write(data_set, [[], []]), 1)
    assert data_set.versions() == [1]
    messages = write(data_set, [[1], [2]])
    writer(data_set).abort([messages[0], None], 2)
    with pytest.raises(FileNotFoundError):
        writer(data_set).commit(messages, 2)
    writer(data_set).commit(write(data_set, [[1], [2]]), 2)
    assert rows(data_set) == [1, 2]
    writer(data_set, True).commit(write(data_set, [[7]], True), 3)
    assert rows(data_set) == [7]
