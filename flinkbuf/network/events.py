"""Events that travel in buffers between tasks: ends of streams, checkpoint barriers, announcements.

An event is a buffer of its own. Its bytes are exactly those of Flink's ``EventSerializer`` (tests/golden/events);
its data type tells the network what to do with it without a look inside. Nothing is loaded by name from the
bytes: an event of a user's class is understood only if the reader registered it (`EventRegistry`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NoReturn, TypeVar

from flinkbuf.errors import CorruptDataError

E = TypeVar("E", bound=IntEnum)

NO_TIMEOUT = 2**63 - 1  # ms; Flink's NO_ALIGNED_CHECKPOINT_TIME_OUT
_USER_EVENT = 3
_BARRIER_ARRAY_SIZE = 38  # bytes Flink allocates for a barrier, its location apart

# Numbers of flinkbuf.network.DataType, which stands above this module.
_EVENT_BUFFER = 2
_PRIORITIZED_EVENT_BUFFER = 3
_ALIGNED_BARRIER = 4
_TIMEOUTABLE_BARRIER = 5
_RECOVERY_COMPLETION = 6
_END_OF_DATA = 9
_END_OF_PARTITION = 10
_ALIGNED_WATERMARK_EVENT = 12
_UNALIGNED_WATERMARK_EVENT = 13


class StopMode(IntEnum):
    """How a stream ends: after all its data (DRAIN), or to go on from a savepoint (NO_DRAIN)."""

    DRAIN = 0
    NO_DRAIN = 1


class AlignmentType(IntEnum):
    """How barriers of one checkpoint meet. Flink: ``CheckpointOptions.AlignmentType``."""

    AT_LEAST_ONCE = 0
    ALIGNED = 1
    UNALIGNED = 2
    FORCED_ALIGNED = 3


class SnapshotType(IntEnum):
    """What a barrier asks for: the code on the wire, for savepoints followed by a byte for the format."""

    CHECKPOINT = 0x00
    FULL_CHECKPOINT = 0x04
    SAVEPOINT_CANONICAL = 0x0100
    SAVEPOINT_NATIVE = 0x0101
    SAVEPOINT_SUSPEND_CANONICAL = 0x0200
    SAVEPOINT_SUSPEND_NATIVE = 0x0201
    SAVEPOINT_TERMINATE_CANONICAL = 0x0300
    SAVEPOINT_TERMINATE_NATIVE = 0x0301


class _Reader:
    """Takes values from the front of an event's bytes; every length is checked against what is left."""

    def __init__(self, data: bytes) -> None:
        self.data, self.offset = data, 0

    def fail(self, what: str) -> NoReturn:
        raise CorruptDataError(f"event of {len(self.data)} bytes, at byte {self.offset}: {what}")

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.offset:
            self.fail(f"{size} bytes expected, {len(self.data) - self.offset} left")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def number(self, code: str) -> int:
        """One big-endian number; `code` as in `struct`."""
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def boolean(self) -> bool:
        value = self.number("B")
        if value > 1:
            self.fail(f"a boolean is 0 or 1, got {value}")
        return value == 1

    def member(self, members: type[E], value: int) -> E:
        try:
            return members(value)
        except ValueError:
            self.fail(f"{value} is no {members.__name__}")

    def text(self) -> str:
        """Java's ``readUTF``."""
        raw = self.take(self.number("H"))
        try:
            units = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            text = units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        except UnicodeDecodeError:
            self.fail("text that is not modified UTF-8")
        if _java_utf(text)[2:] != raw:
            self.fail("text that is not modified UTF-8")
        return text

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.offset)


def _java_utf(text: str) -> bytes:
    """Java's ``writeUTF``: each UTF-16 unit by itself, NUL in two bytes, behind a 2-byte length."""
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = "".join(map(chr, struct.unpack(f">{len(utf16) // 2}H", utf16)))
    raw = units.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(raw) > 0xFFFF:
        raise ValueError(f"a text in an event has at most 65535 bytes, got {len(raw)}")
    return struct.pack(">H", len(raw)) + raw


class Event:
    """What travels in a buffer of its own, in order with the records around it. Flink: ``AbstractEvent``."""

    type_code: ClassVar[int]

    def to_bytes(self) -> bytes:
        """The bytes of Flink's ``EventSerializer.toSerializedEvent``."""
        return struct.pack(">i", self.type_code) + self._body()

    def to_buffer_bytes(self) -> bytes:
        """The bytes of the buffer it travels in, Flink's ``EventSerializer.toBufferConsumer``.

        The same as `to_bytes`, but for checkpoint barriers and what announces one: Flink sends the whole array that
        it wrote them into, whose last few bytes are zeros that nobody reads.
        """
        return self.to_bytes() + bytes(self._unused_size())

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, registry: EventRegistry | None = None) -> Event:
        """Read an event back; `event_from_bytes`, but TypeError if it is not of this class."""
        event = event_from_bytes(data, registry)
        if not isinstance(event, cls):
            raise TypeError(f"the bytes hold {type(event).__name__}, not {cls.__name__}")
        return event

    def data_type(self, is_priority: bool = False) -> int:
        """The number of the `DataType` its buffer gets; one with priority overtakes what is queued."""
        return _PRIORITIZED_EVENT_BUFFER if is_priority else self._own_data_type()

    def _own_data_type(self) -> int:
        return _EVENT_BUFFER

    def _body(self) -> bytes:
        return b""

    def _unused_size(self) -> int:
        return 0

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        return cls()


@dataclass(frozen=True)
class EndOfPartition(Event):
    """The channel ends here; nothing follows."""

    type_code: ClassVar[int] = 0

    def _own_data_type(self) -> int:
        return _END_OF_PARTITION


@dataclass(frozen=True)
class CheckpointBarrier(Event):
    """Separates the records of one checkpoint from those of the next.

    Parameters
    ----------
    checkpoint_id : int
    timestamp : int
        Milliseconds since 1970-01-01 UTC, when the checkpoint was triggered.
    snapshot_type : SnapshotType
    location : bytes, optional
        Where the state goes; None: the job's default place.
    alignment : AlignmentType
    aligned_timeout_ms : int
        After so many milliseconds an aligned barrier turns into an unaligned one; `NO_TIMEOUT`: never.
    """

    type_code: ClassVar[int] = 1
    checkpoint_id: int
    timestamp: int
    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    location: bytes | None = None
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int = NO_TIMEOUT

    def _own_data_type(self) -> int:
        if self.alignment is AlignmentType.ALIGNED and self.aligned_timeout_ms != NO_TIMEOUT:
            return _TIMEOUTABLE_BARRIER
        if self.alignment in (AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED):
            return _ALIGNED_BARRIER
        return _EVENT_BUFFER

    def _body(self) -> bytes:
        code = int(self.snapshot_type)
        kind = struct.pack(">B", code) if code < 0x100 else struct.pack(">H", code)
        place = b"" if self.location is None else self.location
        return (
            struct.pack(">qq", self.checkpoint_id, self.timestamp)
            + kind
            + struct.pack(">i", -1 if self.location is None else len(place))
            + place
            + struct.pack(">bq", self.alignment, self.aligned_timeout_ms)
        )

    def _unused_size(self) -> int:
        return _BARRIER_ARRAY_SIZE - (len(self.to_bytes()) - len(self.location or b""))

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        checkpoint_id, timestamp = reader.number("q"), reader.number("q")
        code = reader.number("B")
        if code not in (SnapshotType.CHECKPOINT, SnapshotType.FULL_CHECKPOINT):
            code = code << 8 | reader.number("B")
        snapshot_type = reader.member(SnapshotType, code)
        size = reader.number("i")
        if size < -1:
            reader.fail(f"the location's length is {size}")
        location = None if size == -1 else reader.take(size)
        alignment = reader.member(AlignmentType, reader.number("b"))
        return cls(checkpoint_id, timestamp, snapshot_type, location, alignment, reader.number("q"))


@dataclass(frozen=True)
class EndOfSuperstep(Event):
    """The end of one round of an iteration."""

    type_code: ClassVar[int] = 2


@dataclass(frozen=True)
class CancelCheckpointMarker(Event):
    """A checkpoint will not come to an end: forget its barriers."""

    type_code: ClassVar[int] = 4
    checkpoint_id: int

    def _body(self) -> bytes:
        return struct.pack(">q", self.checkpoint_id)

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        return cls(reader.number("q"))


@dataclass(frozen=True)
class EndOfOutputChannelState(Event):
    """All restored output buffers are before this; it blocks the channel until the reader is restored too."""

    type_code: ClassVar[int] = 5

    def _own_data_type(self) -> int:
        return _RECOVERY_COMPLETION


@dataclass(frozen=True)
class EventAnnouncement(Event):
    """Says that an event is on its way and will have this sequence number."""

    type_code: ClassVar[int] = 6
    announced: Event
    sequence_number: int

    def _body(self) -> bytes:
        return struct.pack(">i", self.sequence_number) + self.announced.to_bytes()

    def _unused_size(self) -> int:
        return self.announced._unused_size()

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        sequence_number = reader.number("i")
        if reader.data[reader.offset : reader.offset + 4] == struct.pack(">i", cls.type_code):
            reader.fail("an announcement of an announcement")
        return cls(_read_event(reader, EventRegistry()), sequence_number)


@dataclass(frozen=True)
class SubtaskConnectionDescriptor(Event):
    """During recovery with another parallelism: which old connection the buffers that follow belong to."""

    type_code: ClassVar[int] = 7
    input_subtask_index: int
    output_subtask_index: int

    def _body(self) -> bytes:
        return struct.pack(">ii", self.input_subtask_index, self.output_subtask_index)

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        return cls(reader.number("i"), reader.number("i"))


@dataclass(frozen=True)
class EndOfData(Event):
    """No more records of the user follow; a last checkpoint may."""

    type_code: ClassVar[int] = 8
    mode: StopMode = StopMode.DRAIN

    def _own_data_type(self) -> int:
        return _END_OF_DATA

    def _body(self) -> bytes:
        return struct.pack(">b", self.mode)

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        return cls(reader.member(StopMode, reader.number("b")))


@dataclass(frozen=True)
class EndOfSegment(Event):
    """The end of a segment of a tiered partition."""

    type_code: ClassVar[int] = 9


@dataclass(frozen=True)
class RecoveryMetadata(Event):
    """During recovery: which subpartition's buffer is the last."""

    type_code: ClassVar[int] = 10
    final_buffer_subpartition_id: int

    def _body(self) -> bytes:
        return struct.pack(">i", self.final_buffer_subpartition_id)

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        return cls(reader.number("i"))


@dataclass(frozen=True)
class WatermarkEvent(Event):
    """A generalized watermark: a named int (64 bits) or bool; an aligned one waits for all channels."""

    type_code: ClassVar[int] = 11
    identifier: str
    value: int | bool
    is_aligned: bool = False

    def _own_data_type(self) -> int:
        return _ALIGNED_WATERMARK_EVENT if self.is_aligned else _UNALIGNED_WATERMARK_EVENT

    def _body(self) -> bytes:
        is_bool = isinstance(self.value, bool)
        head = _java_utf(self.identifier) + struct.pack(">?i", self.is_aligned, is_bool)
        return head + struct.pack(">?" if is_bool else ">q", self.value)

    @classmethod
    def _read(cls, reader: _Reader) -> Event:
        identifier, is_aligned, kind = reader.text(), reader.boolean(), reader.number("i")
        if kind not in (0, 1):
            reader.fail(f"a watermark's value is of kind 0 (long) or 1 (bool), got {kind}")
        return cls(identifier, reader.boolean() if kind == 1 else reader.number("q"), is_aligned)


@dataclass(frozen=True)
class EndOfInputChannelState(Event):
    """All restored input buffers are before this."""

    type_code: ClassVar[int] = 12


class UserEvent(Event):
    """Base of events that a user defines: a class name that both sides agree on, and bytes of its own.

    A subclass sets `class_name` (for Flink: the Java class) and defines `payload` and `from_payload`.

    Examples
    --------
    >>> class Hello(UserEvent):
    ...     class_name = "org.example.Hello"
    ...     def __init__(self, text): self.text = text
    ...     def payload(self): return self.text.encode()
    ...     @classmethod
    ...     def from_payload(cls, data): return cls(data.decode())
    >>> event_from_bytes(Hello("world").to_bytes(), EventRegistry(Hello)).text
    'world'
    """

    type_code: ClassVar[int] = _USER_EVENT
    class_name: ClassVar[str]

    def payload(self) -> bytes:
        """The event's own bytes."""
        raise TypeError(f"{type(self).__name__} has to define payload()")

    @classmethod
    def from_payload(cls, data: bytes) -> UserEvent:
        """Read `payload` back."""
        raise TypeError(f"{cls.__name__} has to define from_payload()")

    def _body(self) -> bytes:
        return _java_utf(self.class_name) + self.payload()


class EventRegistry:
    """The user events that a reader understands, by class name. Only what stands here is ever made from bytes."""

    def __init__(self, *classes: type[UserEvent]) -> None:
        self._classes = {cls.class_name: cls for cls in classes}

    def read(self, reader: _Reader) -> UserEvent:
        """Read class name and payload of a user event."""
        name = reader.text()
        if name not in self._classes:
            reader.fail(f"an event of class {name!r}, which the reader does not know; give an EventRegistry with it")
        return self._classes[name].from_payload(reader.rest())


_READERS: dict[int, Callable[[_Reader], Event]] = {
    cls.type_code: cls._read
    for cls in (
        EndOfPartition,
        CheckpointBarrier,
        EndOfSuperstep,
        CancelCheckpointMarker,
        EndOfOutputChannelState,
        EventAnnouncement,
        SubtaskConnectionDescriptor,
        EndOfData,
        EndOfSegment,
        RecoveryMetadata,
        WatermarkEvent,
        EndOfInputChannelState,
    )
}


def event_from_bytes(data: bytes | bytearray | memoryview, registry: EventRegistry | None = None) -> Event:
    """Read one event.

    Parameters
    ----------
    data : bytes-like
        All bytes of the event's buffer.
    registry : EventRegistry, optional
        Events of the user's classes; without it they are refused.

    Raises
    ------
    CorruptDataError
        The bytes end too early, go on too long, or are of an event that is not known; the message has the offset.

    Examples
    --------
    >>> event_from_bytes(bytes.fromhex("0000000801"))
    EndOfData(mode=<StopMode.NO_DRAIN: 1>)
    """
    reader = _Reader(bytes(data))
    event = _read_event(reader, registry or EventRegistry())
    left = reader.data[reader.offset :]
    if left and left != bytes(event._unused_size()):
        reader.fail(f"{len(left)} bytes too many after {type(event).__name__}")
    return event


def _read_event(reader: _Reader, registry: EventRegistry) -> Event:
    code = reader.number("i")
    if code == _USER_EVENT:
        return registry.read(reader)
    if code not in _READERS:
        reader.fail(f"unknown event type {code}")
    return _READERS[code](reader)
