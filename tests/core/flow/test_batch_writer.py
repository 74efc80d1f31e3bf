"""Batches of columns have the bytes and the channels that the same rows have as records."""

import datetime
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data.arrow_data import batches, records_of

import flinkbuf as fb
from flinkbuf._core.flow.batch_writer import HashBatchWriter, SortBatchWriter
from flinkbuf._core.flow.record_buffers import HashBufferWriter, SortBufferWriter
from flinkbuf.records.arrow_batches import record_type, split_batches
from flinkbuf.records.partitioner import as_partitioner

FLIGHTS = pa.record_batch(
    {
        "origin": ["JFK", "BOS", None, "ÅRN", "JFK", "x" * 100],
        "delay": [1.5, None, float("nan"), -0.0, 7.0, 8.0],
        "number": pa.array([1, 2, 3, 4, None, -6], pa.int32()),
    }
)


def streams(pairs):
    """What each channel got, as one piece."""
    joined = {}
    for channel, buffer in pairs:
        joined[channel] = joined.get(channel, b"") + bytes(buffer)
    return joined


def write(items, kind, channels=1, partitioner="global", segment_size=64, segments=None):
    """As write_buffers, with buffers as small as one likes; with `segments` through a log of so many."""
    written = record_type(kind)
    selector = as_partitioner(partitioner).selector(written, channels, seed=7)
    batches, records = split_batches(items)
    given = (records if batches is None else batches), written.codec, selector, segment_size
    if segments is not None:
        return (SortBufferWriter if batches is None else SortBatchWriter)(*given, segments)
    return (HashBufferWriter if batches is None else HashBatchWriter)(*given)


def as_records(batch, *args, **options):
    return streams(write(records_of(batch), batch.schema, *args, **options))


def as_batch(batch, *args, **options):
    return streams(write(batch, batch.schema, *args, **options))


@settings(max_examples=300)
@given(batches())
def test_a_batch_has_the_bytes_of_its_records(batch):
    assert as_batch(batch) == as_records(batch)


@settings(max_examples=60)
@given(batches(), st.integers(1, 9), st.sampled_from(["rebalance", "broadcast", "shuffle", "rescale"]))
def test_every_partitioner_chooses_as_for_records(batch, channels, partitioner):
    assert as_batch(batch, channels, partitioner) == as_records(batch, channels, partitioner)


@settings(max_examples=100)
@given(batches(), st.data())
def test_keys_have_the_key_groups_of_records(batch, data):
    names = data.draw(st.lists(st.sampled_from([*batch.schema.names, "*"]), min_size=1, max_size=3, unique=True))
    key = names[0] if "*" in names else tuple(names) if data.draw(st.booleans()) else names[0]
    key = "*" if "*" in names else key
    try:
        expected = as_records(batch, 7, fb.by_key(key))
    except ValueError:  # a key that is null, or of a type that has no hash
        with pytest.raises(ValueError, match="null|key"):
            as_batch(batch, 7, fb.by_key(key))
        return
    assert as_batch(batch, 7, fb.by_key(key)) == expected


@pytest.mark.parametrize("channels", [1, 3, 100, 1000])
@pytest.mark.parametrize("segment_size", [20, 64, 4096])
def test_rows_are_cut_over_buffers_as_records_are(channels, segment_size):
    rng = random.Random(channels)
    rows = 3000
    batch = pa.record_batch(
        {
            "key": pa.array([rng.randrange(2**40) for _ in range(rows)]),
            "text": ["t" * rng.choice([0, 3, 15, 16, 17, 40]) + rng.choice(["", "", "é"]) for _ in range(rows)],
        }
    )
    for segments in (None, 50):
        key = fb.by_key("key")
        pairs = list(write(batch, batch.schema, channels, key, segment_size=segment_size, segments=segments))
        assert all(0 < len(buffer) <= segment_size for _, buffer in pairs)
        assert streams(pairs) == as_records(batch, channels, key, segment_size=segment_size, segments=segments)


def test_a_row_may_be_larger_than_the_whole_log():
    batch = pa.record_batch({"text": ["a", "b" * 100_000, "c"]})
    options = {"segment_size": 64, "segments": 4}
    assert as_batch(batch, 50, "rebalance", **options) == as_records(batch, 50, "rebalance", **options)


def test_many_batches_follow_each_other():
    parts = [FLIGHTS.slice(0, 2), FLIGHTS.slice(2, 0), FLIGHTS.slice(2)]
    expected = as_records(FLIGHTS)
    assert streams(fb.write_buffers(parts, FLIGHTS.schema, 1)) == expected
    assert streams(fb.write_buffers(pa.Table.from_batches(parts), FLIGHTS.schema, 1)) == expected
    assert streams(fb.write_buffers(FLIGHTS.to_pandas(), "origin string, delay double, number double", 1))


def test_no_records_and_no_batches():
    assert list(fb.write_buffers([], FLIGHTS.schema, 1)) == []
    assert list(fb.write_buffers([FLIGHTS.slice(0, 0)], FLIGHTS.schema, 1)) == []


def test_columns_are_found_by_name():
    turned = FLIGHTS.select(["number", "delay", "origin"])
    assert streams(fb.write_buffers(turned, FLIGHTS.schema, 1)) == as_records(FLIGHTS)


def test_a_column_of_numbers_is_records_without_fields():
    batch = pa.record_batch({"any": pa.array([1, 2, 3])})
    assert streams(fb.write_buffers(batch, "bigint", 1)) == streams(fb.write_buffers([1, 2, 3], "bigint", 1))
    words = pa.record_batch({"any": pa.array(["a", None, "é"])}).slice(1)
    assert streams(fb.write_buffers(words, "string", 1)) == streams(fb.write_buffers([None, "é"], "string", 1))


def test_tuples_have_no_mask_and_nullable_fields_have_a_flag():
    kind = fb.Types.TUPLE(["bigint", fb.Types.NULLABLE("int"), "string"])
    batch = pa.record_batch({"a": [1, 2], "b": pa.array([None, 5], pa.int32()), "c": ["x", None]})
    expected = streams(fb.write_buffers([(1, None, "x"), (2, 5, None)], kind, 1))
    assert streams(fb.write_buffers(batch, kind, 1)) == expected
    with pytest.raises(ValueError, match=r"row 1 of the batch: column 'a': null"):
        list(fb.write_buffers(pa.record_batch([pa.array([1, None]), *batch.columns[1:]], names="abc"), kind, 1))


def test_numpy_arrays_are_batches():
    columns = {
        "a": np.arange(3, dtype=">i8"),
        "b": np.array([True, False, True]),
        "t": np.array(["2020-01-01", "NaT", "2021-02-03T04:05:06.000007"], "M8[us]"),
        "s": np.array(["x", "yy", "é"]),
    }
    kind = "a bigint, b boolean, t timestamp_ntz, s string"
    moments = [datetime.datetime(2020, 1, 1), None, datetime.datetime(2021, 2, 3, 4, 5, 6, 7)]
    rows = list(zip(range(3), [True, False, True], moments, ["x", "yy", "é"], strict=True))
    expected = streams(fb.write_buffers(rows, kind, 1))
    assert streams(fb.write_buffers(columns, kind, 1)) == expected
    packed = np.empty(3, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        packed[name] = column
    assert streams(fb.write_buffers(packed, kind, 1)) == expected


def test_numpy_arrays_need_no_pyarrow():
    program = """
import sys
sys.modules["pyarrow"] = None  # an import of it fails
import numpy as np, flinkbuf as fb
columns = {
    "a": np.ma.masked_equal(np.arange(4, dtype="i4"), 2), "b": np.array([1.5, -2, 0, 7], "f4"),
    "s": np.array(["x", None, "", "\u00e9"], object), "z": np.array([b"k", b"", b"l", b"m"]),
    "d": np.array(["2020-01-01", "NaT", "1969-12-31", "2021-02-03"], "M8[D]"), "t": np.array([True, False, True, True]),
}
kind = "a int, b float, s string, z binary, d date, t boolean"
buffers = [buffer for _, buffer in fb.write_buffers(columns, kind, 1)]
print([tuple(row) for row in fb.read_buffers(buffers, kind)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    day = datetime.date
    expected = [
        (0, 1.5, "x", b"k", day(2020, 1, 1), True),
        (1, -2.0, None, b"", None, False),
        (None, 0.0, "", b"l", day(1969, 12, 31), True),
        (3, 7.0, "é", b"m", day(2021, 2, 3), True),
    ]
    assert done.stdout.strip() == repr(expected)


@pytest.mark.parametrize("dtype", ["i1", "u2", ">i4", "u4", "i8", "f8", "?", "U5", "S5", "M8[s]", "M8[ns]", "m8[ms]"])
def test_arrays_of_numpy_are_what_pyarrow_makes_of_them(dtype):
    values = np.arange(1000).astype(dtype) if np.dtype(dtype).kind != "?" else np.arange(1000) % 3 == 0
    column = np.ma.masked_array(values, np.arange(1000) % 7 == 0)
    native = values.astype(values.dtype.newbyteorder("="))
    plain = native.astype(object) if native.dtype.kind == "S" else native
    batch = pa.record_batch({"a": pa.array(plain, mask=np.ma.getmaskarray(column))})
    given = list(fb.write_buffers({"a": column}, batch.schema, 1))
    assert given == list(fb.write_buffers(batch, batch.schema, 1))


COUNTED = """
import ctypes, sys
import numpy as np, pyarrow as pa
import flinkbuf as fb

allocation_count = ctypes.CDLL(None).allocation_count
allocation_count.restype = ctypes.c_uint64
small, large = 20_000, 100_000
batch = pa.record_batch({
    "a": range(large),
    "s": [str(i) if i % 7 else None for i in range(large)],
    "d": np.arange(large) / 7,
    "m": pa.array([i % 1000 for i in range(large)], pa.decimal128(20, 2)),
    "l": [[i, None] for i in range(large)],
})
kind = fb.types.row_data_type(batch.schema) if sys.argv[1] == "row_data" else batch.schema

def allocations(rows, width):
    part = batch.slice(0, rows)
    before = allocation_count()
    buffers = [buffer for _, buffer in fb.write_buffers(part, kind, width, fb.by_key("a"))]
    written = allocation_count()
    if width == 1:
        assert sum(each.num_rows for each in fb.read_batches(buffers, kind, schema=batch.schema)) == rows
    return written - before, allocation_count() - written

for width in (1, 4):
    allocations(large, width)
    print(*(more - less for more, less in zip(allocations(large, width), allocations(small, width))))
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer has a malloc of its own")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
@pytest.mark.parametrize("name", ["row", "row_data"])
def test_rows_ask_for_no_memory_of_their_own(name, tmp_path):
    """80,000 rows more: Python's objects and C's blocks that are made for their buffers and batches, none for a row."""
    counter = str(tmp_path / "count.so")
    source = Path(__file__).parents[1] / "count_allocations.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", counter, str(source)], check=True)
    surroundings = {**os.environ, "LD_PRELOAD": counter, "PYTHONMALLOC": "malloc"}
    found = subprocess.run(
        [sys.executable, "-c", COUNTED, name], env=surroundings, check=True, capture_output=True, text=True
    )
    for line in found.stdout.splitlines():
        written, read = map(int, line.split())
        assert written < 80_000 / 40
        assert read < 80_000 / 40
    assert len(found.stdout.splitlines()) == 2


def test_run_ends_are_values():
    import pyarrow.compute as pc

    plain = pa.array([1, 1, None, 2, 2, 2], pa.int64())
    batch = pa.record_batch([pc.run_end_encode(plain)], names=["a"])
    assert as_batch(batch.slice(1)) == as_records(pa.record_batch([plain.slice(1)], names=["a"]))


def test_durations_and_intervals_are_numbers():
    batch = pa.record_batch(
        {
            "d": pa.array([5, None], pa.duration("us")),
            "i": pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval()),
        }
    )
    pairs = list(fb.write_buffers(batch, batch.schema, 1))
    kind = fb.Types.ROW(["bigint", fb.Types.ROW(["int", "int", "bigint"])])
    assert streams(pairs) == streams(fb.write_buffers([(5, (1, 2, 3)), (None, (4, 5, 6))], kind, 1))
    assert next(fb.read_batches([buffer for _, buffer in pairs], batch.schema)).equals(batch)


@pytest.mark.parametrize(
    ("batch", "kind", "message"),
    [
        ({"a": [1.5]}, "a bigint", "column 'a': double is no LONG"),
        ({"a": [1]}, "a int", "column 'a': int64 is no INT"),
        ({"a": [[1]]}, "a array<int>", "column 'a.element': int64 is no INT"),
        ({"a": [1], "b": [2]}, "a bigint", "column 'b' is not declared"),
        ({"a": [1]}, "a bigint, b int", "column 'b' is missing"),
        ({"a": [{"x": 1}]}, "a struct<y: bigint>", "column 'a.x' is not declared"),
        ({"a": [datetime.timedelta(1)]}, "a int", r"column 'a': duration\[us\] is no INT"),
    ],
)
def test_what_a_field_cannot_hold_is_refused_before_anything_is_written(batch, kind, message):
    partition = fb.ResultPartition(fb.NetworkBufferPool(8), 2)
    with fb.RecordWriter(partition, kind) as writer:
        with pytest.raises(TypeError, match=message):
            writer.emit_batch(pa.record_batch(batch))
        assert writer.record_count == 0


def test_a_union_is_refused():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(TypeError, match="column 'u': union is no LONG"):
        list(fb.write_buffers(pa.record_batch([union], names=["u"]), "u bigint", 1))


def test_a_function_of_a_record_is_refused():
    for partitioner in (lambda record, count: 0, fb.by_key(lambda record: record.origin)):
        with pytest.raises(TypeError, match="function of a record"):
            list(fb.write_buffers(FLIGHTS, FLIGHTS.schema, 2, partitioner))


def test_rows_before_one_at_fault_are_written():
    key = fb.by_key("origin")
    partition = fb.ResultPartition(fb.NetworkBufferPool(16), 2)
    with fb.RecordWriter(partition, FLIGHTS.schema, key) as writer:
        with pytest.raises(ValueError, match="row 2 of the batch: column 'origin': a key that is null"):
            writer.emit_batch(FLIGHTS)
        assert writer.emit_batch(FLIGHTS.slice(3)) == 3
    reader = fb.RecordReader(fb.InputGate([(partition, 0), (partition, 1)]), FLIGHTS.schema)
    assert sum(batch.num_rows for batch in reader.read_batches()) == 5


def test_channels_may_be_given():
    partition = fb.ResultPartition(fb.NetworkBufferPool(16), 3)
    with fb.RecordWriter(partition, FLIGHTS.schema, lambda record, count: 1 / 0) as writer:
        with pytest.raises(TypeError, match="function of a record"):
            writer.emit_batch(FLIGHTS)
    partition = fb.ResultPartition(fb.NetworkBufferPool(16), 3)
    with fb.RecordWriter(partition, FLIGHTS.schema) as writer:
        assert writer.emit_batch(FLIGHTS, channels=[2, 0, 2, 0, 2, 0]) == 6
        with pytest.raises(IndexError, match="channel 3"):
            writer.emit_batch(FLIGHTS, channels=[3, 0, 2, 0, 2, 0])
    reader = fb.RecordReader(fb.InputGate([(partition, 2)]), FLIGHTS.schema)
    assert [row.number for row in reader] == [1, 3, None]


@pytest.mark.parametrize("partitioner", ["rebalance", "broadcast", "global", fb.by_key("key")])
@pytest.mark.parametrize("channels", [1, 5])
def test_a_partition_gets_the_bytes_of_records(partitioner, channels):
    batch = pa.record_batch({"key": range(2000), "text": [str(i) * (i % 7) for i in range(2000)]})
    pool = fb.NetworkBufferPool(4000, segment_size=256)
    found = []
    for write in ("emit_batch", "emit_all"):
        partition = fb.ResultPartition(pool, channels, type="PIPELINED")
        with fb.RecordWriter(partition, batch.schema, partitioner, seed=3) as writer:
            assert getattr(writer, write)(batch if write == "emit_batch" else records_of(batch)) == 2000
        reads = [fb.RecordReader(fb.InputGate([(partition, i)]), batch.schema) for i in range(channels)]
        found.append([[tuple(row) for row in reader] for reader in reads])
    assert found[0] == found[1]


def test_a_batch_waits_for_buffers_that_its_reader_gives_back():
    batch = pa.record_batch({"key": range(5000)})
    partition = fb.ResultPartition(fb.NetworkBufferPool(4, segment_size=128), 2)
    reader = fb.RecordReader(fb.InputGate([(partition, 0), (partition, 1)]), batch.schema)

    def produce():
        with fb.RecordWriter(partition, batch.schema, "rebalance") as writer:
            writer.emit_batch(batch)

    thread = threading.Thread(target=produce)
    thread.start()
    found = sorted(key for part in reader.read_batches(max_rows=700) for key in part["key"].to_pylist())
    thread.join()
    assert found == list(range(5000))


def test_a_released_partition_ends_the_batch():
    partition = fb.ResultPartition(fb.NetworkBufferPool(4, segment_size=128), 2)
    writer = fb.RecordWriter(partition, "key bigint", "rebalance")
    partition.release()
    records = fb.RecordWriter(fb.ResultPartition(fb.NetworkBufferPool(4, segment_size=128), 2), "key bigint")
    records.partition.release()
    assert writer.emit_batch(pa.record_batch({"key": range(5000)})) == records.emit_all((i,) for i in range(5000))


def test_elements_of_a_stream_are_no_batch():
    partition = fb.ResultPartition(fb.NetworkBufferPool(4), 1)
    with fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT("key bigint")) as writer:
        with pytest.raises(TypeError, match="elements of a stream"):
            writer.emit_batch(pa.record_batch({"key": range(5)}))


def test_long_keys_of_row_data_go_where_records_go():
    keys = [0, -1, 2**63 - 1, -(2**63), *(7**i % 2**62 for i in range(600))]
    batch = pa.record_batch({"s": list(map(str, keys)), "key": pa.array(keys, pa.int64())})
    kind = fb.types.row_data_type(batch.schema)
    for part in (batch, batch.slice(7), batch.slice(5, 90)):
        rows = [tuple(row.values()) for row in part.to_pylist()]
        assert streams(fb.write_buffers(part, kind, 13, fb.by_key("key"))) == streams(
            fb.write_buffers(rows, kind, 13, fb.by_key("key"))
        )


@pytest.mark.parametrize("wrapped", ["dictionary", "runs"])
def test_a_field_is_no_key_where_the_rows_themselves_lie_behind_indices(wrapped):
    rows = pa.StructArray.from_arrays([pa.array([10, 20]), pa.array(["x", "y"])], names=["a", "b"])
    made = (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1], pa.int32()), rows)
        if wrapped == "dictionary"
        else pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), rows)
    )
    for partitioner in (fb.by_key("a"), fb.by_range("a").with_bounds([])):
        with pytest.raises(TypeError, match="'a'"):
            list(fb.write_buffers([made], "a bigint, b string", 4, partitioner))


def test_an_array_of_numpy_that_changes_while_it_is_written_harms_nobody():
    names = [f"c{place}" for place in range(60)]
    numbers = np.zeros(20_000, np.int64)
    row = fb.Types.ROW_NAMED(names, [fb.Types.BIG_INT()] * len(names))
    buffers = iter(fb.write_buffers(dict.fromkeys(names, numbers), row, 1))
    written = [next(buffers)[1]]
    numbers[:] = 2**62
    written += [buffer for _, buffer in buffers]
    assert set(next(iter(fb.read_buffers(written, row)))) == {0}
    assert sum(1 for _ in fb.read_buffers(written, row)) == len(numbers)
