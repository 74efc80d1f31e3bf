"""Sinks and sources of files on a real HDFS."""

import contextlib
import gzip
import os
import signal
import time

import pytest
from support.programs.golden_savepoint import environment
from support.waiting import wait_until

from flinkbuf.common import Duration, Encoder, Types, WatermarkStrategy
from flinkbuf.datastream import MapFunction
from flinkbuf.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from flinkbuf.streaming.file_place import files_in, is_hidden, open_to_read, remote_files

pytestmark = pytest.mark.hosts

COUNT = 400


def lines_below(directory):
    """The lines of all files that are not hidden."""
    found = []
    for each in files_in(directory):
        if not is_hidden(each.location):
            with open_to_read(each.location) as file:
                found += file.read().decode().splitlines()
    return sorted(found, key=int)


def hidden_below(directory):
    return [each.location for each in files_in(directory) if is_hidden(each.location)]


def put(location, data):
    remote_files(location).put(location, data)


class Once(MapFunction):
    """Slow; ends its process at a number, the first time that it comes."""

    def __init__(self, mark):
        self.mark = str(mark)

    def map(self, number):
        time.sleep(0.004)
        if number == COUNT // 2:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return number


def numbers_into(env, sink, mark):
    source = NumberSequenceSource(0, COUNT - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Once(mark), output_type=Types.LONG()).sink_to(sink)


def test_each_record_is_in_one_visible_file_whatever_is_killed(directory, tmp_path):
    env = environment(
        {
            "execution.target": "local",
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": directory + "/checkpoints",
            "restart-strategy.exponential-delay.initial-backoff": "50 ms",
        }
    ).set_parallelism(2)
    sink = FileSink.for_row_format(directory + "/out", Encoder.simple_string_encoder()).build()
    numbers_into(env, sink, tmp_path / "mark")
    env.execute("files on HDFS")
    assert (tmp_path / "mark").exists()
    assert lines_below(directory + "/out") == [str(number) for number in range(COUNT)]
    assert hidden_below(directory + "/out") == []


def test_parquet_files_are_written_and_read(directory):
    row_type = Types.ROW_NAMED(["n", "name"], [Types.LONG(), Types.STRING()])
    env = environment({}).set_parallelism(2)
    rows = env.from_collection([(number, f"name {number}") for number in range(100)], type_info=row_type)
    rows.sink_to(FileSink.for_bulk_format(directory, ParquetBulkWriters.for_row_type(row_type)).build())
    env.execute("Parquet on HDFS")
    for as_columns in (False, True):
        env = environment({}).set_parallelism(2)
        source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type), directory).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
        stream = stream.as_columns().as_records() if as_columns else stream
        found = sorted(tuple(row) for row in stream.execute_and_collect())
        assert found == [(number, f"name {number}") for number in range(100)]


def test_a_source_reads_lines_in_ranges_and_what_is_compressed(directory):
    lines = [f"{number:05}" for number in range(4_000)]
    put(directory + "/a.txt", "\n".join(lines[:3_000]).encode())
    put(directory + "/below/b.txt.gz", gzip.compress("\n".join(lines[3_000:]).encode()))
    put(directory + "/_hidden", b"not read")
    from flinkbuf.datastream.connectors.file_system import FileEnumeratorProvider

    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory)
        .set_file_enumerator(FileEnumeratorProvider(1_000))
        .build()
    )
    env = environment({}).set_parallelism(3)
    found = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").execute_and_collect()
    assert sorted(found) == lines
    with pytest.raises(FileNotFoundError, match="nothing"):
        next(
            iter(
                FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory + "/nothing")
                .build()
                ._discover()
            )
        )


def test_a_directory_is_watched(directory):
    put(directory + "/first.txt", b"1")
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), directory)
        .monitor_continuously(Duration.of_millis(50))
        .build()
    )
    env = environment({}).set_parallelism(1)
    found = []
    env.from_source(source, WatermarkStrategy.no_watermarks(), "files").add_sink(found.append)
    client = env.execute_async("watch")
    assert wait_until(lambda: found == ["1"], 20)
    put(directory + "/second.txt", b"2")
    assert wait_until(lambda: found == ["1", "2"], 20)
    client.cancel().result()


def test_what_cannot_be_is_refused_where_the_program_is_built(directory, monkeypatch):
    with pytest.raises(ValueError, match="files on HDFS have no options"):
        FileSink.for_row_format(directory + "?replication=1", Encoder.simple_string_encoder())
    monkeypatch.setitem(__import__("sys").modules, "hdfs_native", None)
    with pytest.raises(ValueError, match=r"pip install 'flinkbuf\[hdfs\]'"):
        FileSink.for_row_format(directory, Encoder.simple_string_encoder())
