"""Where records go: index sequences as in Flink's StreamPartitioner tests, keys wherever they lie, clear errors."""

import sys
from collections import namedtuple

import numpy as np
import pytest
from support.data.golden_types import load

from flinkbuf._core.record.channel_selector import ChannelSelector, CustomSelector, KeyField, KeyGroupSelector
from flinkbuf._core.record.key_group import KeyHasher
from flinkbuf.types.types import Types
from flinkbuf.types.values import Row

GOLDEN = load("keygroups")
STRING = KeyHasher(Types.STRING().codec)
LONG = KeyHasher(Types.LONG().codec)


def keyed(*fields, channel_count=8, max_parallelism=128):
    return KeyGroupSelector(fields, channel_count, max_parallelism)


def chosen(selector, count):
    return [selector.select_channel(object()) for _ in range(count)]


def test_round_robin_goes_as_in_flink():
    assert chosen(ChannelSelector("round_robin", 4), 10) == GOLDEN["round_robin_4"]


def test_rescale_starts_at_channel_0():
    assert chosen(ChannelSelector("rescale", 3), 7) == [0, 1, 2, 0, 1, 2, 0]


def test_rebalance_goes_on_from_a_start_that_the_seed_decides():
    starts = set()
    for seed in range(50):
        channels = chosen(ChannelSelector("rebalance", 3, seed), 6)
        assert channels == [(channels[0] + i) % 3 for i in range(6)]
        assert channels == chosen(ChannelSelector("rebalance", 3, seed), 6)
        starts.add(channels[0])
    assert starts == {0, 1, 2}


def test_shuffle_reaches_all_channels_and_repeats_with_its_seed():
    channels = chosen(ChannelSelector("shuffle", 5, 42), 1000)
    assert channels == chosen(ChannelSelector("shuffle", 5, 42), 1000)
    assert channels != chosen(ChannelSelector("shuffle", 5, 43), 1000)
    assert min(np.bincount(channels, minlength=5)) > 150


@pytest.mark.parametrize("kind", ["global", "forward"])
def test_global_and_forward_choose_channel_0(kind):
    assert chosen(ChannelSelector(kind, 4), 3) == [0, 0, 0]


def test_a_broadcast_has_no_single_channel():
    selector = ChannelSelector("broadcast", 3)
    assert selector.is_broadcast
    with pytest.raises(RuntimeError, match="every channel"):
        selector.select_channel("record")
    with pytest.raises(RuntimeError, match="every channel"):
        selector.channels_of(["record"])


@pytest.mark.parametrize("kind", ["round_robin", "rescale", "rebalance", "shuffle", "global", "forward"])
def test_many_at_once_are_as_one_by_one(kind):
    selector, again = ChannelSelector(kind, 3, 9), ChannelSelector(kind, 3, 9)
    assert selector.channels_of(range(20)).tolist() == chosen(again, 20)
    assert selector.channels_of([]).tolist() == []
    assert selector.channels_of(np.zeros(4)).tolist() == chosen(again, 4)
    assert (selector.kind, selector.channel_count, selector.is_broadcast) == (kind, 3, False)


@pytest.mark.parametrize("kind", ["hash", "custom", "key_group", 3])
def test_unknown_kinds_are_refused(kind):
    with pytest.raises(ValueError, match="kind must be one of global, "):
        ChannelSelector(kind, 2)


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_channel(count):
    with pytest.raises(ValueError, match=f"channel count must be at least 1, got {count}"):
        ChannelSelector("global", count)


def test_key_groups_decide_over_channels_as_in_flink():
    for case in GOLDEN["cases"]:
        if case["type"] == "long":
            channels = [keyed(KeyField(LONG, 0), channel_count=n).select_channel((case["value"],)) for n in range(1, 9)]
            assert channels == case["operator_of_128"]


def test_a_max_parallelism_that_is_no_power_of_two_gives_the_channels_of_the_formula():
    for max_parallelism in ("7", "1000", "32768"):
        selector = keyed(KeyField(LONG), channel_count=7, max_parallelism=int(max_parallelism))
        for case in GOLDEN["cases"]:
            if case["type"] == "long":
                expected = case["key_group"][max_parallelism] * 7 // int(max_parallelism)
                assert selector.select_channel(case["value"]) == expected
                assert selector.channels_of_keys(np.array([case["value"]])).tolist() == [expected]


Pair = namedtuple("Pair", "n s")
Swapped = namedtuple("Swapped", "s n")


class Spark(tuple):
    """Like a pyspark Row: one class, names of its own in each row."""


def spark_row(**fields):
    row = Spark(fields.values())
    row.__fields__ = list(fields)
    return row


class Flight:
    n, s = 1, "a"


@pytest.mark.parametrize(
    "record",
    [
        (1, "a"),
        [1, "a"],
        {"s": "a", "n": 1},
        Row(1, "a"),
        Row(n=1, s="a"),
        Row(s="a", n=1),
        Pair(1, "a"),
        Swapped("a", 1),
        spark_row(n=1, s="a"),
        spark_row(s="a", n=1),
    ],
    ids=repr,
)
def test_a_field_is_found_in_every_kind_of_record(record):
    selector = keyed(KeyField(STRING, 1, "s"))
    plain = keyed(KeyField(STRING)).select_channel("a")
    for other in ((1, "a"), Row(n=1, s="a"), record, Swapped("a", 1), record):  # nothing is remembered wrongly
        assert selector.select_channel(other) == plain
    assert selector.hash_code_of(record) == 97


def test_a_field_without_declared_names_is_taken_by_position():
    field = KeyField(STRING, 0, "f0", is_positional=True)
    for record in [("a", 1), Swapped("a", 1), Row(s="a", n=1), spark_row(s="a", n=1), {"f0": "a", "f1": 1}]:
        assert keyed(field).hash_code_of(record) == 97


def test_a_field_of_an_object_is_its_attribute():
    assert keyed(KeyField(STRING, name="s")).hash_code_of(Flight()) == 97


def test_several_fields_hash_as_flinks_tuple():
    selector = keyed(KeyField(LONG, 0, "n"), KeyField(STRING, 1, "s"))
    assert selector.hash_code_of((1, "a")) == 128
    assert selector.hash_code_of((1, None)) == 31
    assert selector.hash_code_of((None, None)) == 0
    assert KeyHasher(Types.TUPLE([Types.LONG(), Types.STRING()]).codec).hash_code((1, "a")) == 128


def test_a_null_key_is_an_error_that_says_where():
    selector = keyed(KeyField(STRING, 1, "s"))
    selector.select_channel((1, "a"))
    message = r"record 1: key field 's' is None; an assigned key must not be null.*\(2, None\)"
    with pytest.raises(ValueError, match=message):
        selector.select_channel((2, None))
    assert selector.select_channel((3, "a")) == selector.select_channel((4, "a"))


@pytest.mark.parametrize("record", [(1,), [1], {"n": 1}, Row(n=1, t="a"), 5], ids=repr)
def test_a_missing_key_field_is_an_error_that_says_where(record):
    with pytest.raises(ValueError, match="record 0: key field 's' is missing in"):
        keyed(KeyField(STRING, 1, "s")).select_channel(record)


def test_a_key_of_another_type_is_an_error_that_says_where():
    selector = keyed(KeyField(STRING, 1, "s"))
    selector.select_channel((0, "a"))
    with pytest.raises(TypeError, match="record 1: key field 's': expected STRING, got 5"):
        selector.select_channel((1, 5))
    with pytest.raises(OverflowError, match="record 0: key field 0: expected LONG, got 9223372036854775808"):
        keyed(KeyField(LONG, 0)).select_channel((2**63,))


def test_a_long_record_is_shortened_in_messages():
    with pytest.raises(ValueError, match=r"missing in \['x") as caught:
        keyed(KeyField(STRING, 1)).select_channel(["x" * 1000])
    assert len(str(caught.value)) < 300


def test_errors_of_key_functions_pass_unchanged():
    error = KeyError("mine")

    def fail(record):
        raise error

    with pytest.raises(KeyError) as caught:
        keyed(KeyField(STRING, function=fail)).select_channel("record")
    assert caught.value is error


def test_a_key_function_that_gives_none_is_an_error():
    with pytest.raises(ValueError, match="record 0: the key is None"):
        keyed(KeyField(STRING, function=lambda record: None)).select_channel("record")


def test_columns_of_keys_give_the_channels_of_their_values():
    selector = keyed(KeyField(LONG))
    column = np.array([0, 1, -1, 2**63 - 1, -(2**63), 42])
    expected = [selector.select_channel(key) for key in column.tolist()]
    assert selector.channels_of(column).tolist() == expected
    assert selector.channels_of(column.tolist()).tolist() == expected
    assert selector.channels_of_keys(column).dtype == np.uint32
    by_field = keyed(KeyField(LONG, 0))
    assert by_field.channels_of([(key,) for key in column.tolist()]).tolist() == expected
    assert by_field.channels_of_keys(column).tolist() == expected


def test_a_key_of_several_fields_has_no_column():
    with pytest.raises(ValueError, match="2 fields: one column cannot hold it"):
        keyed(KeyField(LONG, 0), KeyField(LONG, 1)).channels_of_keys(np.arange(3))


def test_more_channels_than_key_groups_are_refused():
    with pytest.raises(ValueError, match="parallelism must be from 1 to the max parallelism of 128, got 129"):
        keyed(KeyField(LONG, 0), channel_count=129)
    for max_parallelism in (0, 32769):
        with pytest.raises(ValueError, match=f"max parallelism must be from 1 to 32768, got {max_parallelism}"):
            keyed(KeyField(LONG, 0), channel_count=1, max_parallelism=max_parallelism)
    with pytest.raises(ValueError, match="at least one field"):
        keyed()


def test_a_users_function_gets_record_and_channel_count():
    selector = CustomSelector(lambda record, channel_count: (record * 7) % channel_count, 5)
    assert [selector.select_channel(i) for i in range(5)] == [0, 2, 4, 1, 3]
    assert selector.channels_of(range(5)).tolist() == [0, 2, 4, 1, 3]
    assert selector.kind == "custom"
    assert CustomSelector(lambda record, channel_count: np.int64(2), 5).select_channel("x") == 2


@pytest.mark.parametrize("value", [5, -1, 2**40])
def test_a_channel_out_of_range_is_an_error_with_value_and_record(value):
    selector = CustomSelector(lambda record, channel_count: 0 if record == "fine" else value, 5)
    selector.select_channel("fine")
    with pytest.raises(ValueError, match=f"record 1: .*must return an int from 0 to 4, got {value} for 'odd'"):
        selector.select_channel("odd")


@pytest.mark.parametrize("value", [None, "1", 1.0])
def test_a_channel_that_is_no_int_is_an_error(value):
    with pytest.raises(TypeError, match=f"must return an int from 0 to 4, got {value!r} for 'record'"):
        CustomSelector(lambda record, channel_count: value, 5).select_channel("record")


def test_errors_of_a_users_function_pass_unchanged():
    error = TypeError("mine")

    def fail(record, channel_count):
        raise error

    with pytest.raises(TypeError) as caught:
        CustomSelector(fail, 2).select_channel("record")
    assert caught.value is error


def test_a_partitioner_must_be_callable():
    with pytest.raises(TypeError, match="must be callable"):
        CustomSelector("hash", 2)


def test_selecting_keeps_no_reference_to_records():
    record = (object(), "key")
    selectors = [
        keyed(KeyField(STRING, 1)),
        keyed(KeyField(STRING, function=lambda r: r[1])),
        CustomSelector(lambda r, n: 0, 2),
        ChannelSelector("rebalance", 2),
    ]
    before = sys.getrefcount(record)
    for selector in selectors:
        for _ in range(100):
            selector.select_channel(record)
    assert sys.getrefcount(record) == before
