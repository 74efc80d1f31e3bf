"""How long does the way in take alone: records from Python objects into buffers, over 1 to 1000 channels?

Beside it the rivals' encoders, and `emit` record by record beside `emit_all`. In flink-benchmarks:
SerializationFrameworkMiniBenchmarks, KeyByBenchmarks.
"""

import functools

import pytest
from contenders import KEY_FIELD, best_known, flinkbuf_buffers, flinkbuf_type, worker_pool
from data import RECORDS
from measure import measure

WORKS = ("tuple", "flights", "int64")
WIDTHS = (8, 100, 1000)

records_of = functools.cache(lambda work: RECORDS[work]())
everybody = functools.cache(best_known)


def write_once(contender, records):
    contender.write(records)  # what was written is dropped, and its buffers go home, inside the clock


def emit_one_by_one(records):
    import flinkbuf as fb

    with fb.RecordWriter(fb.ResultPartition(worker_pool(), 1, type="PIPELINED"), flinkbuf_type("tuple")) as writer:
        emit = writer.emit
        for record in records:
            emit(record)


def cases():
    """Name each case, and how to run it once records are given."""
    for work in WORKS:
        for name in everybody(work):
            yield f"{work}_write.{name}", work, functools.partial(write_once, everybody(work)[name])
    for width in WIDTHS:
        contender = flinkbuf_buffers("tuple", width, KEY_FIELD["tuple"])
        yield f"tuple_write_by_key_{width}.flinkbuf_buffers", "tuple", functools.partial(write_once, contender)
    yield "tuple_write.flinkbuf_emit_one_by_one", "tuple", emit_one_by_one


@pytest.mark.parametrize(("name", "work", "function"), [pytest.param(*case, id=case[0]) for case in cases()])
def test_write(benchmark, name, work, function):
    records = records_of(work)
    measure(name, lambda: function(records), len(records), "records", benchmark=benchmark)


if __name__ == "__main__":
    for name, work, function in cases():
        records = records_of(work)
        measure(name, functools.partial(function, records), len(records), "records")
