"""A small checkpoint of every kind of state, for tests of what reads and writes them."""

import zlib

from flinkbuf.checkpoints.handles import (
    ChannelState,
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorInCheckpoint,
    OperatorSubtaskState,
    SharedFile,
    StateHandle,
    SubtaskState,
    VertexInCheckpoint,
)
from flinkbuf.checkpoints.locations import SHARED, checkpoint_location, child

JOB_ID = "ab" * 16
SOURCE_ID, MAP_ID = "01" * 16, "02" * 16


def inline(data):
    return StateHandle(len(data), zlib.crc32(data), data=data)


def written(storage, location, *pieces):
    """One file with several pieces of state: a handle for each."""
    with storage.open_output(location) as output:
        offsets = [output.write(piece) for piece in pieces]
        path = output.finish()
    return [
        StateHandle(len(piece), zlib.crc32(piece), path, offset) for piece, offset in zip(pieces, offsets, strict=True)
    ]


def write_checkpoint(storage, checkpoint_id=7, location=None):
    """Write one, and return its metadata and the path of it."""
    location = location or checkpoint_location(storage.directory, JOB_ID, checkpoint_id)
    operator, keyed, channel = written(storage, location, b"lists" * 9, b"keyed" * 50, b"buffers")
    (shared,) = written(storage, child(storage.directory, JOB_ID, SHARED), b"table" * 20)
    stateful = OperatorSubtaskState(
        MAP_ID,
        operator=operator,
        has_lists=True,
        keyed=(KeyedStateHandle(0, 63, 128, keyed, "rocksdb", (SharedFile("000012.sst", shared),)),),
    )
    head = OperatorSubtaskState(SOURCE_ID, operator=inline(b"split 1 of 2"))
    first = SubtaskState((head, stateful), (ChannelState(0, 1, channel),), (ChannelState(0, 0, inline(b"out")),))
    vertex = VertexInCheckpoint(
        "aa" * 16,
        "Source: numbers -> Map ü",
        2,
        128,
        (
            OperatorInCheckpoint(SOURCE_ID, "Source: numbers", "numbers", inline(b"enumerator")),
            OperatorInCheckpoint(MAP_ID, "Map"),
        ),
        (first, None),
    )
    metadata = CheckpointMetadata(checkpoint_id, 1_700_000_000_000, JOB_ID, "a job", False, (vertex,))
    path, _ = storage.write_metadata(location, metadata)
    return metadata, path
