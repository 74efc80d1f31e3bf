"""Events: the bytes of Flink's EventSerializer, both ways, and what happens to bytes that are none."""

import dataclasses
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.errors import CorruptDataError
from flinkbuf.network import events as ev
from flinkbuf.network.buffer import DataType

CASES = json.loads((Path(__file__).parents[1] / "golden/events/events.json").read_text())["cases"]
FLINK_NAMES = {
    "EndOfPartitionEvent": "EndOfPartition",
    "EndOfSuperstepEvent": "EndOfSuperstep",
    "EndOfInputChannelStateEvent": "EndOfInputChannelState",
    "EndOfSegmentEvent": "EndOfSegment",
    "EndOfOutputChannelStateEvent": "EndOfOutputChannelState",
}


class SampleTaskEvent(ev.UserEvent):
    class_name = "org.apache.flink.runtime.io.network.netty.GoldenNetty$SampleTaskEvent"

    def __init__(self, number):
        self.number = number

    def payload(self):
        return struct.pack(">q", self.number)

    @classmethod
    def from_payload(cls, data):
        return cls(struct.unpack(">q", data)[0])


def event_of(case):
    """The event that a golden case describes, made from its fields."""
    fields = dict(case["fields"])
    name = FLINK_NAMES.get(case["event"], case["event"])
    if name == "other":
        return SampleTaskEvent(fields["payload_long"])
    if name == "EndOfData":
        return ev.EndOfData(ev.StopMode[fields["mode"]])
    if name == "CheckpointBarrier":
        place = fields["location"]
        return ev.CheckpointBarrier(
            fields["checkpoint_id"],
            fields["timestamp"],
            ev.SnapshotType[fields["snapshot_type"]],
            None if place is None else bytes.fromhex(place),
            ev.AlignmentType[fields["alignment"]],
            fields["aligned_timeout"],
        )
    if name == "EventAnnouncement":
        return ev.EventAnnouncement(
            ev.event_from_bytes(bytes.fromhex(fields["announced_hex"])), fields["sequence_number"]
        )
    if name == "SubtaskConnectionDescriptor":
        return ev.SubtaskConnectionDescriptor(fields["input_subtask"], fields["output_subtask"])
    if name == "WatermarkEvent":
        return ev.WatermarkEvent(fields["identifier"], fields["value"], fields["aligned"])
    return getattr(ev, name)(**fields)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['event']}-{case['hex'][:40]}")
def test_event_has_flinks_bytes_both_ways(case):
    data, event = bytes.fromhex(case["hex"]), event_of(case)
    assert event.to_bytes() == data
    back = ev.event_from_bytes(data, ev.EventRegistry(SampleTaskEvent))
    assert type(back) is type(event) and vars(back) == vars(event)
    assert vars(ev.event_from_bytes(event.to_buffer_bytes(), ev.EventRegistry(SampleTaskEvent))) == vars(event)
    assert DataType(event.data_type()).name == case["data_type"]
    assert DataType(event.data_type(is_priority=True)).name == case.get(
        "data_type_priority", "PRIORITIZED_EVENT_BUFFER"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['event']}-{case['hex'][:40]}")
def test_bytes_that_end_early_or_go_on_are_refused(case):
    data, registry = bytes.fromhex(case["hex"]), ev.EventRegistry(SampleTaskEvent)
    if case["event"] == "other":
        with pytest.raises(CorruptDataError, match="byte"):
            ev.event_from_bytes(data[:20], registry)
        return
    for size in range(len(data)):
        with pytest.raises(CorruptDataError, match=rf"event of {size} bytes|event of \d+ bytes"):
            ev.event_from_bytes(data[:size])
    with pytest.raises(CorruptDataError, match="1 bytes too many"):
        ev.event_from_bytes(data + b"\0")


@pytest.mark.parametrize("snapshot_type", [ev.SnapshotType.CHECKPOINT, ev.SnapshotType.SAVEPOINT_NATIVE])
@pytest.mark.parametrize("location", [None, b"", b"place"])
def test_buffer_of_a_barrier_ends_with_the_zeros_that_flink_sends(snapshot_type, location):
    barrier = ev.CheckpointBarrier(1, 2, snapshot_type, location)
    data = barrier.to_buffer_bytes()
    assert len(data) == 38 + len(location or b"") and data.rstrip(b"\0") == barrier.to_bytes().rstrip(b"\0")
    assert ev.event_from_bytes(data) == barrier
    for tail in (data + b"\0", data[:-1], data[:-1] + b"\1"):
        with pytest.raises(CorruptDataError, match="too many after CheckpointBarrier"):
            ev.event_from_bytes(tail)
    announcement = ev.EventAnnouncement(barrier, 7)
    assert ev.event_from_bytes(announcement.to_buffer_bytes()) == announcement


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("0000000d", "unknown event type 13"),
        ("ffffffff", "unknown event type -1"),
        ("0000000802", "2 is no StopMode"),
        ("0000000b000161 02 00000000 0000000000000000", "a boolean is 0 or 1, got 2"),
        ("0000000b000161 00 00000002 0000000000000000", "kind 0 .long. or 1 .bool., got 2"),
        ("0000000b0001ff 00 00000001 00", "modified UTF-8"),
        ("0000000b0004f09f9880 00 00000001 00", "modified UTF-8"),  # Java writes it in two surrogates
        ("0000000b0002c380 00 00000001", "left"),
        ("00000001" + "00" * 16 + "00 fffffffe 01 0000000000000000", "location's length is -2"),
        ("00000001" + "00" * 16 + "00 7fffffff 01 0000000000000000", "2147483647 bytes expected"),
        ("00000001" + "00" * 16 + "0102 ffffffff 01 0000000000000000", "258 is no SnapshotType"),
        ("00000001" + "00" * 16 + "00 ffffffff 04 0000000000000000", "4 is no AlignmentType"),
        ("00000006 00000001 00000006 00000001 00000000", "an announcement of an announcement"),
    ],
)
def test_damaged_events_are_refused_with_the_reason(data, message):
    with pytest.raises(CorruptDataError, match=message):
        ev.event_from_bytes(bytes.fromhex(data))


def test_user_event_is_read_only_through_a_registry_that_knows_it():
    data = SampleTaskEvent(5).to_bytes()
    assert ev.event_from_bytes(data, ev.EventRegistry(SampleTaskEvent)).number == 5
    for registry in (None, ev.EventRegistry()):
        with pytest.raises(CorruptDataError, match="SampleTaskEvent.*EventRegistry"):
            ev.event_from_bytes(data, registry)
    existing = ev._java_utf("flinkbuf.network.events.EndOfData")
    with pytest.raises(CorruptDataError, match="does not know"):
        ev.event_from_bytes(b"\0\0\0\3" + existing)


def test_announced_event_is_not_read_by_class_name_either():
    with pytest.raises(CorruptDataError, match="does not know"):
        ev.event_from_bytes(struct.pack(">ii", 6, 1) + SampleTaskEvent(5).to_bytes())


def test_from_bytes_of_a_class_wants_that_class():
    data = ev.EndOfData().to_bytes()
    assert ev.EndOfData.from_bytes(data) == ev.Event.from_bytes(data) == ev.EndOfData(ev.StopMode.DRAIN)
    with pytest.raises(TypeError, match="EndOfData, not CancelCheckpointMarker"):
        ev.CancelCheckpointMarker.from_bytes(data)


def test_events_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ev.EndOfData().mode = ev.StopMode.NO_DRAIN


def test_a_user_event_without_its_two_methods_says_so():
    class Bare(ev.UserEvent):
        class_name = "Bare"

    with pytest.raises(TypeError, match="Bare has to define payload"):
        Bare().to_bytes()
    with pytest.raises(TypeError, match="Bare has to define from_payload"):
        Bare.from_payload(b"")


TEXTS = st.text(st.characters(exclude_categories=[]), max_size=50)


@given(TEXTS, st.booleans(), st.booleans() | st.integers(-(2**63), 2**63 - 1))
def test_every_watermark_event_comes_back(identifier, is_aligned, value):
    event = ev.WatermarkEvent(identifier, value, is_aligned)
    back = ev.event_from_bytes(event.to_bytes())
    # Lone surrogates that meet are one character in Java, and so for us.
    joined = identifier.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert back == ev.WatermarkEvent(joined, value, is_aligned) and type(back.value) is type(value)


def test_text_longer_than_its_length_field_is_refused():
    assert len(ev.WatermarkEvent("x" * 65535, 1).to_bytes()) == 4 + 2 + 65535 + 13
    with pytest.raises(ValueError, match="65535 bytes, got 65536"):
        ev.WatermarkEvent("x" * 65536, 1).to_bytes()


@given(st.binary(max_size=80))
def test_any_bytes_give_an_event_with_these_bytes_or_an_error(data):
    try:
        event = ev.event_from_bytes(data)
    except CorruptDataError:
        return
    assert event.to_bytes() == data


@given(st.integers(0, 12), st.binary(max_size=60))
def test_any_bytes_of_a_known_type_give_an_event_with_these_bytes_or_an_error(code, body):
    data = struct.pack(">i", code) + body
    try:
        event = ev.event_from_bytes(data)
    except CorruptDataError:
        return
    assert event.to_bytes() == data
