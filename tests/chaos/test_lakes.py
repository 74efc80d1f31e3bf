"""Processes that write tables are killed at random moments, and each row is in the table once.

CHAOS_KILLS says how often (make test-chaos), CHAOS_SEED when and whom. Two kills are the short form; make test has that
of Delta.
"""

import os
import random
import time

import chaos_program
import pytest
from support.programs.checkpointed_jobs import until
from test_chaos import kill_at_random

from flinkbuf.common import Types, WatermarkStrategy
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource

KILLS = int(os.environ.get("CHAOS_KILLS", "2"))
SEED = int(os.environ.get("CHAOS_SEED", str(time.time_ns() % 1_000_000)))
ROWS = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])


def run(directory, sink, has_begun):
    """Write all numbers, with kills once there are rows; return how many checkpoints there were."""
    env = chaos_program.environment(directory, "local")
    source = NumberSequenceSource(0, chaos_program.COUNT - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(chaos_program.Pace(directory), ROWS).sink_to(sink)
    client = env.execute_async("lakes")
    result = client.get_job_execution_result()
    until(has_begun)
    kill_at_random(directory, KILLS, result.done, 1.2, random.Random(SEED))
    result.result()
    counts = client.details()["checkpoints"]["counts"]
    print(f"\n{KILLS} kills, {counts} (CHAOS_SEED={SEED})")
    assert counts["restored"] >= 1
    return counts["completed"]


def test_a_delta_table_has_each_row_once(tmp_path):
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install deltalake")
    from flinkbuf.datastream.connectors.delta import DeltaSink

    path = str(tmp_path / "table")
    first = tmp_path / "table" / "_delta_log" / f"{1:020d}.json"
    completed = run(tmp_path, DeltaSink.builder().set_table(path).set_partition_by("key").build(), first.exists)
    table = deltalake.DeltaTable(path)
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == list(range(chaos_program.COUNT)), f"CHAOS_SEED={SEED}"
    assert 1 < table.version() <= completed


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_iceberg_table_has_each_row_once(tmp_path):
    sql = "pyiceberg.catalog.sql"
    pytest.importorskip(sql, reason="pyiceberg is not installed: pip install 'pyiceberg[sql-sqlite]'")
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    from flinkbuf.datastream.connectors.iceberg import IcebergSink

    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    lake = load_catalog("lake", **catalog)
    lake.create_namespace("db")
    table = lake.create_table("db.numbers", pa.schema([("key", pa.int64()), ("n", pa.int64())]))
    sink = IcebergSink.builder().set_catalog("lake", catalog).set_table("db.numbers").build()
    completed = run(tmp_path, sink, lambda: table.refresh().current_snapshot() is not None)
    found = table.refresh().scan().to_arrow()["n"].to_pylist()
    assert sorted(found) == list(range(chaos_program.COUNT)), f"CHAOS_SEED={SEED}"
    assert 1 < len(table.snapshots()) <= completed
    lake.close()
