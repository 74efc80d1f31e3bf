"""What does it cost to bring the words of a text, each with a number, into the order of batch execution?

The sorter takes bytes and gives bytes, in memory and through files of 1 MiB runs; the rival is `sorted` over the same
tuples of key and record, by key. Counterpart in Flink: ExternalSorter under SortingDataInputsITCase.
"""

import random
import tempfile
from pathlib import Path

import pytest
from measure import measure, scaled

from flinkbuf._core.sort.record_sorter import RecordSorter

COUNT = scaled(200_000)
CHANCE = random.Random(7)
WORDS = [b"%c" % (length + 1) + bytes(CHANCE.choices(range(97, 123), k=length)) for length in range(2, 12)] * 300
RECORDS = [(word, word + b"\0\0\0\1") for word in CHANCE.choices(WORDS, k=COUNT)]


def sort(**options):
    sorter = RecordSorter(**options)
    add = sorter.add
    for key, record in RECORDS:
        add(key, None, record)
    sorter.finish()
    count = sum(1 for _ in sorter)
    sorter.close()
    return count


def flinkbuf():
    return sort()


def flinkbuf_through_files():
    with tempfile.TemporaryDirectory() as folder:
        return sort(memory_bytes=1 << 20, make_path=lambda: Path(folder, "run"))


def python_sorted():
    taken = []
    add = taken.append
    for key, record in RECORDS:
        add((key, None, record))
    taken.sort(key=lambda each: each[0])
    return sum(1 for _ in taken)


CASES = {f"sort_words.{run.__name__}": run for run in (flinkbuf, flinkbuf_through_files, python_sorted)}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    assert CASES[name]() == COUNT
    measure(name, CASES[name], COUNT, "records", benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, CASES[name], COUNT, "records")
