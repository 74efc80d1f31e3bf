"""How much does the loop of a task that writes and reads cost, next to writing everything first and reading it then?

One task sends the records to itself. The rival has memory for all of them and never looks whether something else could
be done; the exchange has 18 buffers, and turns between writing and reading.
"""

from collections import deque
from functools import partial

import pytest
from data import RECORDS
from measure import measure

import flinkbuf as fb
from flinkbuf._core.flow.record_exchange import RecordExchange

TYPE = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING(), fb.Types.DOUBLE()])
SEGMENTS = 4096


def partition_and_reader(type):
    partition = fb.ResultPartition(fb.NetworkBufferPool(SEGMENTS), 1, type)
    writer = fb.RecordWriter(partition, TYPE, "global", -1)
    return writer, fb.RecordReader(fb.InputGate([(partition, 0)]), TYPE)


def exchange(records):
    """Write and read in turns, within the partition's buffers."""
    writer, reader = partition_and_reader("PIPELINED_BOUNDED")
    deque(RecordExchange(writer, reader, records), maxlen=0)


def write_all_then_read(records):
    """Write without ever waiting, then read."""
    writer, reader = partition_and_reader("PIPELINED")
    writer.emit_all(records)
    writer.close()
    deque(reader, maxlen=0)


CASES = {"record_exchange.flinkbuf": exchange, "record_exchange.all_at_once": write_all_then_read}


@pytest.mark.parametrize("name", CASES)
def test_exchange(benchmark, name):
    records = RECORDS["tuple"]()
    measure(name, lambda: CASES[name](records), len(records), "records", benchmark=benchmark)


if __name__ == "__main__":
    RECORDS_OF_TUPLES = RECORDS["tuple"]()
    for name, work in CASES.items():
        measure(name, partial(work, RECORDS_OF_TUPLES), len(RECORDS_OF_TUPLES), "records")
