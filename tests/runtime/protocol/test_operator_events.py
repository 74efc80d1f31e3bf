"""What sources and their coordinators say, as bytes and back."""

import threading

import cloudpickle
import pytest

from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.protocol.operator_events import ReaderEnded, ReaderRegistered, decode_event, encode_event
from flinkbuf.streaming.sources.source_events import (
    AlignmentAnnounced,
    NoMoreSplits,
    SourceEvent,
    SplitRequested,
    SplitsAssigned,
    WatermarkReported,
)
from flinkbuf.types.types import object_type

EVENTS = [
    ReaderRegistered(),
    ReaderEnded(),
    SplitRequested(),
    SplitRequested("worker-3"),
    WatermarkReported(-(2**63)),
    WatermarkReported(2**63 - 1),
    SourceEvent(None),
    SourceEvent({"offsets": [1, 2.5, b"x"]}),
    SplitsAssigned(()),
    SplitsAssigned((1, "two", ("a", 3), {"b"}, range(3))),
    NoMoreSplits(),
    AlignmentAnnounced(1_700_000_000_000),
]


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_comes_back(event):
    assert decode_event(encode_event(event)) == event


def test_a_split_of_a_class_of_the_main_module_travels_with_its_class():
    namespace = {"__name__": "__main__"}
    exec("class Split:\n    offset = 7\n", namespace)
    data = encode_event(SplitsAssigned((namespace["Split"](),)))
    assert decode_event(data).splits[0].offset == 7


def test_what_cannot_be_sent_is_refused_with_its_type():
    with pytest.raises(TypeError, match="a split of the source, of type lock, cannot be sent .* cannot pickle"):
        encode_event(SplitsAssigned((threading.Lock(),)))
    with pytest.raises(TypeError, match="an event of the source, of type generator"):
        encode_event(SourceEvent(number for number in range(3)))
    with pytest.raises(TypeError, match="do not send 'hello'"):
        encode_event("hello")


FRAMES = [None, 3, (1,), (99, None), (True, None), ("1", None), (1, 2, 3), ([], None)]


@pytest.mark.parametrize("frame", FRAMES)
def test_bytes_that_are_no_event_are_refused(frame):
    with pytest.raises(CorruptDataError):
        decode_event(object_type().serialize(frame))


def test_bytes_that_are_nothing_are_refused():
    for data in (b"", b"\xff" * 10, encode_event(SplitRequested("worker"))[:-2]):
        with pytest.raises(CorruptDataError):
            decode_event(data)


def test_a_split_whose_class_is_gone_says_so():
    data = cloudpickle.dumps(EVENTS[0]).replace(b"ReaderRegistered", b"ReaderForgotten!")
    with pytest.raises(AttributeError, match="ReaderForgotten"):
        decode_event(object_type().serialize((5, data)))
