"""What java/.../Writer.java and Reader.java do, done by flinkbuf."""

import time

from flink_records import TYPES, Digest, event_of, record

import flinkbuf as fb
from flinkbuf.network.events import AlignmentType, CheckpointBarrier, EndOfData, EndOfPartition, Event


def write(partition, kind, steps, flush_ms=100):
    """Write a partition by `steps`; record n goes to subpartition n mod count."""
    writer = fb.RecordWriter(partition, TYPES[kind], buffer_timeout_ms=flush_ms)
    number = 0
    for step in steps:
        name = step["step"]
        if name in ("records", "broadcast"):
            first, number = number, number + step["count"]
            for index in range(first, number):
                value = record(kind, index, step["sizes"][index % len(step["sizes"])])
                if name == "broadcast":
                    writer.broadcast(value)
                else:
                    writer.emit_to(value, index % partition.subpartition_count)
        elif name == "flush":
            writer.flush()
        elif name == "sleep":
            time.sleep(step["ms"] / 1000)
        elif name == "await_processed":
            assert partition.wait_for_all_data_processed(step["ms"])
        elif name == "finish":
            writer.stop()
            partition.finish()
        elif name == "fail":
            partition.fail(RuntimeError(step["message"]))
        else:
            writer.write_event(event_of(step), step.get("priority", False))


def read(gate, kind, limit=None, pause_every=None, pause_ms=0):
    """Read a gate to its end, or to `limit` records; the digest of each channel."""
    digests = [Digest(kind) for _ in range(gate.channel_count)]
    blocked, unfinished, count = set(), gate.channel_count, 0
    reader = fb.RecordReader(gate, TYPES[kind], events=True)
    for item in reader:
        channel = reader.channel_index
        digests[channel].add(item)
        if not isinstance(item, Event):
            assert channel not in blocked, f"data on channel {channel}, which a barrier blocks"
            count += 1
            if count == limit:
                break
            if pause_every and count % pause_every == 0:
                time.sleep(pause_ms / 1000)
        elif isinstance(item, EndOfData):
            gate.acknowledge_all_records_processed(channel)
        elif isinstance(item, EndOfPartition):
            unfinished -= 1
        elif isinstance(item, CheckpointBarrier) and item.alignment is AlignmentType.ALIGNED:
            blocked.add(channel)
        if blocked and len(blocked) >= unfinished:
            for waiting in blocked:
                gate.resume_consumption(waiting)
            blocked.clear()
    reader.close()
    return [digest.result() for digest in digests]
