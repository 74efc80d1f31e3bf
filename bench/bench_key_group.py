"""How fast does a Python key become its key group, next to what PySpark and Python hash with?

Ours is Java's hashCode, equal in every process; rivals: PySpark's ``portable_hash`` (what ``partitionBy`` calls for
each record) and Python's ``hash``, which is salted, so that it only shows the floor. Flink:
``KeyGroupRangeAssignment``.
"""

import os

import numpy as np
import pytest
from measure import measure, scaled

from flinkbuf._core.record.key_group import KeyHasher
from flinkbuf.types.types import Types

os.environ.setdefault("PYTHONHASHSEED", "0")  # portable_hash refuses to work without it

COUNT = scaled(100_000)
INTS = list(range(COUNT))
TEXTS = [f"aircraft-{i:03d}" for i in range(COUNT)]
PAIRS = list(zip(INTS, TEXTS, strict=True))
COLUMN = np.arange(scaled(1_000_000))
LONG, STRING = KeyHasher(Types.LONG().codec), KeyHasher(Types.STRING().codec)
PAIR = KeyHasher(Types.TUPLE([Types.LONG(), Types.STRING()]).codec)


def each(function, keys):
    def run():
        for key in keys:
            function(key)

    return run, len(keys), "keys"


def portable_hash(keys):
    from pyspark.core.rdd import portable_hash as function

    return each(function, keys)


CASES = {
    "key_group.int.flinkbuf": lambda: (lambda: LONG.hash_codes(INTS), COUNT, "keys"),
    "key_group.int.portable_hash": lambda: portable_hash(INTS),
    "key_group.int.hash": lambda: each(hash, INTS),
    "key_group.str.flinkbuf": lambda: (lambda: STRING.hash_codes(TEXTS), COUNT, "keys"),
    "key_group.str.portable_hash": lambda: portable_hash(TEXTS),
    "key_group.str.hash": lambda: each(hash, TEXTS),
    "key_group.tuple.flinkbuf": lambda: (lambda: PAIR.hash_codes(PAIRS), COUNT, "keys"),
    "key_group.tuple.portable_hash": lambda: portable_hash(PAIRS),
    "key_group.column.flinkbuf": lambda: (lambda: LONG.hash_codes(COLUMN), len(COLUMN), "keys"),
    "key_group.column.numpy": lambda: (lambda: (COLUMN ^ COLUMN >> 32).astype(np.int32), len(COLUMN), "keys"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name](), benchmark=benchmark)


if __name__ == "__main__":
    for name, case in CASES.items():
        measure(name, *case())
