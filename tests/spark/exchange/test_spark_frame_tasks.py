"""The two halves of an exchange of a DataFrame, without Spark: what one task writes, another one reads."""

import pickle
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.records.range_partitioner import KeySample, range_bounds
from flinkbuf.spark.exchange import frame_tasks
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.envelope import HEADER_SIZE
from flinkbuf.spark.exchange.frame_exchange import MAX_FILLERS, filler_count
from flinkbuf.spark.exchange.frame_ranges import FrameSampleTask
from flinkbuf.spark.exchange.frame_schema import type_between_tasks
from flinkbuf.spark.exchange.frame_shuffle import hashed_ids, partitions_of
from flinkbuf.spark.exchange.frame_tasks import (
    BatchLimits,
    Columns,
    FrameReadTask,
    FrameSource,
    FrameWriteTask,
    MapTask,
    NamedColumns,
)

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
EXCHANGE = 7
SMALL = fb.NetworkConfig(segment_size=4096)
PLAIN = fb.NetworkConfig(segment_size=4096, batch_shuffle_compression_enabled=False)


def batch_of(numbers, schema=SCHEMA):
    numbers = list(numbers)
    return pa.record_batch(
        [pa.array(numbers, pa.int64()), pa.array([f"name {n % 17}" for n in numbers])], schema=schema
    )


def columns_of(schema=SCHEMA, **limits):
    return Columns(schema, type_between_tasks(schema), BatchLimits(**limits))


class Shuffle:
    """What Spark does between the halves: rows of all producers, by the number in their first column."""

    def __init__(self, channels=1, partitioner="rebalance", columns=None, ids=None, fillers=0, config=SMALL, **chain):
        self.columns = columns or columns_of()
        self.ids = range(channels) if ids is None else ids
        partitioner = as_partitioner(partitioner)
        write = WriteTask(EXCHANGE, self.columns.type, partitioner, channels, channels, config)
        self.write = FrameWriteTask(write, self.ids, FrameSource(before=chain.get("before")), fillers)
        self.read = FrameReadTask(EXCHANGE, self.columns, self.ids, config, chain.get("after"))
        self.rows = {number: [] for number in self.ids}

    def produce(self, producer, batches):
        for rows in self.write.rows(producer, iter(batches)):
            numbers = rows.column(0).to_pylist()
            for start in range(rows.num_rows):
                self.rows[numbers[start]].append(rows.slice(start, 1))

    def consume(self, channel):
        rows = self.rows[self.ids[channel]]
        return list(self.read(iter([pa.Table.from_batches(rows).combine_chunks().to_batches()[0]] if rows else [])))

    def everything(self):
        return [
            [row for batch in self.consume(channel) for row in batch.to_pylist()] for channel in range(len(self.ids))
        ]


def test_rows_of_one_key_meet_in_one_channel_and_keep_their_order():
    shuffle = Shuffle(5, fb.by_key("name"))
    for producer in range(3):
        shuffle.produce(producer, [batch_of(range(producer, 3000, 3)), batch_of(range(3000 + producer, 6000, 3))])
    found = shuffle.everything()
    assert sorted(row["id"] for part in found for row in part) == list(range(6000))
    homes = {}
    for channel, part in enumerate(found):
        for producer in range(3):
            numbers = [row["id"] for row in part if row["id"] % 3 == producer]
            assert numbers == sorted(numbers)
        for row in part:
            assert homes.setdefault(row["name"], channel) == channel
    selector = fb.by_key("name").selector(shuffle.columns.type, 5)
    assert all(selector.select_channel((0, name)) == channel for name, channel in homes.items())


def test_the_rows_may_be_read_as_records_too():
    shuffle = Shuffle(config=PLAIN)
    shuffle.produce(0, [batch_of(range(10))])
    envelopes = [row.column(1)[0].as_py() for row in shuffle.rows[0]]
    buffers = [envelope[HEADER_SIZE : len(envelope) - (envelope[HEADER_SIZE - 1] >> 2)] for envelope in envelopes]
    assert list(fb.read_buffers(filter(None, buffers), fb.types.row_data_type(SCHEMA)))[3] == (3, "name 3")


def test_batches_to_spark_and_to_the_user_are_bounded(monkeypatch):
    monkeypatch.setattr(frame_tasks, "ROWS_BYTES", 50_000)
    shuffle = Shuffle(2, columns=columns_of(max_rows=1000, max_bytes=8000), config=PLAIN)
    written = list(shuffle.write.rows(0, iter([batch_of(range(50_000))])))
    assert len(written) > 10
    assert max(rows.nbytes for rows in written) < 50_000 + 4096 + 1000
    shuffle.produce(0, [batch_of(range(50_000))])
    read = shuffle.consume(0)
    assert max(batch.num_rows for batch in read) <= 1000
    assert max(batch.nbytes for batch in read) < 8000 + 4096  # what lies in one buffer is read at once
    assert all(batch.schema == SCHEMA for batch in read)


def test_a_batch_may_hold_rows_of_several_producers():
    shuffle = Shuffle()
    for producer in range(20):
        shuffle.produce(producer, [batch_of([producer])])
    (batch,) = shuffle.consume(0)
    assert batch.column(0).to_pylist() == list(range(20))


@pytest.mark.parametrize("fillers", [1, 4])
def test_fillers_come_behind_each_envelope_and_are_passed_over(fillers):
    shuffle = Shuffle(3, fillers=fillers)
    shuffle.produce(0, [batch_of(range(5000))])
    for rows in shuffle.rows.values():
        envelopes = [row.column(1)[0].as_py() for row in rows]
        assert [envelope is not None for envelope in envelopes] == [True, *[False] * fillers] * (
            len(rows) // (1 + fillers)
        )
    assert sorted(row["id"] for part in shuffle.everything() for row in part) == list(range(5000))


def test_fillers_count_toward_the_size_of_a_batch_and_there_are_not_endlessly_many():
    few, many = (Shuffle(8, fb.by_key("id"), fillers=fillers) for fillers in (0, MAX_FILLERS))
    rows = [batch_of(range(100_000))]
    most = max(batch.nbytes for batch in many.write.rows(0, iter(rows)))
    assert most < 3 * max(batch.nbytes for batch in few.write.rows(0, iter(rows)))
    for most_rows, least, most in ((10_000, 1, 10), (2**31 - 1, MAX_FILLERS, MAX_FILLERS), (0, 0, 0)):
        settings = {"maxRecordsPerBatch": most_rows, "maxBytesPerBatch": 2**31 - 1}
        session = SimpleNamespace(
            version="4.3.0", conf=SimpleNamespace(get=lambda name, known=settings: known[name.rpartition(".")[2]])
        )
        assert least <= filler_count(session, None) <= most


def test_functions_before_and_after_see_batches_of_their_partition():
    seen = []

    def double(batches):
        for batch in batches:
            seen.append("before")
            yield batch.set_column(0, "id", pa.array(np.array(batch.column(0)) * 2))

    def count(batches):
        yield pa.record_batch({"count": [sum(batch.num_rows for batch in batches)]})

    shuffle = Shuffle(2, "rebalance", before=double, after=count)
    shuffle.produce(0, [batch_of(range(10)), batch_of(range(10, 20))])
    assert seen == ["before", "before"]
    assert [shuffle.consume(channel)[0].to_pydict() for channel in (0, 1)] == [{"count": [10]}] * 2
    shuffle.rows[0].clear()
    assert shuffle.consume(0)[0].to_pydict() == {"count": [0]}


def test_a_partition_without_rows_sends_and_gives_nothing():
    shuffle = Shuffle(2)
    shuffle.produce(0, [])
    shuffle.produce(1, [batch_of([])])
    assert shuffle.everything() == [[], []]


def test_columns_get_their_names_back_and_may_come_in_another_order():
    source = FrameSource(names=["a.b", "c"])
    (renamed,) = source(iter([pa.record_batch({"c0": [1], "c1": ["x"]})]))
    assert renamed.schema.names == ["a.b", "c"]

    def swap(batches):
        for batch in batches:
            yield batch.select(["name", "id"])

    shuffle = Shuffle(before=swap)
    shuffle.produce(0, [batch_of(range(3))])
    assert shuffle.everything()[0][2] == {"id": 2, "name": "name 2"}
    assert next(MapTask(source)(iter([renamed]))).schema.names == ["a.b", "c"]


def test_what_before_gives_has_to_be_the_columns_that_were_said():
    def lose(batches):
        for batch in batches:
            yield batch.select(["id"])

    with pytest.raises(TypeError, match="name"):
        Shuffle(before=lose).produce(0, [batch_of(range(3))])


def test_a_null_that_may_not_be_is_refused_with_producer_row_and_column():
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), SCHEMA.field("name")])
    shuffle = Shuffle(2, fb.by_key("name"), columns=columns_of(schema))
    rows = pa.record_batch([pa.array([1, None]), pa.array(["a", "b"])], schema=SCHEMA)
    with pytest.raises(ValueError, match=r"producer 3, .*row 1.*id"):
        shuffle.produce(3, [rows])


def test_rows_whose_key_is_null_meet():
    shuffle = Shuffle(5, fb.by_key("name"))
    rows = pa.record_batch([pa.array(range(100)), pa.array(["a", None] * 50)], schema=SCHEMA)
    shuffle.produce(0, [rows])
    assert sorted(len(part) for part in shuffle.everything()) in ([0, 0, 0, 50, 50], [0, 0, 0, 0, 100])


def test_times_of_day_keep_their_microseconds():
    schema = pa.schema([pa.field("at", pa.list_(pa.time64("ns")))])
    shuffle = Shuffle(columns=columns_of(schema))
    rows = pa.record_batch([pa.array([[1_234_567_000], None], schema.field(0).type)], schema=schema)
    shuffle.produce(0, [rows])
    assert shuffle.consume(0)[0].equals(rows)


def test_a_sample_of_keys_is_one_row_and_bounds_come_of_it():
    columns = columns_of()
    task = FrameSampleTask(fb.by_range("id"), FrameSource(), columns, 50)
    rows = [row for producer in range(3) for row in task.sample(producer, iter([batch_of(range(producer, 3000, 3))]))]
    assert [row.num_rows for row in rows] == [1, 1, 1]
    samples = [KeySample(row.column(0)[0].as_py(), tuple(row.column(1)[0].as_py())) for row in rows]
    assert [(sample.count, len(sample.keys)) for sample in samples] == [(1000, 50)] * 3
    assert next(task.sample(0, iter([]))).to_pydict() == {"seen": [0], "keys": [[]]}
    by_id = fb.by_range("id")
    shuffle = Shuffle(4, by_id.with_bounds(range_bounds(samples, by_id, 4)))
    shuffle.produce(0, [batch_of(reversed(range(3000)))])
    parts = shuffle.everything()
    numbers = [[row["id"] for row in part] for part in parts]
    assert all(max(low) < min(high) for low, high in pairwise(numbers))
    assert sum(map(len, numbers)) == 3000


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_lost_envelope_is_an_error_that_names_producer_and_channel(lost):
    shuffle = Shuffle()
    shuffle.produce(2, [batch_of(range(5000))])
    del shuffle.rows[0][lost]
    with pytest.raises(fb.errors.CorruptDataError, match=r"exchange 0{15}7, channel 0, producer 2"):
        shuffle.consume(0)


def test_an_envelope_that_is_cut_is_no_beginning_of_the_next_producers_rows():
    shuffle = Shuffle(config=PLAIN)
    shuffle.produce(1, [batch_of(range(10))])
    data, *rest = shuffle.rows[0]
    cut = pa.record_batch([data.column(0), pa.array([data.column(1)[0].as_py()[:-3]], pa.binary())], data.schema.names)
    shuffle.rows[0][:] = [cut, *rest]
    shuffle.produce(2, [batch_of(range(10))])
    got = []
    with pytest.raises(
        fb.errors.CorruptDataError, match=r"channel 0, producer 1, at its end: its last record is cut off after"
    ):
        rows = pa.Table.from_batches(shuffle.rows[0]).combine_chunks().to_batches()
        for batch in shuffle.read(iter(rows)):
            got += batch.column(0).to_pylist()
    assert got == list(range(9))


def envelopes_in(shuffle):
    return [row.column(1)[0].as_py() for rows in shuffle.rows.values() for row in rows]


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD", "NONE"])
def test_buffers_cross_compressed_where_that_makes_them_smaller(codec):
    config = fb.NetworkConfig(segment_size=4096, compression_codec=codec)
    plain, shuffle = Shuffle(2, fb.by_key("name"), config=PLAIN), Shuffle(2, fb.by_key("name"), config=config)
    for each in (plain, shuffle):
        each.produce(0, [batch_of(range(5000))])
        each.produce(1, [batch_of(range(5000, 7000))])
    if codec == "NONE":
        assert envelopes_in(shuffle) == envelopes_in(plain)
    else:
        assert 2 * sum(map(len, envelopes_in(shuffle))) < sum(map(len, envelopes_in(plain)))
    assert shuffle.everything() == plain.everything()


def test_buffers_that_cannot_be_made_smaller_cross_as_they_are():
    schema = pa.schema([pa.field("noise", pa.binary())])
    rows = pa.record_batch([pa.array([np.random.default_rng(1).bytes(100_000)])], schema=schema)
    shuffle, plain = (Shuffle(columns=columns_of(schema), config=config) for config in (SMALL, PLAIN))
    for each in (shuffle, plain):
        each.produce(0, [rows])
    assert len(envelopes_in(shuffle)) > 20
    assert envelopes_in(shuffle)[1:-2] == envelopes_in(plain)[1:-2]  # the first and the last have zeros at their edges
    assert shuffle.everything() == [rows.to_pylist()]


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_compressed_buffer_with_wrong_bytes_is_an_error_or_other_rows_never_a_crash(codec, data):
    shuffle = Shuffle(config=fb.NetworkConfig(segment_size=4096, compression_codec=codec))
    shuffle.produce(3, [batch_of(range(200))])
    row, *rest = shuffle.rows[0]
    envelope = bytearray(row.column(1)[0].as_py())
    if data.draw(st.booleans()):
        del envelope[data.draw(st.integers(HEADER_SIZE, len(envelope) - 1)) :]
    else:
        envelope[data.draw(st.integers(HEADER_SIZE, len(envelope) - 1))] ^= data.draw(st.integers(1, 255))
    changed = pa.record_batch([row.column(0), pa.array([bytes(envelope)], pa.binary())], row.schema.names)
    shuffle.rows[0][:] = [changed, *rest]
    try:
        shuffle.consume(0)
    except fb.errors.CorruptDataError as error:
        assert "channel 0, producer 3" in str(error)


def test_rows_of_two_channels_in_one_partition_are_refused():
    shuffle = Shuffle(2)
    shuffle.produce(0, [batch_of(range(10))])
    mixed = [rows[0] for rows in shuffle.rows.values()]
    with pytest.raises(fb.errors.CorruptDataError, match="channel 0: Spark has put the rows of another channel"):
        list(shuffle.read(iter(pa.Table.from_batches(mixed).combine_chunks().to_batches())))


def test_the_tasks_survive_pickling_and_choose_the_same_again():
    shuffle = Shuffle(4, "shuffle")
    again = pickle.loads(pickle.dumps((shuffle.write, shuffle.read)))
    assert again == (shuffle.write, shuffle.read)
    batches = [batch_of(range(1000))]
    assert list(again[0].rows(1, iter(batches))) == list(shuffle.write.rows(1, iter(batches)))


def test_rows_arrive_where_they_lie_without_a_copy():
    shuffle = Shuffle()
    shuffle.produce(0, [batch_of(range(100))])
    rows = pa.Table.from_batches(shuffle.rows[0]).combine_chunks().to_batches()[0]
    arrivals = frame_tasks.Arrivals(EXCHANGE, -1, iter(()))
    first = next(shuffle.read._envelopes(iter([rows]), arrivals))
    base = rows.column(1).buffers()[2].address
    assert np.frombuffer(first, np.uint8).ctypes.data == base
    assert arrivals.channel == 0


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 300), max_size=6),
    channels=st.integers(1, 9),
    fillers=st.integers(0, 2),
    hashed=st.booleans(),
    partitioner=st.sampled_from(["rebalance", "shuffle", "global", fb.by_key("id"), fb.by_key(("name", "id"))]),
)
def test_every_row_arrives_once(sizes, channels, fillers, hashed, partitioner):
    shuffle = Shuffle(channels, partitioner, ids=hashed_ids(channels) if hashed else None, fillers=fillers)
    start = 0
    for producer, size in enumerate(sizes):
        shuffle.produce(producer, [batch_of(range(start, start + size))])
        start += size
    assert sorted(row["id"] for part in shuffle.everything() for row in part) == list(range(start))


@pytest.mark.parametrize("channels", [1, 2, 7, 200, 5000])
def test_each_channel_has_a_number_that_is_hashed_to_it(channels):
    assert partitions_of(np.array(hashed_ids(channels)), channels).tolist() == list(range(channels))


@pytest.mark.parametrize(
    ("given", "wanted", "found"),
    [
        (["b", "a"], ["a", "b"], [2, 1]),
        (["a", "b"], ["a", "b"], [1, 2]),
        (["x#0", "x#1"], ["x", "x"], [1, 2]),  # as the rows of such a DataFrame come
        (["x", "x"], ["x", "x"], [1, 2]),
    ],
)
def test_the_columns_of_a_users_function_are_put_in_order_by_their_names(given, wanted, found):
    named = NamedColumns(iter, wanted, "after", "schema= says")
    (batch,) = named([pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], given)])
    assert [column[0].as_py() for column in batch.columns] == found


@pytest.mark.parametrize("given", [["a", "c"], ["a"], ["a", "b", "c"], ["a", "a"], []])
def test_columns_of_other_names_are_refused(given):
    named = NamedColumns(iter, ["a", "b"], "after", "schema= says")
    batch = pa.RecordBatch.from_arrays([pa.array([1]) for _ in given], given)
    with pytest.raises(ValueError, match=r"after= gave a batch with the columns .*, where schema= says a, b"):
        list(named([batch]))


def test_a_users_generator_is_closed_with_what_reads_it():
    ended = []

    def function(batches):
        try:
            yield from batches
        finally:
            ended.append(True)

    results = NamedColumns(function, ["a"], "after", "schema= says")(iter([pa.record_batch({"a": [1]})] * 2))
    next(results)
    results.close()
    assert ended == [True]
