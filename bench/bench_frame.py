"""What do frames cost from Python, next to ``struct`` doing the same without checks?

In C a head is coded in tens of nanoseconds; here it is the Python value that costs. Counterpart: none of
flink-benchmarks alone; frames are a part of ``StreamNetworkThroughputBenchmark``.
"""

import struct

import pytest
from measure import measure, scaled

from flinkbuf._core.frame import Frame, FrameDecoder

COUNT = scaled(2_000)
CHANNEL = bytes(range(16))
CREDITS = [Frame("AddCredit", receiver=CHANNEL, credit=number + 1) for number in range(COUNT)]
CREDIT_STREAM = b"".join(frame.encode() for frame in CREDITS)
RESPONSES = [
    Frame("BufferResponse", receiver=CHANNEL, sequence_number=number, backlog=3, data_type=1, body=bytes(4096))
    for number in range(COUNT)
]
RESPONSE_STREAM = b"".join(frame.encode() for frame in RESPONSES)
PIECE = 64 * 1024  # bytes: what one receive call gives
CREDIT = struct.Struct(">iIBi16s")
RESPONSE = struct.Struct(">iIB16siiiiBBi")


def encode_frames():
    for frame in CREDITS:
        frame.encode()


def encode_struct():
    for number in range(COUNT):
        CREDIT.pack(29, 0xBADC0FFE, 6, number + 1, CHANNEL)


def decode_frames(stream):
    def decode():
        decoder, view, count = FrameDecoder(), memoryview(stream), 0
        for start in range(0, len(stream), PIECE):
            count += len(decoder.feed(view[start : start + PIECE]))
        assert count == COUNT

    return decode


def decode_credits_struct():
    for start in range(0, len(CREDIT_STREAM), 29):
        CREDIT.unpack_from(CREDIT_STREAM, start)


def decode_responses_struct():
    start = 0
    while start < len(RESPONSE_STREAM):
        fields = RESPONSE.unpack_from(RESPONSE_STREAM, start)
        RESPONSE_STREAM[start + 47 : start + fields[0]]
        start += fields[0]


CASES = {
    "frame_encode_credit.flinkbuf": (encode_frames, COUNT, "frames"),
    "frame_encode_credit.struct": (encode_struct, COUNT, "frames"),
    "frame_decode_credit.flinkbuf": (decode_frames(CREDIT_STREAM), COUNT, "frames"),
    "frame_decode_credit.struct": (decode_credits_struct, COUNT, "frames"),
    "frame_decode_4k_buffer.flinkbuf": (decode_frames(RESPONSE_STREAM), COUNT, "frames"),
    "frame_decode_4k_buffer.struct": (decode_responses_struct, COUNT, "frames"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
