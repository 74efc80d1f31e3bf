"""Keyed state in RocksDB on its way into checkpoints, and back.

A checkpoint refers to the files of the database: those that an earlier one has already are not written again, since
such a file never changes. A savepoint has the form that every backend reads. Flink: RocksIncrementalSnapshotStrategy,
RocksNativeFullSnapshotStrategy, RocksDBIncrementalRestoreOperation.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkbuf._core.ground.crc32 import crc32
from flinkbuf._core.state.rocksdb_table import entry_in
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.checkpoints.damage import damaged
from flinkbuf.checkpoints.handles import KeyedStateHandle, SharedFile, StateHandle
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.checkpoints.state_file import (
    KEYED,
    ROCKSDB,
    OpenInput,
    Region,
    SectionWriter,
    SnapshotOutput,
)
from flinkbuf.checkpoints.state_index import StateMeta, index_of, keyed_head
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.keyed_snapshot import StatePart, write_parts
from flinkbuf.streaming.state.rocksdb_store import RocksDbStore
from flinkbuf.streaming.state.snapshot import KeyedSnapshot, SnapshotTarget

_PIECE_SIZE = 1 << 20  # of files and sections that are written or read at a time
_NO_NAMESPACE = TypeCodec("OBJECT").serialize(None)
_SHARED_SUFFIX = ".sst"  # files that never change
_LEFT_OUT = ".log"  # nothing is logged
_PLACES = 2  # the version of what places look like; files without it are of version 1

Uploads = dict[str, SharedFile]


class UploadedFiles:
    """The files of a database that lie in the storage already. From any thread.

    Parameters
    ----------
    restored : dict
        Those of the checkpoint that the task has begun from.

    Examples
    --------
    >>> files = UploadedFiles()
    >>> files.note(1, {"7.sst": SharedFile("7.sst", StateHandle(3, path="/shared/a"))})
    >>> files.known()
    {}
    >>> files.complete(1)
    >>> list(files.known())
    ['7.sst']
    """

    def __init__(self, restored: Uploads | None = None) -> None:
        self._completed: Uploads = dict(restored or {})
        self._open: dict[int, Uploads] = {}  # of checkpoints that may still complete
        self._lock = threading.Lock()

    def note(self, checkpoint_id: int, uploads: Uploads) -> None:
        """Note the files of a checkpoint that was written."""
        with self._lock:
            self._open[checkpoint_id] = uploads

    def complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete: later ones may refer to its files."""
        with self._lock:
            uploads = self._open.get(checkpoint_id)
            if uploads is not None:
                self._completed = uploads
                self._open = {other: each for other, each in self._open.items() if other > checkpoint_id}

    def abort(self, checkpoint_id: int) -> None:
        """Drop the files of an aborted checkpoint: they are deleted."""
        with self._lock:
            self._open.pop(checkpoint_id, None)

    def known(self) -> Uploads:
        """Return the files that the next checkpoint may refer to, by name.

        One that is still open may have completed without this task knowing, and have taken the place of the last:
        what it has written anew lies elsewhere then, and no longer where the last one had it.
        """
        with self._lock:
            return {
                name: file
                for name, file in self._completed.items()
                if all(uploads.get(name, file) == file for uploads in self._open.values())
            }


@dataclass(frozen=True)
class FrozenFiles:
    """A database as it was at one moment, in a directory of its own."""

    directory: Path
    metas: Mapping[int, StateMeta]  # by the number that its places have
    uploads: UploadedFiles
    is_incremental: bool


class LiveRocksDbSnapshot:
    """Keyed state of one operator in RocksDB, with its timers and the states not read since the restore."""

    def __init__(self, key_groups: KeyGroups, parts: Sequence[StatePart], files: FrozenFiles) -> None:
        self._key_groups, self._parts, self._files = key_groups, tuple(parts), files
        self._readable: KeyedSnapshot | None = None

    def write(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        """Write the database in the form that fits the checkpoint; `release` is still to be called."""
        is_own = self._files.is_incremental and target.open_shared is not None and not target.kind.is_savepoint
        return self._write_own(target) if is_own else self._write_common(target)

    def _head(self) -> dict[str, object]:
        groups = self._key_groups
        metas = (*(part.meta for part in self._parts), *self._files.metas.values())
        return keyed_head(groups.max_parallelism, groups.first, groups.last, repr(groups.key_type), metas)

    def _handle(self, target: SnapshotTarget, place: tuple[int, int], *rest: Any) -> KeyedStateHandle:
        groups = self._key_groups
        return KeyedStateHandle(groups.first, groups.last, groups.max_parallelism, target.output.handle(*place), *rest)

    def _write_common(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        writer = SectionWriter(target.output, KEYED, target.is_compressed)
        write_parts(writer, self._parts, self._key_groups, target.is_cancelled)
        store = RocksDbStore(self._files.directory, is_read_only=True)
        try:
            for state, key_group, data in self._sections(store, target.is_cancelled):
                writer.put(state, key_group, data)
        finally:
            store.close()
        place = writer.finish(self._head())
        return lambda: self._handle(target, place)

    def _sections(self, store: RocksDbStore, is_cancelled: Callable[[], bool]) -> Iterator[tuple[int, int, bytes]]:
        """Go over all entries as sections: (place among the metas, key group, bytes)."""
        states = {number: len(self._parts) + index for index, number in enumerate(self._files.metas)}
        pieces: list[bytes] = []
        current, size, namespace = b"", 0, _NO_NAMESPACE
        end = (self._key_groups.last + 1).to_bytes(2, "big")
        for place, data in store.scan(self._key_groups.first.to_bytes(2, "big"), end):
            if place[:4] != current or size >= _PIECE_SIZE:
                if pieces:
                    yield _section(current, states, pieces)
                if is_cancelled():
                    raise InterruptedError("the snapshot was cancelled")
                current, pieces, size, namespace = place[:4], [], 0, _NO_NAMESPACE
            has_ttl = self._files.metas[int.from_bytes(place[2:4], "big")].has_ttl
            entry, namespace = entry_in(place, data, namespace, self._key_groups.key_codec, has_ttl)
            pieces.append(entry)
            size += len(entry)
        if pieces:
            yield _section(current, states, pieces)

    def _write_own(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        writer = SectionWriter(target.output, ROCKSDB, target.is_compressed)
        write_parts(writer, self._parts, self._key_groups, target.is_cancelled)
        known = {} if target.kind is SnapshotKind.FULL_CHECKPOINT else self._files.uploads.known()
        shared: Uploads = {}
        files: list[str] = []
        own_sections = len(self._parts) + len(self._files.metas)
        for path in sorted(self._files.directory.iterdir()):
            if path.suffix == _SHARED_SUFFIX:
                before = known.get(path.name)
                shared[path.name] = before if before is not None else _upload(path, target)
            elif path.suffix != _LEFT_OUT:
                writer.put(own_sections + len(files), 0, path.read_bytes())
                files.append(path.name)
        place = writer.finish({**self._head(), "files": files, "numbers": list(self._files.metas), "places": _PLACES})
        self._files.uploads.note(target.checkpoint_id, shared)
        return lambda: self._handle(target, place, "rocksdb", tuple(shared.values()))

    def readable(self) -> KeyedSnapshot:
        """Return the state in the common form; written once, and released."""
        if self._readable is None:
            output = SnapshotOutput(None, 0)
            state = self._write_common(SnapshotTarget(output))
            output.finish()
            self._readable = KeyedSnapshot(Region(state().handle, None, KEYED))
            self.release()
        return self._readable

    def release(self) -> None:
        """Delete the links to the files; again: nothing."""
        shutil.rmtree(self._files.directory, ignore_errors=True)


def _section(place: bytes, states: Mapping[int, int], pieces: list[bytes]) -> tuple[int, int, bytes]:
    return states[int.from_bytes(place[2:4], "big")], int.from_bytes(place[:2], "big"), b"".join(pieces)


def _upload(path: Path, target: SnapshotTarget) -> SharedFile:
    assert target.open_shared is not None
    output = target.open_shared()
    target.shared.append(output)
    checksum = size = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_SIZE):
            if target.is_cancelled():
                raise InterruptedError("the snapshot was cancelled")
            checksum, size = crc32(piece, checksum), size + len(piece)
            output.write(piece)
    return SharedFile(path.name, StateHandle(size, checksum, output.finish()))


class RocksDbSnapshot:
    """The files of a database out of a checkpoint.

    Parameters
    ----------
    handle : KeyedStateHandle
        Where they lie.
    open_input : callable or None
        Opens them; None: all is in the handle.
    """

    def __init__(self, handle: KeyedStateHandle, open_input: OpenInput | None) -> None:
        self._open_input = open_input
        self._region = Region(handle.handle, open_input, ROCKSDB)
        self.index = index_of(self._region)
        self.shared = {each.name: each for each in handle.shared_files}
        numbers = self._region.head["numbers"]
        self.has_places = self._region.head.get("places", 1) == _PLACES  # as tables look for them
        self.heap = KeyedSnapshot(self._region)  # timers, and states that no function had read
        self.metas = dict(zip(numbers, self.index.metas[len(self.index.metas) - len(numbers) :], strict=True))

    def key_groups(self) -> range:
        """Return the key groups of the database."""
        return range(self.index.first_key_group, self.index.last_key_group + 1)

    def fetch(self, directory: Path) -> None:
        """Put all files into a directory."""
        directory.mkdir(parents=True)
        first = len(self.index.metas)
        sections = [section for section in self._region.sections if section.state >= first]
        try:
            for section, data in self._region.read(sections):
                (directory / Path(self.index.files[section.state - first]).name).write_bytes(data)
        finally:
            self._region.close()
        for each in self.shared.values():
            self._fetch_shared(each, directory / Path(each.name).name)

    def _fetch_shared(self, shared: SharedFile, path: Path) -> None:
        assert self._open_input is not None
        handle, checksum = shared.handle, 0
        file = self._open_input(handle.path)
        try:
            with path.open("wb") as output:
                for offset in range(0, handle.size, _PIECE_SIZE):
                    piece = file.read_at(handle.offset + offset, min(_PIECE_SIZE, handle.size - offset))
                    checksum = crc32(piece, checksum)
                    output.write(piece)
        finally:
            file.close()
        if checksum != handle.checksum or path.stat().st_size != handle.size:
            raise damaged(handle.path, handle.offset, f"the {handle.size} bytes from here on have another checksum")

    def readable(self) -> KeyedSnapshot:
        """Raise: only RocksDB reads its own files."""
        raise TypeError(
            "this checkpoint has files of RocksDB, which the state backend hashmap does not read: go on with "
            "state.backend.type: rocksdb, or take a savepoint with it, which every backend reads"
        )

    def write(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        """Raise: a snapshot is written from a running backend only."""
        raise TypeError("files of RocksDB out of a checkpoint are not written again as they are")

    def release(self) -> None:
        """Do nothing: no operator waits for stored files."""
