"""Keeps keyed state in RocksDB, on the disk of the task's machine: for state that is larger than memory.

Flink: RocksDBKeyedStateBackend, EmbeddedRocksDBStateBackend.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.rocksdb_table import RocksDbTable, after, places_in, replaced, restamped, use_rocksdb_table
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.checkpoints.state_index import StateMeta
from flinkbuf.config import parse_size
from flinkbuf.owned_directory import OwnedDirectory
from flinkbuf.private_files import make_private_directories
from flinkbuf.streaming.state.key_groups import KeyGroups, codec_of
from flinkbuf.streaming.state.rocksdb_snapshot import FrozenFiles, LiveRocksDbSnapshot, RocksDbSnapshot, UploadedFiles
from flinkbuf.streaming.state.rocksdb_store import CACHE_SIZE, RocksDbStore
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import StateDescriptor
from flinkbuf.streaming.state.state_backend import KeyedStateBackend, check_same
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.streaming.time.clock import Clock

if TYPE_CHECKING:
    from flinkbuf._core.state.keyed_state import KeyedState
    from flinkbuf.streaming.state.keyed_snapshot import StatePart
    from flinkbuf.streaming.state.snapshot import KeyedPart, StateBytes

INCREMENTAL = "execution.checkpointing.incremental"
LOCAL_DIRECTORIES = "state.backend.rocksdb.localdir"
CACHE_ENTRIES = "state.backend.rocksdb.cache.entries"
CACHE_BYTES = "state.backend.rocksdb.cache.size"
PREFIX = "flinkbuf-rocksdb-"  # of the directories with databases
_BATCH_COUNT = 4096  # entries that are put into a database at a time


class RocksDbStateBackend(KeyedStateBackend):
    """The keyed states of one operator, in a database of its own. Timers are kept in memory.

    Parameters
    ----------
    key_context, key_groups, clock, timers
        As `KeyedStateBackend` has them.
    options : Mapping
        What is set under ``state.backend.…``, and whether checkpoints are incremental.
    """

    def __init__(
        self,
        key_context: KeyContext,
        key_groups: KeyGroups,
        clock: Clock,
        timers: TimerServices,
        options: Mapping[str, object],
    ) -> None:
        super().__init__(key_context, key_groups, clock, timers)
        parents = [each for each in str(options.get(LOCAL_DIRECTORIES, "")).replace(":", ",").split(",") if each]
        parent = parents[key_groups.first % len(parents)] if parents else None
        if parent is not None:
            make_private_directories(parent)
        self._owned = OwnedDirectory(PREFIX, parent)  # not left for good by a process that is killed
        self._directory = self._owned.path
        self._is_incremental = str(options.get(INCREMENTAL, "false")).lower() == "true"
        self._capacity = int(str(options.get(CACHE_ENTRIES, 10_000)))
        self._cache_size = parse_size(str(options.get(CACHE_BYTES, CACHE_SIZE)))
        self._tables: list[RocksDbTable] = []
        self._metas: dict[int, StateMeta] = {}  # by number in places
        self._uploads = UploadedFiles()
        self._snapshot_count = 0
        try:
            self._store = RocksDbStore(self._directory / "store", cache_size=self._cache_size)
        except BaseException:
            self._owned.close()
            raise

    def _number_of(self, meta: StateMeta) -> int:
        """Return what stands for a state in places."""
        for number, known in self._metas.items():
            if known.key == meta.key:
                check_same(known, meta, "the snapshot has a state {!r}")
                return number
        number = max(self._metas, default=-1) + 1
        self._metas[number] = meta
        return number

    def _prepare(self, meta: StateMeta, descriptor: StateDescriptor, state: KeyedState) -> None:
        codecs = self.key_groups.key_codec, codec_of(descriptor.type_info)
        grouper, number = self.key_groups.grouper(), self._number_of(meta)
        if self._metas[number].has_ttl != meta.has_ttl:
            self._restamp(number, state, *codecs, self._metas[number].has_ttl)
            self._metas[number] = meta
        table = RocksDbTable(
            self._store, number, state, self.key_context, grouper, *codecs, meta.has_ttl, self._capacity
        )
        use_rocksdb_table(state, table)
        self._tables.append(table)

    def _restamp(
        self, number: int, state: KeyedState, key_codec: TypeCodec | None, codec: TypeCodec | None, had_ttl: bool
    ) -> None:
        """Give the entries that the database has of a state stamps, or take them away."""
        for group in range(self.key_groups.first, self.key_groups.last + 1):
            begin = _group(group) + number.to_bytes(2, "big")
            batch: list[tuple[bytes, bytes | None]] = []
            for place, data in self._store.scan(begin, after(begin)):
                batch.append((place, restamped(place, data, state, key_codec, codec, had_ttl)))
                if len(batch) >= _BATCH_COUNT:
                    self._store.write(batch)
                    batch = []
            self._store.write(batch)

    def _read(
        self,
        meta: StateMeta,
        descriptor: StateDescriptor,
        state: KeyedState,
        key_group: int,
        data: StateBytes,
        had_ttl: bool,
    ) -> None:
        codecs = self.key_groups.key_codec, codec_of(descriptor.type_info)
        entries = places_in(data, key_group, self._number_of(meta), *codecs, had_ttl)
        if had_ttl != meta.has_ttl:
            entries = [(place, restamped(place, data, state, *codecs, had_ttl)) for place, data in entries]
        for begin in range(0, len(entries), _BATCH_COUNT):
            self._store.write(entries[begin : begin + _BATCH_COUNT])

    def snapshot(self) -> KeyedPart:
        """Flush changed values to the database and link its files; the operator may go on at once."""
        for table in self._tables:
            table.write_back()
        parts: list[StatePart] = [*self._frozen_timers(), *self._frozen_columns()]
        parts += self._unread({*(part.meta.key for part in parts), *(meta.key for meta in self._metas.values())})
        self._snapshot_count += 1
        directory = self._directory / f"snapshot-{self._snapshot_count}"
        self._store.freeze(directory)
        files = FrozenFiles(directory, dict(self._metas), self._uploads, self._is_incremental)
        return LiveRocksDbSnapshot(self.key_groups, parts, files)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note a complete checkpoint: later ones may refer to its files."""
        self._uploads.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Drop the files of an aborted checkpoint: they are deleted."""
        self._uploads.abort(checkpoint_id)

    # ---- the beginning

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Begin with what snapshots hold of this subtask's key groups."""
        own = [part for part in snapshot.keyed if isinstance(part, RocksDbSnapshot)]
        others = [part.readable() for part in snapshot.keyed if not isinstance(part, RocksDbSnapshot)]
        for each in own:
            self._check(each.index)
        if len(own) == 1 and not others and own[0].has_places:
            self._open(own[0])
        else:
            for number, each in enumerate(own):
                self._add(each, self._directory / f"restored-{number}")
        super().restore(OperatorSnapshot((*others, *(each.heap for each in own))))

    def _open(self, snapshot: RocksDbSnapshot) -> None:
        """Go on with the files of one old subtask, without the key groups that are others' now."""
        self._store.destroy()
        snapshot.fetch(self._directory / "store")
        self._store = RocksDbStore(self._directory / "store", cache_size=self._cache_size)
        self._metas = dict(snapshot.metas)
        self._uploads = UploadedFiles(snapshot.shared)
        groups, had = self.key_groups, snapshot.key_groups()
        self._store.delete_range(_group(had.start), _group(min(groups.first, had.stop)))
        self._store.delete_range(_group(max(groups.last + 1, had.start)), _group(had.stop))

    def _add(self, snapshot: RocksDbSnapshot, directory: Path) -> None:
        """Take the entries of this subtask's key groups out of the files of an old subtask, each to its place."""
        numbers = {number: self._number_of(meta) for number, meta in snapshot.metas.items()}
        snapshot.fetch(directory)
        store = RocksDbStore(directory, is_read_only=True)
        try:
            batch: list[tuple[bytes, bytes]] = []
            for entry in store.scan(_group(self.key_groups.first), _group(self.key_groups.last + 1)):
                batch.append(entry)
                if len(batch) >= _BATCH_COUNT:
                    self._store.write(self._placed(batch, numbers, snapshot.has_places))
                    batch = []
            self._store.write(self._placed(batch, numbers, snapshot.has_places))
        finally:
            store.destroy()

    def _placed(
        self, entries: list[tuple[bytes, bytes]], numbers: dict[int, int], has_places: bool
    ) -> list[tuple[bytes, bytes]]:
        if not has_places:
            return replaced(entries, numbers, self.key_groups.key_codec)
        return [
            (place[:2] + numbers[int.from_bytes(place[2:4], "big")].to_bytes(2, "big") + place[4:], data)
            for place, data in entries
        ]

    def close(self) -> None:
        """Delete the database."""
        self._store.close()
        self._owned.close()


def _group(key_group: int) -> bytes:
    """Return the first place of a key group."""
    return key_group.to_bytes(2, "big")
