"""How fast do batches find the slots of their keys and add to accumulators there, next to pyarrow's group_by?

The work of a window over columns: batches of 8,192 rows with an int64 key and an int64 value, count and sum by key. A
`KeySlots` finds the slots, two aggregates take the rows in. The rival groups each batch and knows nothing of those
before; to merge its results is not in its figure. `keys` is finding alone; `text` has the same keys as text.
"""

import functools
import sys

import pytest
from measure import measure, scaled

pytest.importorskip("pyarrow")
import numpy as np
import pyarrow as pa

from flinkbuf._core.columns.key_slots import KeySlots
from flinkbuf._core.columns.slot_aggregates import make_aggregate

STEP = 8192
ROW_COUNT = scaled(4_000_000)
WIDTHS = {"1k": 1_000, "1m": scaled(1_000_000)}


@functools.cache
def batches(width, is_text=False):
    random = np.random.default_rng(1)
    table = pa.table({"key": random.integers(0, width, ROW_COUNT), "value": random.integers(0, 1000, ROW_COUNT)})
    if is_text:
        table = table.set_column(0, "key", pa.array([f"user-{key:09d}" for key in table["key"].to_numpy()]))
    return [(batch.select(["key"]), batch["value"]) for batch in table.combine_chunks().to_batches(STEP)]


def find(width, is_text=False):
    keys = KeySlots(batches(width, is_text)[0][0].schema)
    for batch, _ in batches(width, is_text):
        keys.find_or_add(batch)
    return keys


def find_and_add(width, is_text=False):
    keys = KeySlots(batches(width, is_text)[0][0].schema)
    count, total = make_aggregate("count"), make_aggregate("sum", pa.int64())
    for batch, values in batches(width, is_text):
        slots, _ = keys.find_or_add(batch)
        count.accumulate(slots, len(keys))
        total.accumulate(slots, len(keys), values)
    return total


def group_each(width, is_text=False):
    for batch, values in batches(width, is_text):
        table = pa.Table.from_arrays([batch["key"], values], ["key", "value"])
        table.group_by("key", use_threads=False).aggregate([("value", "count"), ("value", "sum")])


CASES = {
    f"slots_{width}{'_text' if is_text else ''}.{name}": (
        functools.partial(function, WIDTHS[width], is_text),
        ROW_COUNT,
        "rows",
    )
    for is_text in (False, True)
    for width in WIDTHS
    for name, function in {
        "flinkbuf_keys": find,
        "flinkbuf_count_and_sum": find_and_add,
        "pyarrow_group_by": group_each,
    }.items()
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        if all(word in name for word in sys.argv[1:]):
            measure(name, *CASES[name])
