"""Frames of the wire, coded a second time: what tests say to the core's servers and clients, and hear from them.

It believes what it is told: what is wrong is refused by the core, not here.
"""

import struct

MAGIC = 0xBADC0FFE
HEADER = struct.Struct(">iIB")  # length of the whole frame, magic number, id
ID_SIZE = 16  # bytes of an input channel's id
# By id: Flink's name of the message, and what its head has behind the header.
SHAPES = [
    (
        "BufferResponse",
        "receiver:16s subpartition:i part_count:i sequence_number:i backlog:i data_type:B is_compressed:? body_size:i",
    ),
    ("ErrorResponse", ""),
    ("PartitionRequest", "partition:60s subpartition:i last_subpartition:i receiver:16s credit:i"),
    ("TaskEventRequest", "body_size:i"),
    ("CancelPartitionRequest", "receiver:16s"),
    ("CloseRequest", ""),
    ("AddCredit", "credit:i receiver:16s"),
    ("ResumeConsumption", "receiver:16s"),
    ("AckAllUserRecordsProcessed", "receiver:16s"),
    ("BacklogAnnouncement", "backlog:i receiver:16s"),
    ("NewBufferSize", "buffer_size:i receiver:16s"),
    ("SegmentId", "subpartition:i segment:i receiver:16s"),
]
IDS = {name: number for number, (name, _) in enumerate(SHAPES)}
FIELDS = [[field.split(":")[0] for field in fields.split()] for _, fields in SHAPES]
HEADS = [struct.Struct(">" + "".join(field.split(":")[1] for field in fields.split())) for _, fields in SHAPES]
# The fields that are numbers or flags.
NUMBERS = [
    "subpartition",
    "last_subpartition",
    "sequence_number",
    "backlog",
    "credit",
    "buffer_size",
    "segment",
    "data_type",
    "is_compressed",
]


class Frame:
    """One message: its ids, its numbers by name (0 where it has none), the sizes of its parts, and its body."""

    def __init__(self, message, *, receiver=None, partition=bytes(60), body=b"", part_sizes=(), **numbers):
        assert numbers.keys() <= set(NUMBERS), numbers
        self.message, self.receiver, self.partition = message, receiver, partition
        self.body, self.part_sizes = bytes(body), tuple(part_sizes)
        self.numbers = {name: numbers.get(name, 0) for name in NUMBERS}

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"Frame({self.message!r}, {vars(self)})"

    def encode(self):
        number = IDS[self.message]
        values = self.numbers | {
            "receiver": self.receiver,
            "partition": self.partition,
            "part_count": len(self.part_sizes),
            "body_size": len(self.body),
        }
        head = HEADS[number].pack(*(values[name] for name in FIELDS[number]))
        tail = b""
        if self.message == "ErrorResponse":
            tail = b"\0" if self.receiver is None else b"\1" + self.receiver
        elif self.message == "TaskEventRequest":
            tail = self.partition + self.receiver
        rest = head + b"".join(size.to_bytes(4, "big") for size in self.part_sizes) + self.body + tail
        return HEADER.pack(HEADER.size + len(rest), MAGIC, number) + rest

    @classmethod
    def decode(cls, wire):
        _, magic, number = HEADER.unpack_from(wire)
        assert magic == MAGIC, wire[:64]
        values = dict(zip(FIELDS[number], HEADS[number].unpack_from(wire, HEADER.size), strict=True))
        rest = wire[HEADER.size + HEADS[number].size :]
        message = SHAPES[number][0]
        parts, size = values.pop("part_count", 0), values.pop("body_size", 0)
        if message == "ErrorResponse":
            rest, values["receiver"] = cause_and_receiver(rest)
            size = len(rest)
        elif message == "TaskEventRequest":
            values |= {"partition": rest[size:-ID_SIZE], "receiver": rest[-ID_SIZE:]}
        part_sizes = struct.unpack_from(f">{parts}i", rest)
        return cls(message, part_sizes=part_sizes, body=rest[4 * parts : 4 * parts + size], **values)


def cause_and_receiver(rest):
    """The two parts of an ErrorResponse, which does not say where its cause ends; most do with an x."""
    has_flag = len(rest) > ID_SIZE and rest[-ID_SIZE - 1] == 1
    if has_flag and (rest[-1] != 0 or rest[-2:-1] != b"x"):
        return rest[: -ID_SIZE - 1], rest[-ID_SIZE:]
    assert rest[-1] == 0, rest[-64:]
    return rest[:-1], None


class FrameDecoder:
    """Frames out of a stream that arrives in pieces of any size."""

    def __init__(self):
        self.waiting = b""

    def feed(self, data):
        """Take the next bytes of the stream; return the list of frames that they complete."""
        self.waiting += bytes(data)
        frames = []
        while len(self.waiting) >= HEADER.size and len(self.waiting) >= (size := HEADER.unpack_from(self.waiting)[0]):
            assert size >= HEADER.size, self.waiting[:64]
            frames.append(Frame.decode(self.waiting[:size]))
            self.waiting = self.waiting[size:]
        return frames

    def close(self):
        """State that the stream has ended, which is not inside a frame."""
        assert not self.waiting, self.waiting[:64]
