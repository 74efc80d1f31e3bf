"""How fast are DataFrames written to partition files and read from them, next to Parquet without compression?

5 M rows (bigint, string, double, int) of a cached DataFrame, in local[2]; both through the same Spark, by turns, so
that a busy machine is busy for both. Partition files are written by key to 64 subpartitions, and Parquet as it comes,
as well as after `repartition` by the same key, which is what it takes to have equal keys together. A read looks at
every row and column. No counterpart in flink-benchmarks.
"""

import functools
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import pytest
from local_spark import session
from measure import SMOKE, report, scaled

ROW_COUNT = scaled(5_000_000)
PARTITIONS = 64
TURNS = 1 if SMOKE else 5


@functools.cache
def source():
    """The rows, in Spark's memory."""
    rows = session().range(ROW_COUNT, numPartitions=2)
    found = rows.selectExpr(
        "id", "concat('N', id % 4043) AS tailnum", "id * 0.5D AS delay", "int(id % 31) AS day"
    ).cache()
    assert found.count() == ROW_COUNT
    return found


@functools.cache
def directory():
    return tempfile.mkdtemp(prefix="flinkbuf-bench-")


def path(name):
    return str(Path(directory()) / name)


def write_flinkbuf(name):
    options = {"key": "tailnum", "num_partitions": PARTITIONS, "retention": "0 s"}
    if name.endswith("lz4"):
        options["compression"] = "lz4"
    source().write.format("flinkbuf").options(**options).mode("overwrite").save(path(name))


def write_parquet(name):
    rows = source().repartition(PARTITIONS, "tailnum") if "repartitioned" in name else source()
    rows.write.option("compression", "none").mode("overwrite").parquet(path(name))


def read(name):
    form = "parquet" if name.startswith("parquet") else "flinkbuf"
    rows = session().read.format(form).load(path(name))
    found = rows.selectExpr("sum(id)", "sum(length(tailnum))", "sum(delay)", "sum(day)", "count(*)").first()
    assert found[-1] == ROW_COUNT, f"{name} has {found[-1]} rows, not {ROW_COUNT}"


NAMES = ["flinkbuf", "flinkbuf_lz4", "parquet", "parquet_repartitioned"]


def write(name):
    (write_parquet if name.startswith("parquet") else write_flinkbuf)(name)


def measure_turns(work, function, names=NAMES, benchmark=None):
    """Time each contender once a turn."""
    for name in names:
        function(name)
    seconds = {name: [] for name in names}
    for _ in range(TURNS):
        for name in names:
            start = perf_counter()
            function(name)
            seconds[name].append(perf_counter() - start)
    for name in names:
        report(f"data_source_{work}.{name}", seconds[name], ROW_COUNT, "rows", benchmark=benchmark)
    return {name: statistics.median(found) for name, found in seconds.items()}


@pytest.mark.parametrize("work", ["write", "read"])
def test_rows(benchmark, work):
    for name in NAMES:
        write(name)
    benchmark.pedantic(
        measure_turns, args=(work, {"write": write, "read": read}[work]), kwargs={"benchmark": benchmark}
    )


if __name__ == "__main__":
    try:
        measure_turns("write", write)
        measure_turns("read", read)
    finally:
        shutil.rmtree(directory())
        session().stop()
    sys.exit()
