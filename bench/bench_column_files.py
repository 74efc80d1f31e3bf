"""How many rows a second does a program over files do by columns, next to the same by records, and to pyarrow alone?

Files of (auction bigint, price bigint, at bigint), 100,000 rows a second of event time, are filtered, counted and
summed by 1,000 keys in tumbling windows of 10 s, and written as Parquet: whole jobs on threads of this process. The
rivals: the same by records, of fewer rows, as that takes longer; and pyarrow, which only reads the same files, on one
thread. Counterpart in Flink: FileSource with ParquetColumnarRowInputFormat, whose rows are views of columns.
"""

import functools
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from measure import measure, scaled

pytest.importorskip("pyarrow")
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from flinkbuf.common import Configuration, Time, Types, WatermarkStrategy
from flinkbuf.datastream import AggregateFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import count, sum_
from flinkbuf.datastream.connectors.file_system import FileSink, FileSource
from flinkbuf.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flinkbuf.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from flinkbuf.datastream.window import TumblingEventTimeWindows

ROWS = scaled(4_000_000)
RECORDS = scaled(100_000)
FILES = 4
ROWS_PER_MS = 100
WINDOW = TumblingEventTimeWindows.of(Time.seconds(10))
RESULT = "auction bigint, bids bigint, total bigint"


@functools.cache
def folder_of(kind, row_count):
    folder = tempfile.TemporaryDirectory(prefix="flinkbuf-bench-")
    random = np.random.default_rng(1)
    rows = row_count // FILES
    for number in range(FILES):
        times = np.arange(number * rows, (number + 1) * rows) // ROWS_PER_MS
        auctions, prices = random.integers(0, 1000, rows), random.integers(0, 1000, rows)
        table = pa.table({"auction": auctions, "price": prices, "at": times})
        if kind == "parquet":
            pq.write_table(table, f"{folder.name}/{number}.parquet")
        else:
            arrow_csv.write_csv(table, f"{folder.name}/{number}.csv", arrow_csv.WriteOptions(include_header=False))
    return folder


def source_of(kind, row_count):
    folder = folder_of(kind, row_count).name
    if kind == "parquet":
        rows = ParquetColumnarRowInputFormat("auction bigint, price bigint, at bigint")
        return FileSource.for_bulk_file_format(rows, folder).build()
    schema = CsvSchema.builder().add_number_column("auction").add_number_column("price").add_number_column("at").build()
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), folder).build()


def stream_of(kind, row_count):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(1)
    return env, env.from_source(source_of(kind, row_count), WatermarkStrategy.no_watermarks(), "files")


def written(env, results):
    """Run a program whose results go into Parquet files."""
    folder = tempfile.mkdtemp(prefix="flinkbuf-bench-")
    try:
        results.sink_to(FileSink.for_bulk_format(folder, ParquetBulkWriters.for_row_type(RESULT)).build())
        env.execute()
        assert any(path.is_file() for path in Path(folder).rglob("part-*"))
    finally:
        shutil.rmtree(folder)


def by_columns(kind):
    env, rows = stream_of(kind, ROWS)
    rows = rows.as_columns().assign_timestamps_and_watermarks("at")
    rows = rows.filter(lambda batch: pc.greater(batch["price"], 100))
    written(env, rows.key_by("auction").window(WINDOW).aggregate(bids=count(), total=sum_("price")))


class Totals(AggregateFunction):
    def create_accumulator(self):
        return 0, 0, 0

    def add(self, value, accumulator):
        return value[0], accumulator[1] + 1, accumulator[2] + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one[0], one[1] + other[1], one[2] + other[2]


def by_records(kind):
    env, rows = stream_of(kind, RECORDS)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[2])
    rows = rows.assign_timestamps_and_watermarks(times).filter(lambda row: row[1] > 100)
    result_type = Types.TUPLE([Types.LONG()] * 3)
    written(env, rows.key_by(lambda row: row[0]).window(WINDOW).aggregate(Totals(), output_type=result_type))


def arrow_read(kind):
    for path in sorted(Path(folder_of(kind, ROWS).name).iterdir()):
        if kind == "parquet":
            with pq.ParquetFile(path) as file:
                for _ in file.iter_batches(8192, use_threads=False):
                    pass
        else:
            options = arrow_csv.ReadOptions(use_threads=False, autogenerate_column_names=True)
            arrow_csv.read_csv(path, options)


CASES = {}
for name in ("parquet", "csv"):
    CASES[f"column_files_{name}.flinkbuf"] = functools.partial(by_columns, name), ROWS
    CASES[f"column_files_{name}.flinkbuf_records"] = functools.partial(by_records, name), RECORDS
    CASES[f"column_files_{name}.pyarrow_read"] = functools.partial(arrow_read, name), ROWS


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    run, rows = CASES[name]
    measure(name, run, rows, "rows", benchmark=benchmark)


if __name__ == "__main__":
    for name, (run, rows) in CASES.items():
        if all(word in name for word in sys.argv[1:]):
            measure(name, run, rows, "rows")
