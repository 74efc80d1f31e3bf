"""A program that is a client of a real server of Spark Connect, which it starts, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flinkbuf as fb

TESTS = Path(__file__).parents[2]
BEGIN = """
import json
from flinkbuf.spark.java import use_java
use_java()
from pyspark.sql import SparkSession, functions as F
import flinkbuf as fb

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "3").getOrCreate()
found = {}
"""
END = """
print("FOUND", json.dumps({**found, "session": type(spark).__module__}))
spark.stop()
"""


def found_by_client(program, folder):
    """Run a program over `spark` that may import modules of a folder; return its dict `found`."""
    pytest.importorskip("grpc")
    paths = [str(Path(fb.__file__).parent.parent), str(folder), str(TESTS)]
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "PYTHONPATH")}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program + END], capture_output=True, text=True, timeout=300, env=environment
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-3000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found["session"].startswith("pyspark.sql.connect")
    return found
