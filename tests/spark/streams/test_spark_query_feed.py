"""Queries of Structured Streaming as sources of jobs: whatever fails, and whoever begins again, rows count once."""

import contextlib
import datetime
import json
import os

import pytest
from support.programs.checkpointed_jobs import environment, until

from flinkbuf.common import Encoder
from flinkbuf.datastream.connectors.file_system import FileSink, RollingPolicy

pytestmark = pytest.mark.spark

PATIENCE_S = 200  # on a busy machine a micro-batch may take long


def write(folder, *numbers):
    """Write a file that will be a micro-batch; they are read in the order of their times."""
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        hidden, file = folder / f".{number}", folder / "in" / f"{number}.json"
        hidden.write_text("".join(json.dumps({"n": 10 * number + n}) + "\n" for n in range(10)))
        os.utime(hidden, (1e9 + number, 1e9 + number))
        hidden.rename(file)


def query(spark, folder):
    data = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    return data.selectExpr("n", "timestamp_seconds(n) AS at")


def once(folder, deed):
    """Whether a deed is done now; from any process."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(f"{folder}/{deed}", os.O_CREAT | os.O_EXCL))
        return True
    return False


def committed(folder):
    """How many batches the query has noted as done."""
    place = folder / "query" / "commits"
    return sum(each.name.isdigit() for each in place.iterdir()) if place.exists() else 0


def program(spark, folder, fails_at=None, kills=False, **named):
    """A job that passes numbers on into files, by a keyed operator that fails once."""
    env = environment("local" if kills else "embedded", interval_ms=60_000, **named.pop("options", {}))
    place = str(folder)

    def number_of(row):
        assert row.at == datetime.datetime.fromtimestamp(row.n), "an instant is a time of this process"
        return row.n

    def step(number):
        if number == fails_at and once(place, "failed"):
            if kills:
                os.kill(os.getpid(), 9)
            raise ValueError("not now")
        return number

    data = named.pop("data", None)
    stream = env.from_streaming_data_frame(
        query(spark, folder) if data is None else data, checkpoint_location=str(folder / "query"), **named
    )
    numbers = stream.uid("query").map(number_of, "bigint").key_by(lambda n: n % 3).map(step, "bigint").uid("step")
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    numbers.map(str, "string").sink_to(sink).uid("files")
    return env


def results(folder):
    files = [each for each in (folder / "out").rglob("*") if each.is_file() and not each.name.startswith((".", "_"))]
    return sorted(int(line) for file in files for line in file.read_text().splitlines())


def test_each_row_counts_once_though_the_job_the_query_and_the_program_fail(spark, tmp_path):
    place = str(tmp_path)
    write(tmp_path, 0, 1, 2)

    def fails_once(batches):
        for batch in batches:
            if 15 in batch["n"].to_pylist() and once(place, "query failed"):
                raise OSError("no room")
            yield batch

    data = query(spark, tmp_path).mapInArrow(fails_once, "n bigint, at timestamp")
    client = program(spark, tmp_path, fails_at=24, data=data).execute_async("numbers")
    until(lambda: committed(tmp_path) == 3, PATIENCE_S)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert {"failed", "query failed"} < {each.name for each in tmp_path.iterdir()}
    assert results(tmp_path) == list(range(30))
    # The program begins again: without its state it is refused, with it the query goes on behind what it has done.
    write(tmp_path, 3, 4)
    with pytest.raises(Exception, match="goes on with batch 3, and the job has none of its batches"):
        program(spark, tmp_path, trigger={"availableNow": True}).execute("numbers")
    env = program(
        spark, tmp_path, trigger={"availableNow": True}, options={"execution_state__recovery_path": savepoint}
    )
    env.execute("numbers")
    assert results(tmp_path) == list(range(50)) and committed(tmp_path) == 5


def test_a_process_of_the_job_is_killed_and_on_spark_rows_come_as_columns(spark, tmp_path):
    write(tmp_path, 0, 1)
    program(spark, tmp_path, fails_at=15, kills=True, trigger={"availableNow": True}).execute("numbers")
    assert (tmp_path / "failed").exists() and results(tmp_path) == list(range(20))
    env = environment("spark", parallelism=1, interval_ms=60_000)  # one slot for it, and one for the query
    columns = env.from_streaming_data_frame(query(spark, tmp_path), trigger={"availableNow": True}).as_columns()
    assert sorted(row.n for row in columns.execute_and_collect()) == list(range(20))


def test_what_cannot_be_is_refused_where_it_is_said(spark, tmp_path):
    write(tmp_path, 0)
    env = environment("spark", interval_ms=None)
    data = query(spark, tmp_path)
    with pytest.raises(ValueError, match="takes a streaming DataFrame; this one is read by from_data_frame"):
        env.from_streaming_data_frame(spark.range(3))
    with pytest.raises(TypeError, match="from_streaming_data_frame takes a DataFrame of pyspark, got builtins.str"):
        env.from_streaming_data_frame("data")
    with pytest.raises(TypeError, match="watermark must be a WatermarkStrategy, got str '10 seconds'; such as"):
        env.from_streaming_data_frame(data, "10 seconds")
    with pytest.raises(TypeError, match="cannot come as Arrow batches: a column is of a type .*array<timestamp>"):
        env.from_streaming_data_frame(data.selectExpr("array(at) AS times"))
    env.from_streaming_data_frame(data).map(lambda row: row.n).print()
    with pytest.raises(ValueError, match="Streaming DataFrame Source' needs checkpoints: .*enable_checkpointing"):
        env.execute()
    env.enable_checkpointing(1_000)
    with pytest.raises(
        ValueError, match=r"needs 2 slots for its own tasks and 1 for the query .*3 together, and .* has 2"
    ):
        env.execute()
    with pytest.raises(ValueError, match="needs checkpoints"):
        env.from_streaming_data_frame(data).map(lambda row: row.n, "bigint").to_data_frame("n bigint")
