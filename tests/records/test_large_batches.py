"""What is large: streams that are longer than memory, and arrays whose offsets come near 2^31 or pass it.

The arrays lie in memory that is asked for and never touched but at its end. `make test-large` sends 10 GB through each
stream and fills a column for real; without it some hundred MB have to do.
"""

import itertools
import mmap
import os

import numpy as np
import pytest
from support.process_memory import resident_kib

import flinkbuf as fb

pa = pytest.importorskip("pyarrow")

EDGE = 2**31
MAP_NORESERVE = 0x4000  # Linux's; mmap has no name for it
STREAM_BYTES = int(os.environ.get("FLINKBUF_LARGE_BYTES", 200 << 20))
IS_LARGE = "FLINKBUF_LARGE_BYTES" in os.environ
TYPES = {"row": lambda schema: schema, "row_data": lambda schema: fb.types.row_data_type(schema)}

pytestmark = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer needs memory of its own"
)


# ---- arrays that begin or end near 2^31


def sparse(size, *written):
    """A buffer of `size` bytes that are 0, but for (offset, bytes)."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    for offset, data in written:
        memory[offset : offset + len(data)] = data
    return pa.py_buffer(memory)


def numbers_behind_the_edge():
    first = EDGE - 2
    values = np.arange(1, 5, dtype=np.int64).tobytes()
    return pa.Array.from_buffers(pa.int64(), 4, [None, sparse(8 * (first + 4), (8 * first, values))], offset=first)


def numbers_and_nulls_behind_the_edge():
    first = EDGE - 2  # the third and fourth bits lie behind it
    values = np.arange(1, 5, dtype=np.int64).tobytes()
    validity = sparse(EDGE // 8 + 1, (first // 8, bytes([0b11000000])), (EDGE // 8, bytes([0b10])))
    return pa.Array.from_buffers(pa.int64(), 4, [validity, sparse(8 * (first + 4), (8 * first, values))], offset=first)


def booleans_behind_the_edge():
    first = EDGE - 2
    bits = sparse(EDGE // 8 + 1, (first // 8, bytes([0b10000000])), (EDGE // 8, bytes([0b01])))
    return pa.Array.from_buffers(pa.bool_(), 4, [None, bits], offset=first)


def texts_up_to_the_edge():
    ends = np.array([EDGE - 10, EDGE - 7, EDGE - 7, EDGE - 1], np.int32).tobytes()
    data = sparse(EDGE - 1, (EDGE - 10, b"abc\xc3\xa9fghi"))
    return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(ends), data])


def large_texts_behind_two_edges():
    ends = np.array([2 * EDGE - 2, 2 * EDGE + 1, 2 * EDGE + 1, 2 * EDGE + 5], np.int64).tobytes()
    data = sparse(2 * EDGE + 5, (2 * EDGE - 2, b"abcdefg"))
    return pa.Array.from_buffers(pa.large_string(), 3, [None, pa.py_buffer(ends), data])


def texts_whose_offsets_lie_behind_the_edge():
    first = EDGE - 1
    ends = sparse(4 * (first + 3), (4 * first, np.array([0, 2, 5], np.int32).tobytes()))
    return pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"abcde")], offset=first)


def lists_of_elements_up_to_the_edge():
    ends = np.array([EDGE - 4, EDGE - 2, EDGE - 1], np.int32).tobytes()
    values = sparse(EDGE - 1, (EDGE - 4, b"\x01\x02\x03"))
    elements = pa.Array.from_buffers(pa.int8(), EDGE - 1, [None, values])
    return pa.Array.from_buffers(pa.list_(pa.int8()), 2, [None, pa.py_buffer(ends)], children=[elements])


def large_lists_behind_the_edge():
    ends = np.array([EDGE + 1, EDGE + 3, EDGE + 4], np.int64).tobytes()
    elements = pa.Array.from_buffers(pa.int8(), EDGE + 4, [None, sparse(EDGE + 4, (EDGE + 1, b"\x01\x02\x03"))])
    return pa.Array.from_buffers(pa.large_list(pa.int8()), 2, [None, pa.py_buffer(ends)], children=[elements])


def decimals_behind_the_edge():
    first = EDGE - 1
    values = (5).to_bytes(16, "little") + (-7).to_bytes(16, "little", signed=True)
    data = sparse(16 * (first + 2), (16 * first, values))
    return pa.Array.from_buffers(pa.decimal128(20, 2), 2, [None, data], offset=first)


MAKERS = [
    numbers_behind_the_edge,
    numbers_and_nulls_behind_the_edge,
    booleans_behind_the_edge,
    texts_up_to_the_edge,
    large_texts_behind_two_edges,
    texts_whose_offsets_lie_behind_the_edge,
    lists_of_elements_up_to_the_edge,
    large_lists_behind_the_edge,
    decimals_behind_the_edge,
]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_values_near_the_edge_of_32_bits(make, name):
    column = make()
    plain = pa.array(column.to_pylist(), column.type)  # the same, from the beginning
    schema = pa.schema([("number", pa.int64()), ("value", column.type)])
    rows = pa.record_batch([range(len(column)), column], schema=schema)
    wanted = pa.record_batch([range(len(column)), plain], schema=schema)
    kind = TYPES[name](schema)
    given = list(fb.write_buffers(rows, kind, 3, fb.by_key("number")))
    assert given == list(fb.write_buffers(wanted, kind, 3, fb.by_key("number")))
    (found,) = fb.read_batches([buffer for _, buffer in fb.write_buffers(rows, kind, 1)], kind, schema=schema)
    assert found.equals(wanted)


def test_keys_behind_the_edge_have_the_hash_codes_of_the_same_keys_before_it():
    column = large_texts_behind_two_edges()
    schema = pa.schema([("value", column.type)])
    plain = pa.record_batch([pa.array(column.to_pylist(), column.type)], schema=schema)
    by_value = fb.by_key("value")
    given = list(fb.write_buffers(pa.record_batch([column], schema=schema), schema, 128, by_value))
    assert given == list(fb.write_buffers(plain, schema, 128, by_value))


@pytest.mark.parametrize("name", TYPES)
def test_offsets_behind_the_edge_that_go_back_are_refused(name):
    ends = np.array([0, 2 * EDGE, EDGE], np.int64).tobytes()
    column = pa.Array.from_buffers(pa.large_string(), 2, [None, pa.py_buffer(ends), sparse(2 * EDGE)])
    schema = pa.schema([("value", pa.large_string())])
    with pytest.raises(ValueError, match="value"):
        list(fb.write_buffers(pa.record_batch([column], schema=schema), TYPES[name](schema), 1))


@pytest.mark.parametrize("name", TYPES)
def test_a_value_of_two_gigabytes_is_refused_with_its_row(name):
    ends = np.array([0, 3, EDGE + 3], np.int64).tobytes()
    column = pa.Array.from_buffers(pa.large_string(), 2, [None, pa.py_buffer(ends), sparse(EDGE + 3)])
    schema = pa.schema([("value", pa.large_string())])
    with pytest.raises(ValueError, match=r"row 1\b.*value"):
        list(fb.write_buffers(pa.record_batch([column], schema=schema), TYPES[name](schema), 1))


@pytest.mark.skipif(not IS_LARGE, reason="make test-large runs this: it takes 8 GB of memory")
@pytest.mark.parametrize("name", TYPES)
def test_a_batch_ends_before_a_column_would_pass_the_edge(name):
    """Whatever max_bytes allows; records that came whole and those that were cut over buffers."""
    text = "x" * (48 << 20)
    schema = pa.schema([("number", pa.int32()), ("text", pa.string())])
    kind = TYPES[name](schema)
    rows = (pa.record_batch([[i], [text]], schema=schema) for i in range(50))
    buffers = (buffer for _, buffer in fb.write_buffers(rows, kind, 1))
    sizes = []
    for batch in fb.read_batches(buffers, kind, schema=schema, max_bytes=1 << 40):
        assert batch.column(0).to_pylist() == list(range(sum(sizes), sum(sizes) + batch.num_rows))
        assert batch.column(1)[-1].as_py() == text
        sizes.append(batch.num_rows)
    assert sizes == [42, 8]


@pytest.mark.skipif(not IS_LARGE, reason="make test-large runs this: it takes 8 GB of memory")
def test_rows_that_a_gates_batch_has_no_room_for_come_next_and_to_nobody_else():
    text = "x" * (48 << 20)
    schema = pa.schema([("number", pa.int32()), ("text", pa.string())])
    pool = fb.NetworkBufferPool(8192, 1 << 20)
    partition = fb.ResultPartition(pool, 1, type="PIPELINED")
    reader = fb.RecordReader(fb.InputGate([(partition, 0)]), schema)
    with fb.RecordWriter(partition, schema, "forward", buffer_timeout_ms=-1) as writer:
        for i in range(50):
            writer.emit_batch(pa.record_batch([[i], [text]], schema=schema))
    found = reader.read_batches(max_bytes=1 << 40)
    assert next(found).column(0).to_pylist() == list(range(42))
    for use in (lambda: next(reader), lambda: next(reader.read_batches())):
        with pytest.raises(RuntimeError, match="has rows in hand"):
            use()
    assert next(found).column(0).to_pylist() == list(range(42, 50))
    with pytest.raises(StopIteration):
        next(found)
    reader.close()
    pool.close()


@pytest.mark.skipif(not IS_LARGE, reason="make test-large runs this: it takes 8 GB of memory")
def test_records_that_are_collected_at_once_may_be_more_than_a_batch():
    """All in one buffer of more than 2 GB."""
    text = "x" * (4 << 20)
    schema = pa.schema([("text", pa.string())])
    rows = pa.record_batch([[text]], schema=schema)
    one = b"".join(buffer for _, buffer in fb.write_buffers(rows, schema, 1))
    counts = [batch.num_rows for batch in fb.read_batches([one * 600], schema)]
    assert sum(counts) == 600
    assert max(counts) <= 16 + 4


# ---- streams that are longer than memory


SCHEMA = pa.schema({"a": pa.int64(), "s": pa.string(), "d": pa.float64()})


def a_batch(count=20_000):
    return pa.record_batch([range(count), [f"text {i}" for i in range(count)], np.arange(float(count))], schema=SCHEMA)


def through_buffers(batches, kind):
    buffers = (buffer for _, buffer in fb.write_buffers(batches, kind, 1))
    for batch in fb.read_batches(buffers, kind, schema=SCHEMA):
        yield batch.num_rows


def through_many_channels(batches, kind):
    return through_a_gate(batches, kind, 7)


def through_a_gate(batches, kind, width=2):
    pool = fb.NetworkBufferPool(256)
    partition = fb.ResultPartition(pool, width, type="PIPELINED")
    reader = fb.RecordReader(fb.InputGate([(partition, i) for i in range(width)]), kind)
    found = reader.read_batches(max_rows=16_384, schema=SCHEMA)
    with fb.RecordWriter(partition, kind, fb.by_key("a"), buffer_timeout_ms=-1) as writer:
        waiting = 0
        for batch in batches:
            writer.emit_batch(batch)
            writer.flush()
            waiting += batch.num_rows
            while waiting > 16_384:
                rows = next(found).num_rows
                waiting -= rows
                yield rows
    for batch in found:
        yield batch.num_rows
    reader.close()
    pool.close()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("way", [through_buffers, through_many_channels, through_a_gate], ids=lambda way: way.__name__)
def test_a_long_stream_stays_in_little_memory(way, name):
    batch = a_batch()
    kind = TYPES[name](SCHEMA)
    count = max(20, STREAM_BYTES // batch.nbytes)

    def run(times):
        return sum(way(itertools.repeat(batch, times), kind))

    run(20)
    before = resident_kib()
    assert run(count) == count * batch.num_rows
    assert resident_kib() - before < 30 << 10
