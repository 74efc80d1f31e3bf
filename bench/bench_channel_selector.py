"""What does it cost to choose a record's channel, by key and without one, next to PySpark's way of choosing?

The rival is what ``partitionBy`` does for each record: ``portable_hash(key) % partitions`` in Python. Flink's
``KeyByBenchmarks``.
"""

import os

import numpy as np
import pytest
from measure import measure, scaled

from flinkbuf.records.partitioner import as_partitioner, by_key
from flinkbuf.types.types import as_type

os.environ.setdefault("PYTHONHASHSEED", "0")  # portable_hash refuses to work without it

RECORD_TYPE = as_type("n bigint, s string, d double")
CHANNELS = 8
COUNT = scaled(100_000)
RECORDS = [(i, f"aircraft-{i:03d}", float(i)) for i in range(COUNT)]
COLUMN = np.arange(scaled(1_000_000))


def choose(partitioner, records=RECORDS, record_type=RECORD_TYPE):
    selector = as_partitioner(partitioner).selector(record_type, CHANNELS, seed=1)
    return lambda: selector.channels_of(records), len(records), "records"


def portable_hash(index):
    from pyspark.core.rdd import portable_hash as function

    def run():
        for record in RECORDS:
            function(record[index]) % CHANNELS

    return run, COUNT, "records"


CASES = {
    "channel_selector.int_key.flinkbuf": lambda: choose(by_key("n")),
    "channel_selector.int_key.portable_hash": lambda: portable_hash(0),
    "channel_selector.str_key.flinkbuf": lambda: choose(by_key("s")),
    "channel_selector.str_key.portable_hash": lambda: portable_hash(1),
    "channel_selector.two_fields.flinkbuf": lambda: choose(by_key(("n", "s"))),
    "channel_selector.function_key.flinkbuf": lambda: choose(by_key(lambda record: record[1], "string")),
    "channel_selector.custom.flinkbuf": lambda: choose(lambda record, channel_count: record[0] % channel_count),
    "channel_selector.rebalance.flinkbuf": lambda: choose("rebalance"),
    "channel_selector.shuffle.flinkbuf": lambda: choose("shuffle"),
    "channel_selector.column.flinkbuf": lambda: choose(by_key("*"), COLUMN, as_type("bigint")),
    "channel_selector.column.numpy_modulo": lambda: (lambda: COLUMN % CHANNELS, len(COLUMN), "records"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name](), benchmark=benchmark)


if __name__ == "__main__":
    for name, case in CASES.items():
        measure(name, *case())
