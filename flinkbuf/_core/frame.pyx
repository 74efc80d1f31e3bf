"""Frames of the wire as Python values: for tools and tests. Between tasks they are coded in C, without Python."""

from libc.string cimport memcpy

from flinkbuf._core.errors cimport fail
from flinkbuf._core.errors cimport FB_ECORRUPT, FB_ETRUNCATED

cdef dict IDS = {fb_frame_name(id).decode("ascii"): id for id in range(FB_FRAME_ID_COUNT)}
cdef dict SENDERS = {None: FB_FRAMES_ALL, "client": FB_FRAMES_OF_CLIENTS, "server": FB_FRAMES_OF_SERVERS}
cdef tuple NUMBERS = ("subpartition", "last_subpartition", "sequence_number", "backlog", "credit", "buffer_size",
                      "segment", "data_type", "is_compressed")


cdef int copy_id(uint8_t* to, object source, Py_ssize_t size, str what) except -1:
    cdef bytes data = bytes(source)
    if len(data) != size:
        raise ValueError(f"{what} has {size} bytes, got {len(data)}")
    memcpy(to, <const char*> data, <size_t> size)
    return 0


cdef class Frame:
    """One message of the wire.

    Parameters
    ----------
    message : str
        Flink's name of it, such as ``"AddCredit"``.
    receiver : bytes, optional
        Input channel id, 16 bytes. Every message but ``CloseRequest`` has one; an ``ErrorResponse`` without it ends
        the whole connection.
    partition : bytes, optional
        Result partition id, 60 bytes: ``PartitionRequest``, ``TaskEventRequest``.
    body : bytes
        Content of a ``BufferResponse``, event of a ``TaskEventRequest``, cause of an ``ErrorResponse``.
    part_sizes : sequence of int
        Sizes in bytes of the buffers that one ``BufferResponse`` joins; they sum to the body's.
    **numbers
        ``subpartition``, ``last_subpartition``, ``sequence_number``, ``backlog``, ``credit``, ``buffer_size`` (bytes),
        ``segment``, ``data_type`` (0 to 13), ``is_compressed``.

    References
    ----------
    Flink ``NettyMessage``; bytes in ``tests/golden/netty_frames``.

    Examples
    --------
    >>> Frame("AddCredit", receiver=bytes(16), credit=2).encode().hex()
    '0000001dbadc0ffe060000000200000000000000000000000000000000'
    """

    def __init__(self, str message not None, *, receiver=None, partition=None, body=b"", part_sizes=(), **numbers):
        if message not in IDS:
            raise ValueError(f"unknown message {message!r}; there are {', '.join(IDS)}")
        unknown = numbers.keys() - set(NUMBERS)
        if unknown:
            raise TypeError(f"a frame has no field {', '.join(sorted(unknown))}; there are {', '.join(NUMBERS)}")
        self.c.id = IDS[message]
        self.body = bytes(body)
        self.part_sizes = tuple(part_sizes)
        self.c.body_size = len(self.body)
        self.c.part_count = len(self.part_sizes)
        self.c.subpartition = numbers.get("subpartition", 0)
        self.c.last_subpartition = numbers.get("last_subpartition", 0)
        self.c.sequence_number = numbers.get("sequence_number", 0)
        self.c.backlog = numbers.get("backlog", 0)
        self.c.credit = numbers.get("credit", 0)
        self.c.buffer_size = numbers.get("buffer_size", 0)
        self.c.segment = numbers.get("segment", 0)
        self.c.data_type = numbers.get("data_type", 0)
        self.c.is_compressed = numbers.get("is_compressed", False)
        if receiver is not None:
            copy_id(self.c.receiver, receiver, FB_CHANNEL_ID_SIZE, "receiver")
            self.c.has_receiver = True
        if partition is not None:
            copy_id(self.c.partition, partition, FB_PARTITION_ID_SIZE, "partition")

    @staticmethod
    cdef Frame adopt(const fb_frame* frame, bytes body, tuple part_sizes):
        cdef Frame self = Frame.__new__(Frame)
        self.c = frame[0]
        self.body = body
        self.part_sizes = part_sizes
        return self

    @property
    def message(self):
        """Flink's name of the message."""
        return fb_frame_name(self.c.id).decode("ascii")

    @property
    def receiver(self):
        """Input channel id, 16 bytes, or None."""
        return self.c.receiver[:FB_CHANNEL_ID_SIZE] if self.c.has_receiver else None

    @property
    def partition(self):
        """Result partition id, 60 bytes; zeros where the message has none."""
        return self.c.partition[:FB_PARTITION_ID_SIZE]

    @property
    def numbers(self):
        """All numbers and flags by name, those the message does not use as 0."""
        return {
            "subpartition": self.c.subpartition,
            "last_subpartition": self.c.last_subpartition,
            "sequence_number": self.c.sequence_number,
            "backlog": self.c.backlog,
            "credit": self.c.credit,
            "buffer_size": self.c.buffer_size,
            "segment": self.c.segment,
            "data_type": self.c.data_type,
            "is_compressed": bool(self.c.is_compressed),
        }

    def encode(self):
        """Return the bytes on the wire. ValueError where a number is out of its range."""
        cdef uint8_t head[FB_FRAME_HEAD_MAX]
        cdef uint8_t tail[FB_FRAME_TAIL_MAX]
        cdef int head_size = fb_frame_write_head(&self.c, head)
        if head_size < 0:
            fail(head_size, repr(self))
        if self.part_sizes and sum(self.part_sizes) != len(self.body):
            raise ValueError(f"parts of {sum(self.part_sizes)} bytes, but a body of {len(self.body)}")
        parts = b"".join([size.to_bytes(4, "big") for size in self.part_sizes])
        tail_size = fb_frame_write_tail(&self.c, tail)
        return head[:head_size] + parts + self.body + tail[:tail_size]

    def __eq__(self, other):
        if not isinstance(other, Frame):
            return NotImplemented
        return ((self.message, self.receiver, self.partition, self.numbers, self.part_sizes, self.body)
                == (other.message, other.receiver, other.partition, other.numbers, other.part_sizes, other.body))

    def __repr__(self):
        fields = "".join(f", {name}={value}" for name, value in self.numbers.items() if value)
        receiver = "None" if self.receiver is None else self.receiver.hex()
        return f"Frame({self.message!r}, receiver={receiver}{fields}, {len(self.body)} bytes of body)"


cdef class FrameDecoder:
    """Frames out of a stream that arrives in pieces of any size.

    Parameters
    ----------
    sender : {"client", "server"}, optional
        Who wrote the stream: frames that only the other side sends are refused. None takes all.
    max_data_size, max_event_size, max_error_size, max_part_count : int, default 0
        Limits of a frame's body in bytes and of the sizes in front of it; 0: what the format allows, 2**31 - 1.

    Raises
    ------
    CorruptDataError
        From `feed`: what was wrong, in which message, at which byte of the stream.
    """

    def __init__(self, sender=None, *, uint32_t max_data_size=0, uint32_t max_event_size=0,
                 uint32_t max_error_size=0, uint32_t max_part_count=0):
        cdef fb_frame_limits limits
        if sender not in SENDERS:
            raise ValueError(f"sender is 'client', 'server' or None, got {sender!r}")
        limits.accepted = SENDERS[sender]
        limits.max_data, limits.max_event = max_data_size, max_event_size
        limits.max_error, limits.max_parts = max_error_size, max_part_count
        fb_frame_decoder_open(&self.c, &limits)
        self.body, self.parts = [], []

    @property
    def offset(self):
        """Bytes of the stream decoded so far."""
        return self.c.stream_offset

    def feed(self, const uint8_t[::1] data not None):
        """Take the next bytes of the stream; return the list of frames that they complete."""
        cdef size_t size = <size_t> data.shape[0]
        cdef const uint8_t* at = &data[0] if size > 0 else NULL
        cdef int step
        frames = []
        while True:
            step = fb_frame_decoder_next(&self.c, &at, &size)
            if step < 0:
                fail(step, self.c.error.decode("ascii"))
            if step == FB_FRAME_NEEDS_INPUT:
                return frames
            self.take(step, frames)

    cdef int take(self, int step, list frames) except -1:
        cdef fb_frame frame
        cdef bytes body
        if step == FB_FRAME_BODY:
            self.body.append((<const char*> self.c.bytes)[:self.c.size])
        elif step == FB_FRAME_PART:
            self.parts.append(self.c.part_size)
        elif step == FB_FRAME_ENDS:
            frame = self.c.frame
            body = b"".join(self.body)
            if frame.id == FB_ERROR_RESPONSE:
                if fb_frame_split_error(&frame, body, <size_t> len(body)) < 0:
                    fail(FB_ECORRUPT, f"ErrorResponse that ends at byte {self.c.stream_offset} of the stream")
                body = body[:frame.body_size]
            frames.append(Frame.adopt(&frame, body, tuple(self.parts)))
            self.body, self.parts = [], []
        return 0

    def close(self):
        """State that the stream has ended. CorruptDataError where that is inside a frame."""
        if not fb_frame_decoder_is_between(&self.c):
            fail(FB_ETRUNCATED, f"the stream ends after {self.c.stream_offset} bytes")
