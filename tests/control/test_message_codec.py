"""Messages as bytes: each kind comes back as it was, and what is not written by the codec is refused."""

import dataclasses
import json
import typing
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.control import message_codec
from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.control.secure_link import MessageTooLargeError
from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    KINDS,
    HeartbeatReport,
    HeartbeatRequest,
    OperatorEventReport,
    TaskStateReport,
)

CODEC = MessageCodec(KINDS)
JSON_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(JSON_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
ATTEMPT = AttemptId("ab" * 16, 3, 1)


def values_of(annotation):
    """What a field of this annotation may hold."""
    scalars = {
        int: st.integers(),
        float: st.floats(allow_nan=False),
        str: st.text(),
        bool: st.booleans(),
        bytes: st.binary(),
        typing.Any: JSON,
    }
    if annotation in scalars:
        return scalars[annotation]
    if dataclasses.is_dataclass(annotation):
        return st.deferred(lambda: messages_of(annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=4).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(st.text(), values_of(arguments[1]), max_size=4)
    return st.one_of(*(st.none() if each is type(None) else values_of(each) for each in arguments))


def messages_of(kind):
    annotations = typing.get_type_hints(kind)
    travelling = [field.name for field in dataclasses.fields(kind) if field.metadata.get("travels", True)]
    return st.builds(kind, **{name: values_of(annotations[name]) for name in travelling})


@dataclasses.dataclass(frozen=True)
class Everything:
    number: int
    share: float
    pair: tuple[int, str]
    list: list[bytes]
    tree: "Everything | None" = None
    at_home: object = dataclasses.field(default=None, compare=False, metadata={"travels": False})


@pytest.mark.parametrize("number", KINDS)
def test_each_message_comes_back_as_it_was(number):
    @given(messages_of(KINDS[number]))
    def check(message):
        data = CODEC.encode(message)
        assert data[0] == number
        assert CODEC.decode(data) == message

    check()


@given(messages_of(Everything))
def test_each_sort_of_field_comes_back_as_it_was(message):
    codec = MessageCodec({0: Everything})
    assert codec.decode(codec.encode(message)) == message


@given(st.sampled_from(sorted(KINDS)), JSON)
def test_any_other_json_is_refused_or_a_message(number, value):
    try:
        message = CODEC.decode(bytes((number,)) + json.dumps(value).encode())
    except CorruptDataError:
        return
    assert isinstance(message, KINDS[number])


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused_or_a_message(data):
    try:
        message = CODEC.decode(data)
    except CorruptDataError:
        return
    assert type(message) is KINDS[data[0]]


MESSAGE = TaskStateReport("s" * 32, ATTEMPT, "FAILED", Failure("builtins.ValueError", "no", location={"record": "7"}))


@given(st.data())
def test_a_changed_message_is_refused_or_another_one_of_the_same_shape(data):
    written = bytearray(CODEC.encode(MESSAGE))
    for _ in range(data.draw(st.integers(1, 4))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = CODEC.decode(bytes(written))
    except CorruptDataError:
        return
    assert CODEC.decode(CODEC.encode(message)) == message


@dataclasses.dataclass(frozen=True)
class Heavy:
    name: str
    load: bytes = dataclasses.field(default=b"", metadata={"attached": True})


HEAVY = MessageCodec({3: Heavy})


@given(st.text(), st.binary())
def test_attached_bytes_stand_as_they_are_in_front_of_compressed_json(name, load):
    data = HEAVY.encode(Heavy(name, load))
    assert data[:5] == b"\3" + len(load).to_bytes(4, "big")
    assert data[5 : 5 + len(load)] == load
    assert HEAVY.decode(data) == Heavy(name, load)
    for end in {0, 1, 4, 5, len(load) + 5, len(data) - 1}:
        with pytest.raises(CorruptDataError):
            HEAVY.decode(data[:end])
    with pytest.raises(CorruptDataError):
        HEAVY.decode(data + b"x")


def test_json_that_would_be_too_long_for_the_receiver_is_not_sent(monkeypatch):
    monkeypatch.setattr(message_codec, "MESSAGE_LIMIT", 100)
    with pytest.raises(MessageTooLargeError):
        HEAVY.encode(Heavy("a" * 100))
    with pytest.raises(CorruptDataError, match="too long"):
        HEAVY.decode(b"\3" + bytes(4) + zlib.compress(b'{"name":"' + b"a" * 100 + b'"}'))


@pytest.mark.parametrize("end", [0, 1, 2, 50, -1])
def test_a_message_that_is_cut_off_is_refused(end):
    with pytest.raises(CorruptDataError):
        CODEC.decode(CODEC.encode(MESSAGE)[:end])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"state": 7}, "state must be a text, got 7"),
        ({"state": None}, "state must be a text, got None"),
        ({"attempt": {"vertex_id": "x", "subtask_index": True, "attempt_number": 0}}, "attempt.subtask_index must be"),
        ({"attempt": {"vertex_id": "x"}}, "attempt must be a AttemptId with the fields vertex_id, subtask_index"),
        ({"failure": {}}, "failure must be a Failure with the fields type_name"),
        ({"accumulators": []}, "accumulators must be a dict"),
        ({"more": 1}, "it must be a TaskStateReport with the fields"),
    ],
)
def test_a_field_that_does_not_fit_is_named(change, says):
    fields = json.loads(CODEC.encode(MESSAGE)[1:]) | change
    with pytest.raises(CorruptDataError, match="a message TaskStateReport: ") as caught:
        CODEC.decode(b"\2" + json.dumps(fields).encode())
    assert says in str(caught.value)


def test_the_place_inside_of_a_list_is_named():
    report = HeartbeatReport("s", 1, (ATTEMPT, AttemptId("v", 1, 2)), {"a": {"records": 3}})
    fields = json.loads(CODEC.encode(report)[1:])
    fields["attempts"][1]["attempt_number"] = "2"
    with pytest.raises(CorruptDataError, match=r"attempts\[1\].attempt_number must be a whole number, got '2'"):
        CODEC.decode(b"\3" + json.dumps(fields).encode())


def test_the_sender_is_told_what_cannot_travel():
    report = dataclasses.replace(MESSAGE, accumulators={"seen": {"who": [1, {2}]}})
    with pytest.raises(TypeError, match=r"TaskStateReport cannot be sent: accumulators\['seen'\] must be None, a bool"):
        CODEC.encode(report)
    with pytest.raises(TypeError, match="accumulators.* must be a dict by texts"):
        CODEC.encode(dataclasses.replace(MESSAGE, accumulators={"seen": {1: 2}}))
    with pytest.raises(TypeError, match="sequence must be a whole number, got 1.5"):
        CODEC.encode(HeartbeatRequest("s", 1.5))
    with pytest.raises(TypeError, match="payload must be bytes"):
        CODEC.encode(OperatorEventReport("s", ATTEMPT, "o", "text"))
    with pytest.raises(TypeError, match="AttemptId is no message"):
        CODEC.encode(ATTEMPT)
    with pytest.raises(TypeError, match="Exceeds the limit"):
        CODEC.encode(HeartbeatRequest("s", 10**5000))


def test_an_endless_nest_is_refused_on_both_sides():
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested at most"):
        CODEC.encode(dataclasses.replace(MESSAGE, accumulators={"x": endless}))
    with pytest.raises(CorruptDataError):
        CODEC.decode(b"\2" + b"[" * 100_000)


def test_numbers_of_numpy_arrive_as_pythons():
    message = dataclasses.replace(
        MESSAGE, metrics={"rate": np.float32(0.5), "count": np.int64(7), "pair": (np.str_("a"), True)}
    )
    metrics = CODEC.decode(CODEC.encode(message)).metrics
    assert metrics == {"rate": 0.5, "count": 7, "pair": ["a", True]}
    assert [type(value) for value in metrics.values()] == [float, int, list]


def test_what_does_not_travel_has_its_default_at_the_other_end():
    failure = Failure("builtins.ValueError", "no", exception=ValueError("no"))
    data = CODEC.encode(dataclasses.replace(MESSAGE, failure=failure))
    assert b"exception" not in data
    assert CODEC.decode(data).failure == failure
    assert CODEC.decode(data).failure.exception is None


def test_only_frozen_dataclasses_of_known_fields_are_kinds():
    @dataclasses.dataclass
    class Changing:
        name: str

    @dataclasses.dataclass(frozen=True)
    class Strange:
        names: set[str]

    with pytest.raises(TypeError, match="Changing'> is no frozen dataclass"):
        MessageCodec({1: Changing})
    with pytest.raises(TypeError, match=r"a field of the type set\[str\] cannot travel"):
        MessageCodec({1: Strange})
    with pytest.raises(ValueError, match="from 0 to 255"):
        MessageCodec({256: HeartbeatRequest})


@dataclasses.dataclass(frozen=True)
class Kept:
    name: str
    count: int = 3
    parts: tuple[int, ...] = ()
    settings: dict[str, int] = dataclasses.field(default_factory=dict)


KEEPING = MessageCodec({1: Kept}, omits_defaults=True)


@given(messages_of(Kept))
def test_what_is_kept_comes_back_though_defaults_are_not_written(kept):
    assert KEEPING.decode(KEEPING.encode(kept)) == kept


def test_defaults_are_left_out_of_what_is_kept_and_may_be_missing():
    assert KEEPING.encode(Kept("a")) == b'\x01{"name":"a"}'
    assert KEEPING.encode(Kept("a", 4)) == b'\x01{"name":"a","count":4}'
    for bad in (b"{}", b'{"name":"a","more":1}', b'{"name":"a","count":"4"}'):
        with pytest.raises(CorruptDataError):
            KEEPING.decode(b"\x01" + bad)
    with pytest.raises(TypeError, match="count must be a whole number"):
        KEEPING.encode(Kept("a", True))
