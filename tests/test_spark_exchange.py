"""exchange(): the same records in the partitions that the partitioner says, or an error that says what is wrong."""

import logging
import os
import pickle
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import flinkbuf as fb
from flinkbuf.partitioner import as_partitioner
from flinkbuf.spark.exchange import Arrivals, ReadTask, WriteTask
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
    with pytest.raises(fb.CorruptDataError, match=where):
        list(ReadTask(7, TYPE)(5, sent[:1] + sent[2:]))


def test_a_buffer_that_comes_twice_is_an_error():
    sent = envelopes_of(RECORDS * 100)
    with pytest.raises(fb.CorruptDataError, match="buffer 1 came twice or too late; buffer 2 was due"):
        list(ReadTask(7, TYPE)(0, sent[:2] + sent[1:]))


def test_a_channel_that_comes_twice_is_an_error():
    sent = envelopes_of(RECORDS)
    with pytest.raises(fb.CorruptDataError, match="buffer 0 came after the end marker"):
        list(ReadTask(7, TYPE)(0, sent + sent))


def test_a_channel_without_its_end_is_an_error():
    sent = envelopes_of(RECORDS * 100)
    with pytest.raises(fb.CorruptDataError, match="end marker of this producer never came"):
        list(ReadTask(7, TYPE)(0, sent[:-1]))


def test_a_record_cut_off_by_the_end_of_its_channel_is_an_error_that_names_the_producer():
    (channel, envelope), end = envelopes_of(RECORDS[:10], producer=2)
    records = ReadTask(7, TYPE)(0, [(channel, envelope[:-3]), end])
    got = []
    with pytest.raises(fb.CorruptDataError, match="channel 0, producer 2.*end inside record 9"):
        got.extend(records)


def test_an_envelope_of_another_exchange_is_refused():
    with pytest.raises(fb.CorruptDataError, match="exchange 0000000000000007; it does not belong here"):
        list(ReadTask(8, TYPE)(0, envelopes_of(RECORDS)))
    with pytest.raises(fb.CorruptDataError, match="envelope of 5 bytes is shorter than its header of 21 bytes"):
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
@pytest.mark.parametrize(("num_partitions", "sources"), [
    (2, [{0, 1}, {2, 3}]),
    (3, [{0}, {1}, {2, 3}]),
    (6, [{0}, {0}, {1}, {2}, {2}, {3}]),
])  # fmt: skip
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


@pytest.mark.spark
def test_many_more_channels_than_buffers_in_memory(data):
    config = fb.NetworkConfig(sort_shuffle_min_buffers=8, segment_size=4096)
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
    assert eval(text, {"fb": fb}) == TYPE  # noqa: S307


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


# ---------------------------------------------------------------- errors


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
    with pytest.raises(ValueError, match="mode must be one of 'blocking', got 'pipelined'"):
        fb.exchange(data, 0, type=TYPE, mode="pipelined")
    with pytest.raises(ValueError, match="either key or partitioner"):
        fb.exchange(data, 0, type=TYPE, partitioner="global")
    with pytest.raises(ValueError, match="'roundrobin'"):
        fb.exchange(data, type=TYPE, partitioner="roundrobin")
    for wrong in (0, -1, 2.5, True, "8"):
        with pytest.raises(ValueError, match="num_partitions must be a whole number of at least 1"):
            fb.exchange(data, 0, type=TYPE, num_partitions=wrong)
    with pytest.raises(ValueError, match="no field 'origin'"):
        fb.exchange(data, "origin", type="n bigint, s string")
    with pytest.raises(TypeError, match=r"takes an RDD, got builtins\.list"):
        fb.exchange(RECORDS, 0, type=TYPE)
    with pytest.raises(TypeError, match=r"fb\.exchange\(df\.rdd, key, type=df\.schema\)"):
        fb.exchange(spark.range(3), "id")


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
