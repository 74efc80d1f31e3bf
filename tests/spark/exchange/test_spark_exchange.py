"""exchange(): the same records in the partitions that the partitioner says, or an error that says what is wrong."""

import datetime
import doctest
import logging
import operator
import os
import pickle
import struct
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy
import pytest

import flinkbuf as fb
from flinkbuf.records.partitioner import as_partitioner
from flinkbuf.spark.exchange.blocking import ReadTask, WriteTask
from flinkbuf.spark.exchange.envelope import HEADER_SIZE, Arrivals
from flinkbuf.spark.java import find_java, java_version

TYPE = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING()])
RECORDS = [(number, f"name {number % 17}") for number in range(1000)]


@pytest.fixture(scope="module")
def data(sc):
    """1000 records in 4 partitions, in order."""
    return sc.parallelize(RECORDS, 4).cache()


def partitions(rdd):
    return rdd.glom().collect()


def everything(parts):
    return [record for part in parts for record in part]


def envelopes_of(records, producer=0, channels=1, partitioner="global", **options):
    """What one map task sends, as (channel, envelope)."""
    task = WriteTask(7, TYPE, as_partitioner(partitioner), 4, channels, **options)
    return list(task(producer, iter(records)))


# ---------------------------------------------------------------- without Spark: the two halves of an exchange


def test_envelopes_of_mixed_producers_are_told_apart_and_each_keeps_its_order():
    sent = [envelopes_of(RECORDS[start::3] * 100, producer=start) for start in range(3)]
    mixed = [pair for turn in zip(*sent, strict=True) for pair in turn]
    assert len(mixed) > 50
    got = list(ReadTask(7, TYPE)(0, mixed))
    assert sorted(got) == sorted(RECORDS * 100)
    for start in range(3):
        assert [record for record in got if record[0] % 3 == start] == RECORDS[start::3] * 100


def test_envelopes_that_come_in_one_piece_are_read_without_waiting_for_the_rest():
    sent = envelopes_of(RECORDS * 100)
    taken = []
    records = ReadTask(7, TYPE)(0, (taken.append(pair) or pair for pair in sent))
    assert next(records) == RECORDS[0]
    assert len(taken) == 1 < len(sent)


def test_a_missing_buffer_is_an_error_that_names_producer_channel_and_sequence():
    sent = envelopes_of(RECORDS * 100, producer=3)
    where = r"channel 5, producer 3, after 1 buffers: buffer 2 came where buffer 1"
    with pytest.raises(fb.errors.CorruptDataError, match=where):
        list(ReadTask(7, TYPE)(5, sent[:1] + sent[2:]))


def test_a_buffer_that_comes_twice_is_an_error():
    sent = envelopes_of(RECORDS * 100)
    with pytest.raises(fb.errors.CorruptDataError, match="buffer 1 came twice or too late; buffer 2 was due"):
        list(ReadTask(7, TYPE)(0, sent[:2] + sent[1:]))


def test_a_channel_that_comes_twice_is_an_error():
    sent = envelopes_of(RECORDS)
    with pytest.raises(fb.errors.CorruptDataError, match="buffer 0 came after the end marker"):
        list(ReadTask(7, TYPE)(0, sent + sent))


def test_a_channel_without_its_end_is_an_error():
    sent = envelopes_of(RECORDS * 100)
    with pytest.raises(fb.errors.CorruptDataError, match="end marker of this producer never came"):
        list(ReadTask(7, TYPE)(0, sent[:-1]))


def test_a_record_cut_off_by_the_end_of_its_channel_is_an_error_that_names_the_producer():
    plain = fb.NetworkConfig(batch_shuffle_compression_enabled=False)
    (channel, envelope), end = envelopes_of(RECORDS[:10], producer=2, config=plain)
    records = ReadTask(7, TYPE)(0, [(channel, envelope[:-3]), end])
    got = []
    with pytest.raises(fb.errors.CorruptDataError, match="channel 0, producer 2.*record 9 at byte .*ends inside it"):
        got.extend(records)


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD"])
def test_buffers_are_compressed_and_the_reader_says_which_are_no_blocks_of_its_codec(codec):
    config = fb.NetworkConfig(compression_codec=codec)
    sent = envelopes_of(RECORDS * 100, config=config)
    plain = envelopes_of(RECORDS * 100, config=fb.NetworkConfig(batch_shuffle_compression_enabled=False))
    assert 1.3 * sum(len(envelope) for _, envelope in sent) < sum(len(envelope) for _, envelope in plain)
    assert list(ReadTask(7, TYPE, config)(0, sent)) == RECORDS * 100
    other = fb.NetworkConfig(compression_codec="LZ4" if codec == "ZSTD" else "ZSTD")
    with pytest.raises(fb.errors.CorruptDataError, match="channel 0, producer 0.*does the producer use another"):
        list(ReadTask(7, TYPE, other)(0, sent))


def test_an_original_larger_than_a_segment_is_refused_before_memory_is_taken():
    sent = envelopes_of(RECORDS * 100)
    small = fb.NetworkConfig(segment_size=4096)
    with pytest.raises(fb.errors.CorruptDataError, match="more than a segment of 4096"):
        list(ReadTask(7, TYPE, small)(0, sent))


def test_an_envelope_of_no_kind_is_refused():
    (channel, envelope), *rest = envelopes_of(RECORDS)
    unknown = envelope[: HEADER_SIZE - 1] + b"\x03" + envelope[HEADER_SIZE:]
    with pytest.raises(
        fb.errors.CorruptDataError, match="producer 0, after 0 buffers: an envelope of kind 3, which is none"
    ):
        list(ReadTask(7, TYPE)(0, [(channel, unknown), *rest]))


def test_an_envelope_of_another_exchange_is_refused():
    with pytest.raises(fb.errors.CorruptDataError, match="exchange 0000000000000007; it does not belong here"):
        list(ReadTask(8, TYPE)(0, envelopes_of(RECORDS)))
    with pytest.raises(fb.errors.CorruptDataError, match="envelope of 5 bytes is shorter than its header of 21 bytes"):
        list(ReadTask(7, TYPE)(0, [(0, b"short")]))


def test_random_choices_are_the_same_when_spark_runs_a_task_again():
    for partitioner in ("shuffle", "rebalance"):
        assert envelopes_of(RECORDS, 1, 8, partitioner) == envelopes_of(RECORDS, 1, 8, partitioner)
    assert envelopes_of(RECORDS, 1, 8, "shuffle")[0][1][21:] != envelopes_of(RECORDS, 2, 8, "shuffle")[0][1][21:]


def test_the_tasks_survive_pickling():
    write = WriteTask(7, TYPE, fb.by_key(0), 4, 8)
    read = ReadTask(7, TYPE)
    assert pickle.loads(pickle.dumps((write, read))) == (write, read)


def test_memory_holds_only_the_buffers_that_wait():
    arrivals = Arrivals(7, 0, (envelope for _, envelope in envelopes_of(RECORDS * 100)))
    for producer in arrivals.producers():
        for _ in arrivals.buffers_of(producer):
            assert sum(map(len, arrivals.waiting.values())) <= 1
    assert not arrivals.waiting


# ---------------------------------------------------------------- partitioners


@pytest.mark.spark
@pytest.mark.parametrize("num_partitions", [1, 3, 4, 12])
def test_equal_keys_meet_in_one_partition(data, num_partitions):
    parts = partitions(fb.exchange(data, 1, type=TYPE, num_partitions=num_partitions))
    assert len(parts) == num_partitions
    assert sorted(everything(parts)) == RECORDS
    homes = {}
    for index, part in enumerate(parts):
        for _, name in part:
            assert homes.setdefault(name, index) == index


@pytest.mark.spark
def test_a_key_goes_where_flink_would_send_it(data):
    selector = fb.by_key(1).selector(TYPE, 5)
    parts = partitions(fb.exchange(data, partitioner=fb.by_key(1), type=TYPE, num_partitions=5))
    for index, part in enumerate(parts):
        assert {selector.select_channel(record) for record in part} <= {index}


@pytest.mark.spark
def test_it_gathers_the_same_groups_as_partition_by(data):
    def groups(records):
        found = {}
        for number, name in records:
            found.setdefault(name, []).append(number)
        yield from ((name, sorted(numbers)) for name, numbers in found.items())

    ours = fb.exchange(data, 1, type=TYPE, num_partitions=3).mapPartitions(groups).collect()
    theirs = data.keyBy(lambda record: record[1]).partitionBy(3).values().mapPartitions(groups).collect()
    assert sorted(ours) == sorted(theirs)


@pytest.mark.spark
@pytest.mark.parametrize("num_partitions", [1, 3, 4, 9])
def test_rebalance_gives_every_partition_its_share(data, num_partitions):
    parts = partitions(fb.exchange(data, type=TYPE, num_partitions=num_partitions))
    assert sorted(everything(parts)) == RECORDS
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 4  # one for each producer at most


@pytest.mark.spark
def test_shuffle_gives_every_partition_some(data):
    parts = partitions(fb.exchange(data, partitioner="shuffle", type=TYPE, num_partitions=3))
    assert sorted(everything(parts)) == RECORDS
    assert min(len(part) for part in parts) > 200


@pytest.mark.spark
def test_global_sends_everything_to_the_first_partition(data):
    first, *others = partitions(fb.exchange(data, partitioner="global", type=TYPE, num_partitions=3))
    assert sorted(first) == RECORDS
    assert others == [[], []]


@pytest.mark.spark
def test_broadcast_gives_everything_to_every_partition(data):
    parts = partitions(fb.exchange(data, partitioner="broadcast", type=TYPE, num_partitions=3))
    assert [sorted(part) for part in parts] == [RECORDS] * 3


@pytest.mark.spark
def test_forward_leaves_every_partition_as_it_is(data):
    assert partitions(fb.exchange(data, partitioner="forward", type=TYPE)) == partitions(data)


@pytest.mark.spark
def test_forward_into_another_number_of_partitions_is_refused(data):
    with pytest.raises(ValueError, match="num_partitions must be that of the data, 4; got 3"):
        fb.exchange(data, partitioner="forward", type=TYPE, num_partitions=3)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("num_partitions", "sources"),
    [
        (2, [{0, 1}, {2, 3}]),
        (3, [{0}, {1}, {2, 3}]),
        (6, [{0}, {0}, {1}, {2}, {2}, {3}]),
    ],
)
def test_rescale_sends_each_partition_to_its_neighbours_only(data, num_partitions, sources):
    parts = partitions(fb.exchange(data, partitioner="rescale", type=TYPE, num_partitions=num_partitions))
    assert sorted(everything(parts)) == RECORDS
    assert [{number // 250 for number, _ in part} for part in parts] == sources


@pytest.mark.spark
def test_a_function_of_the_record_chooses_the_partition(data):
    def choose(record, count):
        return record[0] % count

    parts = partitions(fb.exchange(data, partitioner=choose, type=TYPE, num_partitions=3))
    assert [{number % 3 for number, _ in part} for part in parts] == [{0}, {1}, {2}]


@pytest.mark.spark
def test_a_key_function_needs_no_declared_key_type(data, caplog):
    parts = partitions(fb.exchange(data, lambda record: record[1][-1], type=TYPE, num_partitions=3))
    assert sorted(everything(parts)) == RECORDS
    assert "key_type=fb.Types.STRING()" in caplog.text
    homes = Counter((name[-1], index) for index, part in enumerate(parts) for _, name in part)
    assert len(homes) == len({letter for letter, _ in homes})


@pytest.mark.spark
def test_what_one_partition_sends_to_another_keeps_its_order(data):
    for part in partitions(fb.exchange(data, type=TYPE, num_partitions=3)):
        for producer in range(4):
            numbers = [number for number, _ in part if number // 250 == producer]
            assert numbers == sorted(numbers)
            assert numbers


# ---------------------------------------------------------------- shapes of data


@pytest.mark.spark
def test_empty_partitions_and_an_empty_rdd_give_empty_partitions(sc):
    assert partitions(fb.exchange(sc.parallelize([], 3), 0, type=TYPE, num_partitions=2)) == [[], []]
    assert partitions(fb.exchange(sc.parallelize([], 3), 0)) == [[], [], []]
    assert fb.exchange(sc.emptyRDD(), type=TYPE).collect() == []
    some_empty = sc.parallelize([(1, "a")], 4)
    assert fb.exchange(some_empty, 0, type=TYPE, num_partitions=3).collect() == [(1, "a")]
    assert fb.exchange(some_empty, 0, num_partitions=3).collect() == [(1, "a")]


@pytest.mark.spark
def test_records_of_10_mb_arrive_whole(sc):
    sizes = [0, 1, 32_763, 32_764, 32_765, 10_000_000, 5, 10_000_001]
    big = sc.parallelize(sizes, 2).map(lambda size: (size, bytes(range(256)) * (size // 256) + b"x" * (size % 256)))
    record_type = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())])

    def check(record):
        size, data = record
        return size, data == bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    got = fb.exchange(big, 0, type=record_type, num_partitions=3).map(check).collect()
    assert sorted(got) == sorted((size, True) for size in sizes)


@pytest.mark.spark
def test_nulls_rows_and_nested_values_arrive_as_they_were(spark):
    schema = "id bigint, name string, tags array<string>, score double, counts map<string,bigint>"
    rows = [(1, "a", ["x", "y"], 0.5, {"k": 1}), (2, None, None, None, None), (3, "ü€😀", [], -0.0, {})]
    frame = spark.createDataFrame(rows, schema)
    got = sorted(fb.exchange(frame.rdd, "id", type=frame.schema, num_partitions=3).collect())
    assert got == rows
    assert str(got[2][3]) == "-0.0"
    assert got[0].name == "a"
    assert spark.createDataFrame(fb.exchange(frame.rdd, "id", type=frame.schema), frame.schema).count() == 3


LOCAL_NOON = datetime.datetime(2013, 7, 1, 12, 30, 15, 250_000)


@pytest.mark.spark
def test_timestamps_of_a_data_frame_come_back_as_they_went_in(spark):
    schema = "id int, at timestamp, past array<timestamp>, by map<string, struct<at: timestamp>>, day timestamp_ntz"
    rows = [(1, LOCAL_NOON, [LOCAL_NOON, None], {"a": (LOCAL_NOON,)}, LOCAL_NOON), (2, None, None, None, None)]
    frame = spark.createDataFrame(rows, schema)
    moved = fb.exchange(frame.rdd, "id", type=frame.schema, num_partitions=3)
    assert sorted(moved.collect()) == rows
    again = spark.createDataFrame(moved, frame.schema)
    assert sorted(again.collect()) == rows
    assert again.selectExpr("max(string(at))").first()[0] == "2013-07-01 12:30:15.25"
    (only,) = fb.exchange(frame.rdd.map(lambda row: row.at).filter(bool), type=frame.schema["at"].dataType).collect()
    assert only == LOCAL_NOON


@pytest.mark.spark
def test_aware_datetimes_are_moved_by_ddl_and_a_pyspark_type_says_so(spark, sc):
    from pyspark.sql.types import StructType, TimestampType

    moment = LOCAL_NOON.replace(tzinfo=datetime.timezone.utc)
    aware = sc.parallelize([(1, moment)], 1)
    assert fb.exchange(aware, type="id int, at timestamp").collect() == [(1, moment)]
    schema = StructType().add("id", "integer").add("at", TimestampType())
    with pytest.raises(Exception, match=r"declare the type in DDL, or with fb\.Types\.TIMESTAMP_LTZ\(\)"):
        fb.exchange(aware, type=schema).collect()


@pytest.mark.spark
def test_rows_come_back_as_rows_with_names_that_know_their_dict(spark):
    frame = spark.createDataFrame([("JFK", 2.5)], "origin string, delay double")
    (row,) = fb.exchange(frame.rdd, "origin", type=frame.schema).collect()
    assert isinstance(row, fb.Row)
    assert (row.origin, row[1], row.as_dict()) == ("JFK", 2.5, {"origin": "JFK", "delay": 2.5})


@pytest.mark.spark
def test_the_example_of_the_docstring_is_true(sc):
    examples = doctest.DocTestParser().get_examples(fb.exchange.__doc__)[:4]  # behind them: a DataFrame
    names = {"fb": fb, "sc": sc}
    for example in examples[:-1]:
        exec(example.source, names)
    assert repr(eval(examples[-1].source, names)) == examples[-1].want.strip()


def test_keys_are_equal_as_javas_equals_sees_it():
    zero = fb.by_key(0, key_type="double").selector(fb.Types.TUPLE([fb.Types.DOUBLE()]), 128)
    assert zero.select_channel((0.0,)) != zero.select_channel((-0.0,))
    decimals = fb.by_key("*").selector(fb.Types.BIG_DEC(), 128)
    assert decimals.select_channel(Decimal("1.0")) != decimals.select_channel(Decimal("1.00"))
    normal = fb.by_key(Decimal.normalize, key_type=fb.Types.BIG_DEC()).selector(fb.Types.BIG_DEC(), 128)
    assert normal.select_channel(Decimal("1.0")) == normal.select_channel(Decimal("1.00"))


@pytest.mark.spark
def test_the_number_of_partitions_may_be_numpys(data):
    assert fb.exchange(data, 0, type=TYPE, num_partitions=numpy.int64(3)).getNumPartitions() == 3


@pytest.mark.spark
def test_many_more_channels_than_buffers_in_memory(data):
    config = fb.NetworkConfig(sort_shuffle_min_buffers=4, segment_size=4096)
    parts = partitions(fb.exchange(data, 0, type=TYPE, num_partitions=8, config=config))
    assert sorted(everything(parts)) == RECORDS


@pytest.mark.spark
def test_exchanges_follow_one_another(data):
    there = fb.exchange(data, 1, type=TYPE, num_partitions=5)
    back = fb.exchange(there.map(lambda record: (record[0] + 1, record[1])), 0, type=TYPE, num_partitions=2)
    assert sorted(back.collect()) == [(number + 1, name) for number, name in RECORDS]


@pytest.mark.spark
def test_take_stops_early_and_the_workers_go_on(sc):
    endless = sc.parallelize(range(2), 2).flatMap(lambda start: ((number, "x" * 1000) for number in range(20_000)))
    moved = fb.exchange(endless, type=TYPE, num_partitions=3)
    assert len(moved.take(5)) == 5
    assert moved.count() == 40_000


# ---------------------------------------------------------------- types left out


@pytest.mark.spark
def test_the_type_is_taken_from_a_sample_and_can_be_given_back(data, caplog):
    with caplog.at_level(logging.WARNING, "flinkbuf"):
        assert sorted(fb.exchange(data, 0).collect()) == RECORDS
    (message,) = [record.getMessage() for record in caplog.records if record.name == "flinkbuf"]
    text = message.split("type=")[1].split(";")[0]
    assert eval(text, {"fb": fb}) == TYPE


def test_the_type_taken_is_shown_without_any_logging_set_up():
    program = "import logging; logging.getLogger('flinkbuf').warning('shown to the user')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "shown to the user" in done.stderr


@pytest.mark.spark
def test_a_later_record_that_does_not_fit_the_sample_fails_with_field_value_number_and_advice(sc):
    mixed = sc.parallelize(range(5000), 2).map(lambda number: (number, "late" if number == 2400 else number / 2))
    with pytest.raises(Exception, match="declare type=") as failure:
        fb.exchange(mixed, 0).collect()
    text = str(failure.value)
    assert "TypeError" in text
    for part in ("'late'", "2400", "fb.Types.TUPLE([fb.Types.LONG(), fb.Types.DOUBLE()])"):
        assert part in text


@pytest.mark.spark
def test_a_record_that_does_not_fit_the_declared_type_fails_with_field_value_and_number(sc):
    wrong = sc.parallelize([(1, "a"), (2, 3.5)], 1)
    with pytest.raises(Exception, match="TypeError") as failure:
        fb.exchange(wrong, 0, type="n bigint, s string").collect()
    assert "3.5" in str(failure.value)
    assert "declare type=" not in str(failure.value)


@pytest.mark.spark
def test_no_sample_is_taken_of_a_barrier_stage(sc):
    made = sc.parallelize(RECORDS, 4).barrier().mapPartitions(iter)
    with pytest.raises(ValueError, match="made in a barrier stage.*declare type="):
        fb.exchange(made, 0)


@pytest.mark.spark
def test_rows_whose_column_is_always_null_ask_for_the_schema(spark):
    frame = spark.createDataFrame([(1, None), (2, None)], "id int, name string")
    with pytest.raises(TypeError, match=r"'name' was None in all 2 samples.*type=df\.schema$"):
        fb.exchange(frame.rdd, "id")
    with pytest.raises(TypeError, match="None in all 2 samples") as failure:
        fb.exchange(frame.rdd.map(tuple), 0)
    assert "df.schema" not in str(failure.value)


@pytest.mark.spark
@pytest.mark.parametrize(("partition_count", "job_count"), [(0, 0), (1, 1), (3, 1), (40, 2)])
def test_an_empty_rdd_costs_few_jobs(sc, monkeypatch, partition_count, job_count):
    empty = sc.parallelize([], partition_count) if partition_count else sc.emptyRDD()
    jobs = []
    run_job = type(sc).runJob
    monkeypatch.setattr(type(sc), "runJob", lambda *args, **kwargs: jobs.append(1) or run_job(*args, **kwargs))
    assert fb.exchange(empty, 0).getNumPartitions() == max(1, partition_count)
    assert len(jobs) == job_count


@pytest.mark.spark
def test_the_only_record_is_found_wherever_it_is(sc):
    far = sc.parallelize(range(40), 40).flatMap(lambda number: [(number, "x")] if number == 29 else [])
    assert fb.exchange(far, 0).collect() == [(29, "x")]


# ---------------------------------------------------------------- errors


INTS = fb.Types.LONG()
PAIRS = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.LONG()])
FEW = {}
MANY = {"config": fb.NetworkConfig(sort_shuffle_min_buffers=4), "channel_count": 8}


def failure_of(records, record_type, partitioner="rebalance", sampled=("type", "key_type"), channel_count=2, **options):
    task = WriteTask(7, record_type, as_partitioner(partitioner), 4, channel_count, sampled=sampled, **options)
    with pytest.raises(Exception) as failure:
        list(task(3, iter(records)))
    return failure.value


@pytest.mark.parametrize("options", [FEW, MANY], ids=["hash", "sort"])
def test_a_refused_record_is_named_with_its_producer_and_the_sampled_type(options):
    error = failure_of([1, 2, "late"], INTS, **options)
    assert type(error) is TypeError
    assert str(error).startswith("producer 3, record 2: value: expected LONG, got 'late' (str)")
    assert str(error).endswith(
        "(type=fb.Types.LONG() was taken from a sample: declare type= so that it fits every record)"
    )
    error = failure_of([1, 2**70], INTS, sampled=(), **options)
    assert type(error) is OverflowError
    assert str(error).startswith("producer 3, record 1: ")
    assert "declare" not in str(error)


@pytest.mark.parametrize("options", [FEW, MANY], ids=["hash", "sort"])
def test_a_refused_key_is_named_with_its_producer_and_the_type_that_was_sampled(options):
    error = failure_of([(1, 1), ("a", 1)], PAIRS, fb.by_key(0), **options)
    assert str(error).startswith("producer 3, record 1: key field 'f0': expected LONG")
    assert "declare type=" in str(error)
    by_name = fb.by_key(lambda pair: pair[0] or "none", key_type=INTS)
    error = failure_of([(1, 1), (0, 1)], PAIRS, by_name, sampled=("key_type",), **options)
    assert "(key_type=fb.Types.LONG() was taken from a sample: declare key_type=" in str(error)
    error = failure_of([(1, 1), (None, 1)], fb.Types.ROW([INTS, INTS]), fb.by_key(0), **options)
    assert str(error).startswith("producer 3, record 1: key field 'f0' is None")
    assert "declare" not in str(error)


@pytest.mark.parametrize("answer", [99, "99"])
@pytest.mark.parametrize("options", [FEW, MANY], ids=["hash", "sort"])
def test_a_wrong_answer_of_the_partitioner_is_not_blamed_on_the_type(options, answer):
    error = failure_of([1], INTS, lambda record, count: answer, **options)
    assert str(error).startswith("producer 3, record 0: the partitioner <function")
    assert "declare" not in str(error)


def bad_pairs():
    return iter([(1, 1), (2, "two")])


OWN_ERRORS = {
    "a generator": (lambda: (int(text) for text in ["x"]), "rebalance"),
    "an iterator in C": (lambda: map(int, ["x"]), "rebalance"),
    "buffers of the user": (lambda: map(operator.itemgetter(0), fb.write_buffers(bad_pairs(), PAIRS, 2)), "rebalance"),
    "buffers as they come": (lambda: fb.write_buffers(bad_pairs(), PAIRS, 2), "rebalance"),
    "an exchange before": (lambda: ReadTask(9, INTS)(0, envelopes_of(RECORDS)), "rebalance"),
    "a codec's function": (lambda: map(PAIRS.serialize, [(2, "two")]), "rebalance"),
    "the core's codec": (lambda: map(PAIRS.codec.serialize, [(2, "two")]), "rebalance"),
    "a partitioner in C": (lambda: [(1, 1)], operator.floordiv),
    "a key in C": (lambda: [(1, 1)], fb.by_key(operator.itemgetter("x"), key_type=INTS)),
}


@pytest.mark.parametrize("options", [FEW, MANY], ids=["hash", "sort"])
@pytest.mark.parametrize("name", OWN_ERRORS)
def test_what_the_users_own_code_raises_is_not_changed(name, options):
    records, partitioner = OWN_ERRORS[name]
    error = failure_of(records(), PAIRS, partitioner, **options)
    assert "producer 3" not in str(error)
    assert "was taken from a sample" not in str(error)


@pytest.mark.spark
def test_a_damaged_stream_that_feeds_an_exchange_stays_a_corrupt_data_error(sc):
    (channel, envelope), end = envelopes_of(RECORDS[:10])
    sent = sc.parallelize([(channel, envelope[:-3]), end], 1)
    moved = fb.exchange(sent.mapPartitionsWithIndex(ReadTask(7, TYPE)), 0, type=TYPE)
    with pytest.raises(Exception, match=r"CorruptDataError: exchange 0{15}7, channel 0") as failure:
        moved.collect()
    assert "declare type=" not in str(failure.value)


@pytest.mark.spark
def test_keys_that_records_cannot_have_are_refused_with_the_way_out(data, sc):
    with pytest.raises(ValueError, match=r"fb\.by_key\(key, key_type=fb\.Types\.TUPLE\(\[\.\.\.\]\)\)"):
        fb.exchange(data, (0, len), type=TYPE)
    three = fb.by_key((0, lambda record: record[1]), key_type=TYPE)
    assert sorted(fb.exchange(data, partitioner=three, type=TYPE, num_partitions=3).collect()) == RECORDS
    with pytest.raises(ValueError, match=r"field inside a field is a function: key=lambda record: record\.a\.b"):
        fb.exchange(data, "a.b", type="a struct<b: int>, c int")
    scalars = sc.parallelize(["a", "b"], 1)
    for key in (0, "name"):
        with pytest.raises(
            ValueError, match=r"records of fb\.Types\.STRING\(\) have no field .*: key='\*' is the whole"
        ):
            fb.exchange(scalars, key)
    assert fb.exchange(scalars, "*").collect() == ["a", "b"]


@pytest.mark.spark
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_error_of_the_users_code_comes_through_unchanged(sc, is_declared):
    def fail(number):
        if number == 1500:
            raise TypeError("my own message, record 1500")
        return number, "fine"

    failing = sc.parallelize(range(2000), 2).map(fail)
    with pytest.raises(Exception, match=r"TypeError: my own message, record 1500(\n|$)") as failure:
        fb.exchange(failing, 0, type=TYPE if is_declared else None).collect()
    assert "declare type=" not in str(failure.value)


@pytest.mark.spark
def test_an_error_of_the_users_partitioner_comes_through_unchanged(data):
    def choose(record, count):
        raise KeyError("no home for this record")

    with pytest.raises(Exception, match="KeyError: 'no home for this record'"):
        fb.exchange(data, partitioner=choose, type=TYPE).collect()


@pytest.mark.spark
def test_a_partitioner_that_names_no_channel_is_an_error(data):
    with pytest.raises(Exception, match="99"):
        fb.exchange(data, partitioner=lambda record, count: 99, type=TYPE).collect()


@pytest.mark.spark
def test_wrong_arguments_are_refused_before_any_job(data, spark):
    with pytest.raises(ValueError, match="mode must be one of 'blocking', 'pipelined', got 'streamed'"):
        fb.exchange(data, 0, type=TYPE, mode="streamed")
    with pytest.raises(ValueError, match="either key or partitioner"):
        fb.exchange(data, 0, type=TYPE, partitioner="global")
    with pytest.raises(ValueError, match="'roundrobin'"):
        fb.exchange(data, type=TYPE, partitioner="roundrobin")
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"num_partitions must be at least 1, got {wrong}"):
            fb.exchange(data, 0, type=TYPE, num_partitions=wrong)
    for wrong in (2.5, True, "8"):
        with pytest.raises(TypeError, match=f"num_partitions must be a whole number, got {wrong!r}"):
            fb.exchange(data, 0, type=TYPE, num_partitions=wrong)
    for wrong in ({"segment_size": 4096}, fb.NetworkConfig, 4096):
        with pytest.raises(TypeError, match=r"config must be a NetworkConfig, such as fb\.NetworkConfig\("):
            fb.exchange(data, 0, type=TYPE, config=wrong)
    with pytest.raises(ValueError, match="no field 'origin'"):
        fb.exchange(data, "origin", type="n bigint, s string")
    with pytest.raises(TypeError, match=r"takes an RDD or a DataFrame of PySpark, got builtins\.list"):
        fb.exchange(RECORDS, 0, type=TYPE)
    with pytest.raises(TypeError, match=r"type= is for RDDs"):
        fb.exchange(spark.range(3), "id", type="id bigint")
    with pytest.raises(TypeError, match=r"after= is for DataFrames; of an RDD: rdd\.mapPartitions"):
        fb.exchange(data, 0, type=TYPE, after=iter)


# ---------------------------------------------------------------- the Java runtime


def fake_java(home, version):
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="someone"\nJAVA_VERSION="{version}"\n')
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    return home


def test_java_home_is_taken_if_it_is_new_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "25.0.1")))
    assert find_java() == tmp_path / "jdk"


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    good = fake_java(tmp_path / "good", "17.0.2")
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert java_version(tmp_path / "old") == 8
    assert find_java() == good


def test_a_tested_java_is_preferred_to_a_newer_one(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "99") / "bin"))
    good = fake_java(tmp_path / "good", "21.0.2")
    found = {"/usr/lib/jvm/*": [str(good)]}
    monkeypatch.setattr("flinkbuf.spark.java.glob", lambda pattern: found.get(pattern, []))
    assert find_java() == good


def test_without_java_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("flinkbuf.spark.java.glob", lambda pattern: [])
    with pytest.raises(FileNotFoundError, match=r"old \(version 11\)") as failure:
        find_java()
    assert "apt-get install openjdk-17-jre-headless" in str(failure.value)


def test_importing_flinkbuf_imports_neither_pyspark_nor_pyarrow():
    program = "import sys, flinkbuf; print({'pyspark', 'pyarrow', 'pandas', 'matplotlib'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"


def test_the_header_is_21_bytes_so_that_a_buffer_costs_little_more_than_its_records():
    ((_, envelope), _) = envelopes_of([(1, "a")])
    assert len(envelope) == 21 + struct.calcsize(">i") + len(TYPE.serialize((1, "a")))


def test_ranges_are_those_that_spark_would_sort_by(sc):
    numbers = [(number * 7919) % 5003 - 2500 for number in range(4000)] + [None] * 5
    data = sc.parallelize([(number, f"n{number}") for number in numbers], 3)
    partitioner = fb.by_range("n", ascending=False)
    parts = fb.exchange(data, type="n bigint, name string", partitioner=partitioner, num_partitions=4).glom().collect()
    found = [row.n for part in parts for row in sorted(part, key=lambda row: (row.n is None, -(row.n or 0)))]
    assert found == sorted([n for n in numbers if n is not None], reverse=True) + [None] * 5
    assert max(map(len, parts)) < 1300
