"""The records of a test, made from their numbers alone, and what a reader has to see of them.

Record n is the same here and in java/flinkbuf/interop/Records.java. Even ones are noise, which no codec makes smaller;
odd ones repeat 32 bytes, which every codec does. A task writes by steps: dicts, so that they can be sent.
"""

import hashlib
import struct

import numpy as np

import flinkbuf as fb
from flinkbuf.network.events import (
    NO_TIMEOUT,
    AlignmentType,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Event,
    EventAnnouncement,
    StopMode,
)

TYPES = {
    "bytes": fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE()),
    "long": fb.Types.LONG(),
    "string": fb.Types.STRING(),
}
GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


def _mixed(words):
    """SplitMix64's last steps."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _fill(number, size):
    count = -(-size // 8)
    start = np.uint64((number * GOLDEN + 1) & MASK)
    words = _mixed(np.arange(count if number % 2 == 0 else 4, dtype=np.uint64) + start).astype("<u8").tobytes()
    return words[:size] if number % 2 == 0 else (words * (size // 32 + 1))[:size]


def _unit(value):
    return chr(32 + value % 95 if value < 200 else 0xC0 + value if value < 230 else 0x4E00 + value)


_UNITS = [_unit(value) for value in range(256)]


def record(kind, number, size):
    """Record `number`; `size` in bytes or characters, where the type has sizes."""
    if kind == "long":
        return struct.unpack("<q", _fill(number, 8))[0]
    if kind == "bytes":
        return _fill(number, size)
    return "".join(_UNITS[byte] for byte in _fill(number, size)) + ("\U0001f600" if number % 5 == 0 else "")


def canonical(kind, value):
    """What goes into a digest: the value, whatever bytes the serializer chose for it."""
    if kind == "long":
        return struct.pack(">q", value)
    return bytes(value) if kind == "bytes" else value.encode("utf-16-be")


def text_of(event):
    """One event as both sides write it down."""
    if isinstance(event, CheckpointBarrier):
        return f"barrier {event.checkpoint_id} {event.timestamp} {event.alignment.name}"
    if isinstance(event, EndOfData):
        return f"end_of_data {event.mode.name}"
    if isinstance(event, EndOfPartition):
        return "end_of_partition"
    if isinstance(event, CancelCheckpointMarker):
        return f"cancel {event.checkpoint_id}"
    if isinstance(event, EventAnnouncement):
        return f"announcement of {text_of(event.announced)}"
    return repr(event)


class Digest:
    """What one channel gave: how many records, their hash in order, and each event with its place among them."""

    def __init__(self, kind):
        self.kind, self.hash, self.count, self.events = kind, hashlib.sha256(), 0, []

    def add(self, item):
        if isinstance(item, Event):
            self.events.append(f"{self.count} {text_of(item)}")
            return
        data = canonical(self.kind, item)
        self.hash.update(len(data).to_bytes(4, "big"))
        self.hash.update(data)
        self.count += 1

    def result(self):
        return {"records": self.count, "sha256": self.hash.hexdigest(), "events": self.events}


# ---- what a task writes -----------------------------------------------------------------------------


def records(count, *sizes):
    """The next `count` records, one after the other to each subpartition; record n has sizes[n mod len(sizes)]."""
    return {"step": "records", "count": count, "sizes": sizes or (8,)}


def broadcast(count, *sizes):
    """The next `count` records, each to every subpartition."""
    return {**records(count, *sizes), "step": "broadcast"}


def barrier(checkpoint, alignment="ALIGNED", timeout_ms=None, priority=False):
    """A checkpoint barrier to every subpartition."""
    return {
        "step": "barrier",
        "checkpoint": checkpoint,
        "timestamp": 1_700_000_000_000 + checkpoint,
        "alignment": alignment,
        "timeout_ms": timeout_ms,
        "priority": priority,
    }


def barrier_timeout(checkpoint):
    """The barrier with a timeout that was written before becomes an unaligned one where it has not been sent yet."""
    return {"step": "barrier_timeout", "checkpoint": checkpoint}


def cancel_checkpoint(checkpoint):
    return {"step": "cancel_checkpoint", "checkpoint": checkpoint}


def flush():
    return {"step": "flush"}


def sleep(ms):
    return {"step": "sleep", "ms": ms}


def end_of_data(mode="DRAIN"):
    return {"step": "end_of_data", "mode": mode}


def await_processed(ms=30_000):
    """Wait until every reader has acknowledged that it has processed all records."""
    return {"step": "await_processed", "ms": ms}


def finish():
    return {"step": "finish"}


def fail(message):
    return {"step": "fail", "message": message}


END = [end_of_data(), finish()]


def event_of(step):
    if step["step"] == "barrier":
        return CheckpointBarrier(
            step["checkpoint"],
            step["timestamp"],
            alignment=AlignmentType[step["alignment"]],
            aligned_timeout_ms=NO_TIMEOUT if step["timeout_ms"] is None else step["timeout_ms"],
        )
    if step["step"] == "cancel_checkpoint":
        return CancelCheckpointMarker(step["checkpoint"])
    if step["step"] == "end_of_data":
        return EndOfData(StopMode[step["mode"]])
    return EndOfPartition() if step["step"] == "finish" else None


def expected(kind, steps, subpartitions):
    """The digest of each subpartition that these steps write."""
    digests, number = [Digest(kind) for _ in range(subpartitions)], 0
    for step in steps:
        if step["step"] in ("records", "broadcast"):
            first, number = number, number + step["count"]
            for index in range(first, number):
                value = record(kind, index, step["sizes"][index % len(step["sizes"])])
                targets = digests if step["step"] == "broadcast" else [digests[index % subpartitions]]
                for digest in targets:
                    digest.add(value)
        elif (event := event_of(step)) is not None:
            for digest in digests:
                digest.add(event)
    return [digest.result() for digest in digests]
