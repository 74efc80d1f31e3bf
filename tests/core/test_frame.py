"""Frames: the bytes of Flink's NettyMessage, both ways, from any split, and what happens to bytes that are none."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.frame import Frame, FrameDecoder
from flinkbuf.errors import CorruptDataError

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = json.loads((GOLDEN / "netty_frames/netty_frames.json").read_text())["cases"]
CONVERSATIONS = sorted((GOLDEN / "conversations").glob("*.json"))
SENDERS = {"client_to_server": "client", "server_to_client": "server"}
CHANNEL = bytes(range(16))
# Flink's names of fields where ours differ.
RENAMED = {
    "subpartition_id": "subpartition",
    "start_index": "subpartition",
    "end_index": "last_subpartition",
    "segment_id": "segment",
    "data_type_ordinal": "data_type",
}


def expected_numbers(fields):
    named = {RENAMED.get(name, name): value for name, value in fields.items()}
    return {name: named.get(name, 0) for name in Frame("CloseRequest").numbers} | {
        "data_type": fields.get("data_type_ordinal", 0)
    }


def case_name(case):
    return f"{case['message']}-{case['fields'].get('data_type', '')}-{len(case['hex']) // 2}"


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_frame_of_flink_is_understood_and_written_again(case):
    wire, fields = bytes.fromhex(case["hex"]), case["fields"]
    (frame,) = FrameDecoder().feed(wire)
    assert frame.message == case["message"]
    assert frame.numbers == expected_numbers(fields)
    assert (frame.receiver.hex() if frame.receiver else None) == fields.get("receiver_id")
    if case["message"] in ("PartitionRequest", "TaskEventRequest"):
        assert frame.partition.hex() == fields["partition_id"]
    if case["message"] == "BufferResponse":
        assert frame.body.hex() == fields["payload"]
        assert list(frame.part_sizes) == fields["partial_sizes"]
    assert frame.encode() == wire


@pytest.mark.parametrize("case", [case for case in CASES if case["message"] == "ErrorResponse"], ids=case_name)
def test_cause_of_an_error_is_told_from_what_follows_it(case):
    (frame,) = FrameDecoder("server").feed(bytes.fromhex(case["hex"]))
    assert (frame.receiver is None) == case["fields"]["fatal"]
    assert frame.body.startswith(bytes.fromhex("aced0005"))  # how Java's serialized objects start
    assert case["fields"]["cause_class"].encode() in frame.body and case["fields"]["message"].encode() in frame.body


def test_every_message_is_among_the_golden_ones():
    assert {case["message"] for case in CASES} == {frame.message for frame in map(Frame, set(MESSAGES))}


MESSAGES = [
    "BufferResponse",
    "ErrorResponse",
    "PartitionRequest",
    "TaskEventRequest",
    "CancelPartitionRequest",
    "CloseRequest",
    "AddCredit",
    "ResumeConsumption",
    "AckAllUserRecordsProcessed",
    "BacklogAnnouncement",
    "NewBufferSize",
    "SegmentId",
]


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("direction", SENDERS)
@pytest.mark.parametrize("piece", [1, 7, 47, 4096, 1 << 20])
def test_conversation_of_flink_is_understood_and_written_again(path, direction, piece):
    said = [frame for frame in json.loads(path.read_text())["frames"] if frame["direction"] == direction]
    stream = b"".join(bytes.fromhex(frame["hex"]) for frame in said)
    decoder = FrameDecoder(SENDERS[direction], max_data_size=32768, max_event_size=4096)
    frames = []
    for start in range(0, len(stream), piece):
        frames += decoder.feed(stream[start : start + piece])
    decoder.close()
    assert decoder.offset == len(stream)
    assert [frame.message for frame in frames] == [frame["message"] for frame in said]
    assert b"".join(frame.encode() for frame in frames) == stream


def test_all_four_conversations_are_there():
    assert [path.stem for path in CONVERSATIONS] == [
        "conversation_blocking_lz4",
        "conversation_credit",
        "conversation_early_stop",
        "conversation_pipelined",
    ]


@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=4), st.lists(st.integers(0, 60), max_size=12))
def test_any_split_gives_the_same_frames(cases, cuts):
    stream = b"".join(bytes.fromhex(case["hex"]) for case in cases)
    whole = FrameDecoder().feed(stream)
    decoder, frames, start = FrameDecoder(), [], 0
    for cut in cuts:
        frames += decoder.feed(stream[start : start + cut])
        start += cut
    frames += decoder.feed(stream[start:])
    assert frames == whole and len(whole) == len(cases)


int32s = st.integers(0, 2**31 - 1)


@given(
    receiver=st.binary(min_size=16, max_size=16),
    subpartition=int32s,
    sequence_number=st.integers(-(2**31), 2**31 - 1),
    backlog=int32s,
    data_type=st.integers(1, 13),
    is_compressed=st.booleans(),
    parts=st.lists(st.binary(min_size=1, max_size=9), max_size=6),
)
def test_buffer_response_survives_the_wire(parts, **fields):
    frame = Frame("BufferResponse", body=b"".join(parts), part_sizes=map(len, parts), **fields)
    assert FrameDecoder("server").feed(frame.encode()) == [frame]


def test_number_out_of_range_is_not_written():
    with pytest.raises(ValueError, match="'AddCredit', receiver=0001.*argument out of range"):
        Frame("AddCredit", receiver=CHANNEL).encode()
    with pytest.raises(OverflowError):
        Frame("AddCredit", receiver=CHANNEL, credit=2**31)
    with pytest.raises(ValueError, match="parts of 3 bytes, but a body of 2"):
        Frame("BufferResponse", receiver=CHANNEL, data_type=1, body=b"ab", part_sizes=[3]).encode()


def test_what_a_frame_does_not_have_is_refused():
    with pytest.raises(ValueError, match="unknown message 'Hello'; there are BufferResponse"):
        Frame("Hello")
    with pytest.raises(TypeError, match="no field credits"):
        Frame("AddCredit", credits=1)
    with pytest.raises(ValueError, match="receiver has 16 bytes, got 3"):
        Frame("AddCredit", receiver=b"abc")
    with pytest.raises(ValueError, match="sender is 'client', 'server' or None, got 'peer'"):
        FrameDecoder("peer")


def test_error_names_message_value_and_byte():
    good = Frame("ResumeConsumption", receiver=CHANNEL).encode()
    bad = bytearray(Frame("AddCredit", receiver=CHANNEL, credit=1).encode())
    bad[12] = 0
    decoder = FrameDecoder("client")
    with pytest.raises(CorruptDataError, match="at byte 25 of the stream: AddCredit with credit 0, expected"):
        decoder.feed(good + bytes(bad))
    with pytest.raises(CorruptDataError, match="AddCredit with credit 0"):
        decoder.feed(good)


def test_frame_of_the_wrong_side_is_refused():
    with pytest.raises(CorruptDataError, match=r"AddCredit \(id 6\) does not travel in this direction"):
        FrameDecoder("server").feed(Frame("AddCredit", receiver=CHANNEL, credit=1).encode())
    with pytest.raises(CorruptDataError, match=r"BacklogAnnouncement \(id 9\) does not travel"):
        FrameDecoder("client").feed(Frame("BacklogAnnouncement", receiver=CHANNEL, backlog=1).encode())


def test_body_over_its_limit_is_refused_before_it_comes():
    wire = Frame("BufferResponse", receiver=CHANNEL, data_type=1, body=bytes(4097)).encode()
    with pytest.raises(CorruptDataError, match="body of 4097 bytes, at most 4096 are allowed here"):
        FrameDecoder("server", max_data_size=4096).feed(wire[:47])


def test_stream_that_ends_inside_a_frame_is_an_error():
    decoder = FrameDecoder()
    decoder.feed(Frame("CloseRequest").encode() + b"\0\0")
    with pytest.raises(CorruptDataError, match="the stream ends after 11 bytes"):
        decoder.close()


def test_error_response_without_a_tail_is_an_error():
    wire = bytearray(Frame("ErrorResponse", body=b"xx").encode())
    wire[-1] = 9
    with pytest.raises(CorruptDataError, match="ErrorResponse that ends at byte 12"):
        FrameDecoder().feed(wire)
