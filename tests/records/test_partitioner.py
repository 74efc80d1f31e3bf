"""Descriptions of partitioners: what they resolve to, what they refuse, and that they travel."""

import dataclasses
import operator
import pickle

import numpy as np
import pytest

from flinkbuf.records.partitioner import (
    NAMES,
    KeyPartitioner,
    Partitioner,
    as_partitioner,
    by_key,
    default_max_parallelism,
    key_group,
    pointwise_targets,
)
from flinkbuf.types.types import Types, as_type, object_type

FLIGHT = as_type("origin string, delay double, seats int")
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
RECORD = ("JFK", 2.5, 180)


def hash_of(key, record_type=FLIGHT, record=RECORD, **options):
    return by_key(key, **options).selector(record_type, 4).hash_code_of(record)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_gives_a_partitioner_that_pickles(name):
    partitioner = as_partitioner(name)
    copy = pickle.loads(pickle.dumps(partitioner))
    assert copy == partitioner and copy.kind == name and as_partitioner(copy) is copy
    selector = copy.selector(FLIGHT, 3)
    assert (selector.kind, selector.channel_count) == (name, 3)
    assert selector.is_broadcast == (name == "broadcast")


@pytest.mark.parametrize(
    "partitioner",
    [
        by_key("origin"),
        by_key(("origin", 2), max_parallelism=7),
        by_key(operator.itemgetter(1), "double"),
        as_partitioner(max),
    ],
    ids=repr,
)
def test_keyed_and_custom_partitioners_pickle_and_are_frozen(partitioner):
    copy = pickle.loads(pickle.dumps(partitioner))
    assert isinstance(copy, Partitioner) and copy.kind == partitioner.kind
    assert repr(copy) == repr(partitioner) or "itemgetter" in repr(copy)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.anything = 1


def test_a_pickled_partitioner_sends_records_the_same_way():
    partitioner = by_key(("origin", "seats"))
    copy = pickle.loads(pickle.dumps(partitioner))
    records = [(text, 0.0, i) for i, text in enumerate("abcdefgh")]
    one, other = partitioner.selector(FLIGHT, 5), copy.selector(FLIGHT, 5)
    assert one.channels_of(records).tolist() == other.channels_of(records).tolist()


@pytest.mark.parametrize(
    ("key", "expected"), [("origin", 73359), (0, 73359), ("seats", 180), (2, 180), ("delay", 1074003968)]
)
def test_a_field_is_named_or_numbered(key, expected):
    assert hash_of(key) == expected
    assert hash_of(key, record=dict(zip(FLIGHT.field_names, RECORD, strict=True))) == expected


def test_the_fields_of_a_tuple_have_flinks_names():
    assert hash_of("f1", PAIR, (5, "a")) == hash_of(1, PAIR, (5, "a")) == 97


def test_several_fields_are_hashed_as_flinks_tuple():
    expected = KeyPartitioner((0, 1)).selector(PAIR, 4).hash_code_of((1, "a"))
    assert expected == 128 == hash_of(["f0", "f1"], PAIR, (1, "a"))
    assert hash_of(("origin",)) == 73359


def test_the_whole_record_may_be_the_key():
    assert hash_of("*", Types.LONG(), 7) == 7
    assert hash_of("*", PAIR, (1, "a")) == 128
    selector = by_key("*").selector(Types.LONG(), 4)
    assert selector.channels_of(np.arange(9)).tolist() == [selector.select_channel(i) for i in range(9)]
    starred = Types.ROW_NAMED(["*", "b"], [Types.INT(), Types.INT()])
    assert hash_of("*", starred, (3, 4)) == 3


def test_what_a_function_gives_is_hashed_by_its_type_or_by_what_it_is():
    assert hash_of(lambda record: record[0][0], key_type="string") == ord("J")
    assert hash_of(lambda record: record[0]) == hash_of(lambda record: record[0], key_type="string")
    assert hash_of(lambda record: record[2]) == hash_of(lambda record: record[2], key_type="bigint")
    different = {hash_of(lambda _, key=key: key) for key in (1, 1.0, True, "1", b"1", None, (1,), [1], {1}, {1: 1})}
    assert len(different) == 10
    assert hash_of(0, object_type()) == hash_of("*", object_type(), "JFK") == hash_of(lambda record: record[0])


def test_records_without_fields_need_a_type_for_the_key():
    pickled = Types.PICKLED_BYTE_ARRAY()
    assert hash_of("real", pickled, complex(2.0, 1.0), key_type="double") == 1 << 30
    assert hash_of(1, pickled, ["x", "a"], key_type="string") == 97
    with pytest.raises(ValueError, match="have no fields, so the type of key 0 is not known"):
        hash_of(0, pickled)


@pytest.mark.parametrize(
    ("key", "message"),
    [("dest", "no field 'dest': the fields are origin, delay, seats"), (3, "no field 3: there are 3 fields")],
)
def test_an_unknown_field_is_named(key, message):
    with pytest.raises(ValueError, match=message):
        hash_of(key)


def test_a_key_type_must_agree_with_the_field():
    assert hash_of("seats", key_type="int") == 180
    with pytest.raises(ValueError, match=r"key 'seats' is of Types.INT\(\) in the records, but key_type is Types.LONG"):
        hash_of("seats", key_type="bigint")
    assert hash_of(("seats", lambda r: r[0]), key_type=Types.TUPLE([Types.INT(), Types.STRING()])) == 180 * 31 + 73359
    with pytest.raises(ValueError, match="has 2 fields, so key_type must be a TUPLE of them"):
        hash_of(("seats", "origin"), key_type="int")


@pytest.mark.parametrize("key", [None, True, 1.5, ("origin", None), b"origin"])
def test_a_key_that_is_no_key_is_refused_at_once(key):
    with pytest.raises(TypeError, match="a key is a field's name or index"):
        by_key(key)


def test_key_arguments_out_of_range_are_refused_at_once():
    with pytest.raises(ValueError, match="counts from 0, got -1"):
        by_key(-1)
    with pytest.raises(ValueError, match="at least one field"):
        by_key(())
    with pytest.raises(ValueError, match="max parallelism must be from 1 to 32768, got 40000"):
        by_key("origin", max_parallelism=40000)


def test_a_type_that_cannot_be_a_key_is_named():
    record_type = Types.ROW_NAMED(["data"], [Types.PRIMITIVE_ARRAY(Types.BYTE())])
    with pytest.raises(ValueError, match=r"Types.PRIMITIVE_ARRAY\(Types.BYTE\(\)\) cannot be a key: .*by value"):
        by_key("data").selector(record_type, 2)


def test_max_parallelism_is_flinks_default_of_the_channel_count():
    assert by_key("origin").selector(FLIGHT, 4).max_parallelism == 128
    assert by_key("origin").selector(FLIGHT, 100).max_parallelism == default_max_parallelism(100) == 256
    selector = by_key("origin", max_parallelism=1000).selector(FLIGHT, 7)
    assert selector.select_channel(RECORD) == key_group("JFK", "string", 1000) * 7 // 1000
    with pytest.raises(ValueError, match="max parallelism of 3, got 4"):
        by_key("origin", max_parallelism=3).selector(FLIGHT, 4)


def test_random_partitioners_repeat_with_a_seed_and_differ_by_subtask():
    def start(**options):
        return as_partitioner("shuffle").selector(FLIGHT, 1000, **options).channels_of(range(8)).tolist()

    assert start(seed=1) == start(seed=1)
    assert start(seed=1) != start(seed=2)
    assert start(seed=1, subtask_index=1) != start(seed=1)
    assert start(seed=1, subtask_index=1)[:-1] != start(seed=1)[1:]  # and is not the same sequence one step on
    assert start() != start()


def test_producers_do_not_start_a_rebalance_in_step():
    rebalance = as_partitioner("rebalance")
    starts = {rebalance.selector(FLIGHT, 8).select_channel(RECORD) for _ in range(200)}
    assert starts == set(range(8))
    seeded = [rebalance.selector(FLIGHT, 8, subtask_index=i, seed=3).select_channel(RECORD) for i in range(64)]
    assert len(set(seeded)) == 8


def test_a_function_chooses_by_record_and_count():
    selector = as_partitioner(lambda record, count: record[2] % count).selector(FLIGHT, 7)
    assert selector.select_channel(RECORD) == 180 % 7


@pytest.mark.parametrize("name", ["hash", "Rebalance", "origin"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=f"no partitioner is named '{name}'; there are rebalance, .*by_key"):
        as_partitioner(name)


@pytest.mark.parametrize("value", [None, 3, ["rebalance"]])
def test_what_is_no_partitioner_is_refused(value):
    with pytest.raises(TypeError, match="a partitioner is by_key"):
        as_partitioner(value)


@pytest.mark.parametrize(
    ("producers", "consumers"), [(1, 1), (1, 5), (5, 1), (4, 4), (3, 2), (2, 3), (10, 4), (4, 10), (7, 5)]
)
def test_pointwise_edges_are_those_of_flink(producers, consumers):
    targets = [list(pointwise_targets(i, producers, consumers)) for i in range(producers)]
    if producers >= consumers:
        # Consumer t reads the producers from floor(t*S/T) up to floor((t+1)*S/T).
        expected = [[] for _ in range(producers)]
        for t in range(consumers):
            for s in range(t * producers // consumers, (t + 1) * producers // consumers):
                expected[s].append(t)
        assert targets == expected
    else:
        assert [t for each in targets for t in each] == list(range(consumers))
        ceil = [-(-s * consumers // producers) for s in range(producers + 1)]
        assert targets == [list(range(ceil[s], ceil[s + 1])) for s in range(producers)]


@pytest.mark.parametrize("arguments", [(0, 0, 1), (0, 1, 0), (2, 2, 2), (-1, 2, 2)])
def test_pointwise_arguments_are_checked(arguments):
    with pytest.raises(ValueError, match="must be"):
        pointwise_targets(*arguments)
