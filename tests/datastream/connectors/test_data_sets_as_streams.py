"""Data sets of partition files as streams: every row once, as records or columns, from wherever a job was."""

import datetime
import pickle
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow")
from support.worlds.source_attempt import numbers_with_a_cut  # noqa: E402

import flinkbuf as fb  # noqa: E402
from flinkbuf.common import Configuration, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream import StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.columns import count, sum_  # noqa: E402
from flinkbuf.datastream.connectors.data_set import DataSetColumnSource, DataSetSource  # noqa: E402
from flinkbuf.errors import CorruptDataError  # noqa: E402
from flinkbuf.partition_files.data_set import PartitionDataSet, new_job  # noqa: E402
from flinkbuf.partition_files.job_owner import JobOwner  # noqa: E402
from flinkbuf.partition_files.manifest import Layout  # noqa: E402
from flinkbuf.partition_files.part_writer import write_part  # noqa: E402
from flinkbuf.records.arrow_batches import arrow_schema  # noqa: E402

DDL = "n bigint, s string, d decimal(10, 2), at timestamp, l array<int>"
FIELDS = {"n": "long", "s": "string", "d": "decimal(10,2)", "at": "timestamp"}
AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def embedded(parallelism=1):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def rows_of(numbers):
    return [
        {
            "n": n,
            "s": f"s{n % 5}" if n % 7 else None,
            "d": Decimal(n) / 4 if n % 3 else None,
            "at": AT,
            "l": [n % 9, None],
        }
        for n in numbers
    ]


def append(path, *parts):
    """As a write of Spark with so many tasks does it."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in FIELDS.items()]
    array = {"type": "array", "elementType": "integer", "containsNull": True}
    fields.append({"name": "l", "type": array, "nullable": True, "metadata": {}})
    layout = Layout({"type": "struct", "fields": fields}, repr(fb.as_type(DDL)), ("s",), 4, 128)
    data_set, job, owner, files = PartitionDataSet(str(path)), new_job(), JobOwner.of_this_process(), []
    for task, numbers in enumerate(parts):
        batch = pa.RecordBatch.from_pylist(rows_of(numbers), arrow_schema(DDL))
        begin = lambda task=task: data_set.begin_part(job, owner, task)  # noqa: E731
        files += write_part([batch], layout, fb.as_type(DDL), begin, memory=1 << 20)
    data_set.commit(job, layout, files, "append")


def stream_of(path, parallelism=1):
    strategy = WatermarkStrategy.no_watermarks()
    return embedded(parallelism).from_source(DataSetSource(str(path)), strategy, "data set")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_are_records_and_columns(tmp_path, parallelism):
    append(tmp_path, range(50), range(50, 60))
    append(tmp_path, range(60, 100))
    by_number = {row.n: row for row in stream_of(tmp_path, parallelism).execute_and_collect()}
    assert [(n, by_number[n].s, by_number[n].d, by_number[n].l) for n in sorted(by_number)] == [
        (row["n"], row["s"], row["d"], row["l"]) for row in rows_of(range(100))
    ]
    columns = stream_of(tmp_path, parallelism).as_columns(max_rows=9)
    assert {row.n: row for row in columns.execute_and_collect()} == by_number
    columns = stream_of(tmp_path, parallelism).as_columns(max_rows=9)
    assert columns.schema() == arrow_schema(DDL)
    table = pa.Table.from_batches(columns.execute_and_collect_batches()).sort_by("n")
    assert table.to_pylist() == rows_of(range(100))
    picked = stream_of(tmp_path, parallelism).as_columns("s string, n decimal(20, 0)")
    sums = picked.filter(lambda batch: batch["s"].is_valid()).key_by("s").aggregate(rows=count(), n=sum_("n"))
    last = {row.s: (row.rows, row.n) for row in sorted(sums.execute_and_collect(), key=lambda row: row.rows)}
    inside = {key: [n for n in range(100) if n % 7 and f"s{n % 5}" == key] for key in last}
    assert last == {key: (len(each), sum(each)) for key, each in inside.items()} != {}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_goes_on_behind_each_batch_or_record(tmp_path, parallelism, monkeypatch):
    append(tmp_path, range(20), range(20, 40), [])
    monkeypatch.setattr("flinkbuf.partition_files.part_reader.DEFAULT_TASK_SIZE", 400)
    source = DataSetSource(str(tmp_path))
    for turns in range(0, 45, 3):
        first = source if turns % 2 else source.of_batches(None, 3, 1 << 22)[0]
        then = source.of_batches("n bigint", 4, 1 << 22)[0] if turns % 4 else source
        assert numbers_with_a_cut(first, then, parallelism, turns) == [*range(40)], turns


def test_the_version_is_that_of_the_program(tmp_path):
    append(tmp_path, range(10))
    rows = stream_of(tmp_path)
    append(tmp_path, range(10, 20))
    assert sorted(row.n for row in rows.as_columns("n bigint").execute_and_collect()) == [*range(10)]
    source = DataSetSource(str(tmp_path)).of_batches(None, 10, 10)[0]
    assert isinstance(source, DataSetColumnSource) and len(pickle.dumps(source)) < 10_000


def test_what_is_wrong_is_said_where_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no data set"):
        DataSetSource(str(tmp_path))
    append(tmp_path, range(10))
    with pytest.raises(ValueError, match="the column 'm', and the source has n, s, d, at, l"):
        stream_of(tmp_path).as_columns("m int")
    with pytest.raises(TypeError, match="column 's' is int32"):
        stream_of(tmp_path).as_columns("s int")
    stream = stream_of(tmp_path).as_columns("d decimal(4, 1)")
    with pytest.raises(CorruptDataError, match=f"{tmp_path}: column 'd'"):
        list(stream.execute_and_collect())
    (path,) = (tmp_path / "data").glob("*.data")
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=f"{path}:? at byte"):
        list(stream_of(tmp_path).as_columns().execute_and_collect())
