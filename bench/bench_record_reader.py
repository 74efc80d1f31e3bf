"""How long does the way out take alone: records from buffers to Python objects, next to the rivals' decoders?

Buffers can be read again and again, a partition only once, so flinkbuf is here with `read_buffers`; the whole way
through partition and gate is in bench_flow.py. In flink-benchmarks: SerializationFrameworkMiniBenchmarks.
"""

import functools

import pytest
from contenders import best_known, drain
from data import RECORDS
from measure import measure

WORKS = ("tuple", "flights", "int64")

records_of = functools.cache(lambda work: RECORDS[work]())
everybody = functools.cache(best_known)


def read_again_and_again(work, name, benchmark=None):
    contender, records = everybody(work)[name], records_of(work)
    written = contender.write(records)
    measure(f"{work}_read.{name}", lambda: drain(contender.read(written)), len(records), "records", benchmark=benchmark)


CASES = [(work, name) for work in WORKS for name in everybody(work) if name != "flinkbuf_record_writer"]


@pytest.mark.parametrize(("work", "name"), CASES, ids=".".join)
def test_read(benchmark, work, name):
    read_again_and_again(work, name, benchmark)


if __name__ == "__main__":
    for work, name in CASES:
        read_again_and_again(work, name)
