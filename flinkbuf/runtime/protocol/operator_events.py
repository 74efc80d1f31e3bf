"""Events between source operators and their coordinators, as bytes. Flink: OperatorEvent and its serialization.

A frame is a pair in the codec of `object_type`: the number of the kind, and what it holds. Splits and events of the
user's own are pickled by cloudpickle before that: pickle, which the codec would take, names classes of the program's
main module by that name, and another process has another main module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import cloudpickle

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.sources.source_events import (
    AlignmentAnnounced,
    NoMoreSplits,
    SourceEvent,
    SplitRequested,
    SplitsAssigned,
    WatermarkReported,
)
from flinkbuf.types.types import object_type

_PLAIN: Final = (type(None), bool, int, float, str)  # as they are: a pickle of them is longer and slower


@dataclass(frozen=True)
class ReaderRegistered:
    """From a source operator: its reader is open, and can be given splits. Flink: ReaderRegistrationEvent."""


@dataclass(frozen=True)
class ReaderEnded:
    """From a source operator: it has come to its end, and no task waits for its watermark any more."""


def _nothing(event: object) -> object:
    return None


# By number: the class, what of an event goes into the frame, and how it is made of that again.
_KINDS: Final[dict[int, tuple[type, Callable[..., object], Callable[..., object]]]] = {
    1: (ReaderRegistered, _nothing, lambda content: ReaderRegistered()),
    2: (ReaderEnded, _nothing, lambda content: ReaderEnded()),
    3: (SplitRequested, lambda event: event.host, SplitRequested),
    4: (WatermarkReported, lambda event: event.watermark, WatermarkReported),
    5: (SourceEvent, lambda event: _pickled(event.event, "an event"), lambda data: SourceEvent(_unpickled(data))),
    33: (
        SplitsAssigned,
        lambda event: [_pickled(split, "a split") for split in event.splits],
        lambda splits: SplitsAssigned(tuple(_unpickled(split) for split in splits)),
    ),
    34: (NoMoreSplits, _nothing, lambda content: NoMoreSplits()),
    35: (AlignmentAnnounced, lambda event: event.max_watermark, AlignmentAnnounced),
}
_NUMBERS: Final = {kind: number for number, (kind, _, _) in _KINDS.items()}


def encode_event(event: object) -> bytes:
    """Return an event as bytes.

    Raises
    ------
    TypeError
        The object is no such event, or a split or an event of the user's cannot be pickled.

    Examples
    --------
    >>> decode_event(encode_event(SplitsAssigned(("first", {"offset": 7}))))
    SplitsAssigned(splits=('first', {'offset': 7}))
    """
    number = _NUMBERS.get(type(event))
    if number is None:
        raise TypeError(f"sources and their coordinators do not send {event!r}")
    return object_type().serialize((number, _KINDS[number][1](event)))


def decode_event(data: bytes) -> object:
    """Return the event; only where the other side has proved that it belongs to the job, as pickles are loaded.

    Raises
    ------
    CorruptDataError
        The bytes are none of an event.
    Exception
        What unpickling a split or an event raised, such as a module that is not there.
    """
    frame = object_type().deserialize(data)
    if not isinstance(frame, tuple) or len(frame) != 2 or type(frame[0]) is not int or frame[0] not in _KINDS:
        raise CorruptDataError(f"these bytes are no event of a source: {data[:40]!r}")
    number, content = frame
    return _KINDS[number][2](content)


def _pickled(value: object, what: str) -> object:
    if type(value) in _PLAIN:
        return value
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"{what} of the source, of type {type(value).__name__}, cannot be sent between its coordinator and its "
            f"readers, which may be other processes: {type(error).__name__}: {error}"
        ) from error


def _unpickled(content: object) -> Any:
    return cloudpickle.loads(content) if isinstance(content, bytes) else content
