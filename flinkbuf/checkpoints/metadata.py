"""The bytes of ``_metadata``: what makes a checkpoint one. Flink: MetadataV6Serializer, Checkpoints.

All numbers little-endian::

    8 bytes   magic, b"fb-chkpt"
    u32       version: 1
    u64, u64  bytes of the description, and of the state that lies in this file itself
    u32, u32  CRC 32 of each
    u32       CRC 32 of all bytes before it
    ...       the description: JSON of CheckpointMetadata; a state in this file is named by its offset
    ...       that state, one after the other

What is as its default is not written, so that later versions can add to the description. Files in the checkpoint's own
directory, or in that of its job, are named relative to it: both can be moved.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

from flinkbuf.checkpoints.damage import damaged
from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from flinkbuf.checkpoints.locations import absolute, child, relative
from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.errors import CorruptDataError

VERSION: Final = 1
SIZE_MAX: Final = 1 << 31  # bytes of a file that is read at once

_MAGIC = b"fb-chkpt"
_HEADER = struct.Struct("<8sIQQIII")
_CODEC = MessageCodec({VERSION: CheckpointMetadata}, omits_defaults=True)


def encode_metadata(metadata: CheckpointMetadata, location: str) -> bytes:
    """Return the bytes of ``_metadata`` of a checkpoint that lies at `location`."""
    states: list[bytes] = []
    size = 0

    def stored(handle: StateHandle) -> StateHandle:
        nonlocal size
        if handle.path:
            return dataclasses.replace(handle, path=relative(handle.path, location))
        if len(handle.data) != handle.size:
            raise ValueError(f"a state in memory is said to have {handle.size} bytes, and has {len(handle.data)}")
        states.append(bytes(handle.data))
        size += len(handle.data)
        return dataclasses.replace(handle, data=b"", offset=size - len(handle.data))

    description = _CODEC.encode(_with_handles(metadata, stored))[1:]
    state = b"".join(states)
    head = _HEADER.pack(_MAGIC, VERSION, len(description), len(state), zlib.crc32(description), zlib.crc32(state), 0)
    return head[:-4] + struct.pack("<I", zlib.crc32(head[:-4])) + description + state


def decode_metadata(data: bytes, location: str, path: str = "") -> CheckpointMetadata:
    """Return what ``_metadata`` says of the checkpoint that lies at `location` now.

    Raises
    ------
    CorruptDataError
        If a single bit is not as it was written; it names the file (`path`) and the byte.
    """
    path = path or child(location, "_metadata")
    begin, middle = _sections(data, path)
    state = memoryview(data)[middle:]

    def found(handle: StateHandle) -> StateHandle:
        if handle.size < 0 or handle.offset < 0:
            raise damaged(path, begin, f"it names a state of {handle.size} bytes at {handle.offset}")
        if handle.path:
            return dataclasses.replace(handle, path=absolute(handle.path, location))
        if handle.offset + handle.size > len(state):
            raise damaged(path, begin, f"it has no {handle.size} bytes of state at {handle.offset}")
        here = bytes(state[handle.offset : handle.offset + handle.size])
        return dataclasses.replace(handle, data=here, offset=0)

    try:
        metadata: CheckpointMetadata = _CODEC.decode(bytes((VERSION,)) + data[begin:middle])
    except CorruptDataError as error:
        raise damaged(path, begin, str(error)) from None
    _check(metadata, path, begin)
    return _with_handles(metadata, found)


def _sections(data: bytes, path: str) -> tuple[int, int]:
    """Check all checksums; return where the description begins, and the state."""
    if data[:8] != _MAGIC[: len(data)]:
        raise damaged(path, 0, "it does not begin as the _metadata of a checkpoint does")
    if len(data) < _HEADER.size:
        raise damaged(path, len(data), f"it ends within its first {_HEADER.size} bytes")
    _, version, description_size, state_size, description_sum, state_sum, own_sum = _HEADER.unpack_from(data)
    if zlib.crc32(data[: _HEADER.size - 4]) != own_sum:
        raise damaged(path, 8, f"the checksum of its first {_HEADER.size} bytes is another")
    if version != VERSION:
        raise damaged(path, 8, f"it is of version {version}; this flinkbuf reads version {VERSION} alone")
    begin, middle = _HEADER.size, _HEADER.size + description_size
    end = middle + state_size
    if len(data) != end:
        raise damaged(path, min(len(data), end), f"it has {len(data)} bytes, and had {end} when it was written")
    view = memoryview(data)
    if zlib.crc32(view[begin:middle]) != description_sum:
        raise damaged(path, begin, f"the checksum of the {description_size} bytes from here on is another")
    if zlib.crc32(view[middle:]) != state_sum:
        raise damaged(path, middle, f"the checksum of the {state_size} bytes from here on is another")
    return begin, middle


def _check(metadata: CheckpointMetadata, path: str, offset: int) -> None:
    """Check what the types of the metadata do not say, so that a reader may rely on it."""
    for vertex in metadata.vertices:
        if len(vertex.subtasks) != vertex.parallelism:
            what = f"vertex {vertex.name!r} has {vertex.parallelism} subtasks, and state of {len(vertex.subtasks)}"
            raise damaged(path, offset, what)
        if not 0 < vertex.parallelism <= vertex.max_parallelism:
            limits = f"parallelism {vertex.parallelism} and at most {vertex.max_parallelism}"
            raise damaged(path, offset, f"vertex {vertex.name!r} has {limits}")
    for subtask in metadata.subtasks():
        for operator in subtask.operators:
            for keyed in operator.keyed:
                if not 0 <= keyed.first_key_group <= keyed.last_key_group < keyed.max_parallelism:
                    groups = f"{keyed.first_key_group} to {keyed.last_key_group} of {keyed.max_parallelism}"
                    raise damaged(path, offset, f"operator {operator.operator_id} has the key groups {groups}")


def _with_handles(value: object, change: Callable[[StateHandle], StateHandle]) -> Any:
    """Return the value with another handle for each, wherever it stands."""
    if isinstance(value, StateHandle):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_with_handles(each, change) for each in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in dataclasses.fields(value):
        before = getattr(value, field.name)
        after = _with_handles(before, change)
        if after is not before:
            changed[field.name] = after
    return dataclasses.replace(value, **changed) if changed else value
