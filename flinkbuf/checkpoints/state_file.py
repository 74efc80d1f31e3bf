"""How state lies in bytes: sections with an index behind them, so that a reader takes only those of its key groups.

A region holds the state of one operator of one subtask; regions of all operators of a subtask stand in one file, or
travel inline where they are small::

    region  := section* index trailer
    index   := u32 size of head | head (JSON) | entry*
    entry   := u16 state | u16 key group | u64 offset | u32 size | u32 raw size | u32 CRC 32
    trailer := u64 size of index | u8 version | u8 kind | u8 compression | u8 0 | 4 bytes magic | u32 CRC 32

Numbers are big-endian. Sections follow each other without a gap; the last CRC covers index and trailer, so each byte of
a region is under a checksum. Flink: KeyGroupsStateHandle, KeyGroupRangeOffsets.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flinkbuf._core.ground.crc32 import crc32
from flinkbuf.checkpoints.damage import damaged
from flinkbuf.checkpoints.files import StateInput, StateOutput
from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.write_behind import WriteBehind
from flinkbuf.control.message_codec import Json
from flinkbuf.errors import CorruptDataError

VERSION = 1
KEYED, OPERATOR, SNAPSHOT, ROCKSDB = b"K", b"O", b"S", b"R"  # what a region holds
_MAGIC = b"fbst"
_HEAD, _ENTRY, _TRAILER = struct.Struct(">I"), struct.Struct(">HHQIII"), struct.Struct(">QBcBB4sI")
_NONE, _ZLIB = 0, 1
_SMALL = 1 << 18  # smaller pieces are put together before they are written
_PIECE = 1 << 14  # bytes of a piece that is not worth a copy for a system call less
_TAIL_SIZE = 1 << 16  # the first read at the end of a region, so that most indexes come with their trailer
_READ_SIZE = 1 << 23  # sections beside each other are read together up to here
MAX_SECTION_SIZE = 2**32 - 1


OpenInput: TypeAlias = Callable[[str], StateInput]


class SnapshotOutput:
    """Takes the bytes of one snapshot: keeps a few of them, and writes more into one file.

    Parameters
    ----------
    open_output : callable or None
        Returns a new `StateOutput`; None: all is kept.
    threshold : int
        Bytes up to which all is kept.
    limit : int, optional
        More bytes than that are not kept: ValueError.
    check : callable
        Called before each write; raises if the snapshot is not wanted any more.

    Examples
    --------
    >>> output = SnapshotOutput(None, 100)
    >>> output.write(b"state")
    >>> output.finish()
    >>> output.handle(1, 4).data
    b'tate'
    """

    def __init__(
        self,
        open_output: Callable[[], StateOutput] | None,
        threshold: int,
        *,
        limit: int | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_output, self._threshold, self._limit, self._check = open_output, threshold, limit, check
        self._kept: list[bytes | memoryview] = []
        self._kept_size = 0
        self._output: WriteBehind | None = None
        self._path = ""
        self._data = b""
        self.position = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes; they may change afterwards."""
        self.write_pieces((bytes(data),))

    def write_pieces(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append bytes that nobody changes afterwards, one piece behind the other."""
        self._check()
        size = sum(memoryview(piece).nbytes for piece in pieces)
        self.position += size
        if self._limit is not None and self._open_output is None and self.position > self._limit:
            raise ValueError(
                f"the state of this subtask is larger than {self._limit} bytes, the most that can be kept without a "
                f"checkpoint directory: set one that all machines see, with "
                f"env.get_checkpoint_config().set_checkpoint_storage_dir('s3://...') or "
                f"execution.checkpointing.dir"
            )
        keeps_all = self._open_output is None or (self._output is None and self.position <= self._threshold)
        if not keeps_all and size >= _SMALL:
            self._write_kept()
            self._file().write_all(pieces)
            return
        self._kept.extend(pieces)
        self._kept_size += size
        if not keeps_all and self._kept_size >= _SMALL:
            self._write_kept()

    def _file(self) -> WriteBehind:
        if self._output is None:
            assert self._open_output is not None
            self._output = WriteBehind(self._open_output())
        return self._output

    def _write_kept(self) -> None:
        if self._kept:
            kept, self._kept, self._kept_size = self._kept, [], 0
            is_small = len(kept) * _PIECE > sum(memoryview(piece).nbytes for piece in kept)
            self._file().write_all((b"".join(kept),) if is_small else kept)

    def finish(self) -> None:
        """Make all bytes durable."""
        self._check()
        if self._open_output is not None and self.position > self._threshold:
            self._write_kept()
        if self._output is None:
            self._data = b"".join(self._kept)
        else:
            self._path = self._output.finish()

    def abort(self) -> None:
        """Delete the file, also after `finish`: no handle of it was passed on."""
        if self._output is not None:
            self._output.discard()

    def handle(self, offset: int, size: int, checksum: int = 0) -> StateHandle:
        """Return the handle of a stretch, after `finish`."""
        if self._path:
            return StateHandle(size, checksum, self._path, offset)
        return StateHandle(size, checksum, data=self._data[offset : offset + size])


@dataclass(frozen=True)
class Section:
    """Where the bytes of one state in one key group lie, or some of them. Offsets count from the region's begin."""

    state: int  # index among those that the head names
    key_group: int
    offset: int
    size: int
    raw_size: int  # before it was compressed
    checksum: int


class SectionWriter:
    """Writes one region.

    Examples
    --------
    >>> output = SnapshotOutput(None, 100)
    >>> writer = SectionWriter(output, OPERATOR)
    >>> writer.put(0, 0, b"state")
    >>> place = writer.finish({"name": "a"})
    >>> output.finish()
    >>> region = Region(output.handle(*place), None, OPERATOR)
    >>> region.head, [bytes(data) for _, data in region.read(region.sections)]
    ({'name': 'a'}, [b'state'])
    """

    def __init__(self, output: SnapshotOutput, kind: bytes, is_compressed: bool = False) -> None:
        self._output, self._kind = output, kind
        self._compression = _ZLIB if is_compressed else _NONE
        self._begin = output.position
        self._entries: list[bytes] = []

    def put(self, state: int, key_group: int, data: bytes | memoryview) -> None:
        """Append a section; there may be several of one state and key group."""
        self.put_pieces(state, key_group, (data if self._compression == _ZLIB else bytes(data),))

    def put_pieces(self, state: int, key_group: int, pieces: Sequence[bytes | memoryview]) -> None:
        """Append a section whose bytes nobody changes any more, one piece behind the other."""
        raw_size = sum(memoryview(piece).nbytes for piece in pieces)
        if raw_size > MAX_SECTION_SIZE:
            raise OverflowError(f"a section of {raw_size} bytes of state is too large: at most {MAX_SECTION_SIZE}")
        if self._compression == _ZLIB:
            pieces = (zlib.compress(b"".join(pieces), 1),)
        size, checksum = 0, 0
        for piece in pieces:
            size, checksum = size + memoryview(piece).nbytes, crc32(piece, checksum)
        offset = self._output.position - self._begin
        self._entries.append(_ENTRY.pack(state, key_group, offset, size, raw_size, checksum))
        self._output.write_pieces(pieces)

    def put_groups(self, state: int, data: bytes | memoryview, groups: Iterable[tuple[int, int, int]]) -> None:
        """Append a section for each of several key groups: `data` has them all, as (key group, size, CRC 32) says."""
        position, offset = 0, self._output.position - self._begin
        for key_group, size, checksum in groups:
            if self._compression != _NONE:
                self.put(state, key_group, data[position : position + size])
            else:
                self._entries.append(_ENTRY.pack(state, key_group, offset + position, size, size, checksum))
            position += size
        if self._compression == _NONE:
            self._output.write(data)

    def finish(self, head: dict[str, object]) -> tuple[int, int]:
        """Write the index; return offset and size of the region in the output."""
        data = json.dumps(head).encode()
        index = b"".join((_HEAD.pack(len(data)), data, *self._entries))
        trailer = _TRAILER.pack(len(index), VERSION, self._kind, self._compression, 0, _MAGIC, 0)[:-4]
        checksum = crc32(trailer, crc32(index))
        self._output.write(b"".join((index, trailer, struct.pack(">I", checksum))))
        return self._begin, self._output.position - self._begin


class Region:
    """Reads one region; each byte that is given has been checked.

    Parameters
    ----------
    handle : StateHandle
        Of the region.
    open_input : callable or None
        Opens its file; None: the handle has the bytes.
    kinds : bytes
        What it may hold.

    Raises
    ------
    CorruptDataError
        If it is damaged; the message says in which file and where.
    """

    def __init__(self, handle: StateHandle, open_input: OpenInput | None, kinds: bytes) -> None:
        self._handle, self._open_input = handle, open_input
        self._input: StateInput | None = None
        try:
            self._read_index(kinds)
        except BaseException:
            self.close()
            raise

    def _read_index(self, kinds: bytes) -> None:
        handle = self._handle
        trailer_begin = handle.size - _TRAILER.size
        if trailer_begin < 0:
            raise self._corrupt(0, f"{handle.size} bytes are too few")
        tail_begin = max(0, handle.size - _TAIL_SIZE)
        tail = self._bytes(tail_begin, handle.size - tail_begin)
        index_size, version, kind, self._compression, zero, magic, checksum = _TRAILER.unpack(tail[-_TRAILER.size :])
        if magic != _MAGIC:
            raise self._corrupt(trailer_begin, "what stands at its end is not the end of state")
        if version != VERSION:
            raise self._corrupt(trailer_begin, f"it has version {version}, and this flinkbuf reads {VERSION}")
        self._end = trailer_begin - index_size  # of the sections
        if self._end < 0:
            raise self._corrupt(trailer_begin, f"its index cannot have {index_size} bytes")
        index = tail[self._end - tail_begin :] if self._end >= tail_begin else self._bytes(self._end, index_size)
        index = memoryview(index)[:index_size]
        if crc32(tail[-_TRAILER.size : -4], crc32(index)) != checksum:
            raise self._corrupt(self._end, "the checksum of its index does not match")
        if kind not in kinds or zero or self._compression not in (_NONE, _ZLIB):
            raise self._corrupt(trailer_begin, f"it holds {kind!r}, not one of {kinds!r}")
        self.kind = kind
        self.head, self.sections = self._parse(index)

    def _corrupt(self, offset: int, why: str) -> CorruptDataError:
        return damaged(self._handle.path, self._handle.offset + offset, why)

    def _parse(self, index: memoryview) -> tuple[Json, tuple[Section, ...]]:
        begin = self._end
        try:
            (head_size,) = _HEAD.unpack_from(index)
            position = _HEAD.size + head_size
            head = json.loads(bytes(index[_HEAD.size : position]))
            sections = tuple(Section(*entry) for entry in _ENTRY.iter_unpack(index[position:]))
        except (struct.error, ValueError) as error:
            raise self._corrupt(begin, f"its index cannot be read: {error}") from error
        position = 0
        for section in sections:
            if section.offset != position:
                raise self._corrupt(begin, "its sections do not follow each other")
            position += section.size
        if position != begin or not isinstance(head, dict):
            raise self._corrupt(begin, "its sections do not fill it")
        return head, sections

    def _bytes(self, offset: int, size: int) -> bytes | memoryview:
        """Return bytes of the region as they lie there."""
        if self._open_input is None or not self._handle.path:
            data = memoryview(self._handle.data)[offset : offset + size]
        else:
            if self._input is None:
                self._input = self._open_input(self._handle.path)
            data = memoryview(self._input.read_at(self._handle.offset + offset, size))
        if len(data) != size:
            raise self._corrupt(offset + len(data), f"it ends {size - len(data)} bytes too early")
        return data

    def read(self, sections: Iterable[Section]) -> Iterator[tuple[Section, bytes | memoryview]]:
        """Yield sections and their bytes, in the order given; those beside each other are read together."""
        batch: list[Section] = []
        size = 0
        for section in sections:
            if batch and (batch[-1].offset + batch[-1].size != section.offset or size + section.size > _READ_SIZE):
                yield from self._read_batch(batch, size)
                batch, size = [], 0
            batch.append(section)
            size += section.size
        if batch:
            yield from self._read_batch(batch, size)

    def _read_batch(self, batch: list[Section], size: int) -> Iterator[tuple[Section, bytes | memoryview]]:
        begin = batch[0].offset
        data = self._bytes(begin, size)
        for section in batch:
            yield section, self._checked(section, data[section.offset - begin :][: section.size])

    def _checked(self, section: Section, data: bytes | memoryview) -> bytes | memoryview:
        if crc32(data) != section.checksum:
            raise self._corrupt(section.offset, "the checksum of a section does not match")
        if self._compression == _ZLIB:
            inflater = zlib.decompressobj()
            try:
                data = inflater.decompress(data, section.raw_size + 1)
            except zlib.error as error:
                raise self._corrupt(section.offset, str(error)) from error
        if len(data) != section.raw_size:
            raise self._corrupt(section.offset, f"a section has {len(data)} bytes, not {section.raw_size}")
        return data

    def verify(self) -> None:
        """Read the whole region and check it."""
        for _ in self.read(self.sections):
            pass

    def close(self) -> None:
        """Close the region's file; the next read opens it again."""
        if self._input is not None:
            self._input.close()
            self._input = None
