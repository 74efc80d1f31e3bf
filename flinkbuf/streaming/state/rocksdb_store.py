"""An ordered store of bytes in a directory of its own, by RocksDB through the package ``rocksdict``."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkbuf._core.state.entry_cache import EntryCache

if TYPE_CHECKING:
    from types import ModuleType

CACHE_SIZE = 32 << 20  # bytes of entries in front of a database
RUNS = 6  # files over each other before they are merged: more cost reads, fewer cost processor time and uploads
FILE_SIZE = 16 << 20  # of files that are merged; while one is made, its filter takes memory
BLOCK_SIZE = 1024  # bytes that a read restores and looks through
WRITE_BUFFER_SIZE = 4 << 20  # of the database itself, which takes a few changes at a time only
_MAX_LEVEL_0 = 64  # files at which the database would make its writer wait
_FEW_CHANGES = 1000  # take less time as single writes than a file, which waits for the disk
_UNKNOWN: Any = object()


def rocksdict() -> ModuleType:
    """Return the package; ImportError says how to get it."""
    try:
        import rocksdict
    except ImportError as error:
        raise ImportError(
            "the state backend rocksdb needs the package rocksdict: pip install 'flinkbuf[rocksdb]', on all machines "
            "where tasks run; or keep state in memory with state.backend.type: hashmap"
        ) from error
    return rocksdict


class RocksDbStore:
    """Bytes by place; used by one thread.

    What is written waits in a cache, which merges it, until there is much of it or a file is asked for. It is put into
    the database as a sorted file then, which costs a third of what single writes do.

    Parameters
    ----------
    directory : Path
        With the files of an earlier store, or not there yet.
    is_read_only : bool, default False
        The files are another's: they stay as they are.
    cache_size : int
        Bytes of entries in memory, about.

    Examples
    --------
    >>> import tempfile
    >>> store = RocksDbStore(Path(tempfile.mkdtemp()) / "store")
    >>> store.write([(b"a", b"1"), (b"b", b"2"), (b"a", None)])
    >>> store.get(b"a"), list(store.scan(b"", b"c"))
    (None, [(b'b', b'2')])
    >>> store.destroy()
    """

    def __init__(self, directory: Path, is_read_only: bool = False, cache_size: int = CACHE_SIZE) -> None:
        self._directory = directory
        self._package = package = rocksdict()
        self._options = _options(package)
        # State that is in no checkpoint is not needed after a failure, so nothing is logged.
        self._unlogged = package.WriteOptions()
        self._unlogged.disable_wal = True
        self._moved = package.IngestExternalFileOptions()
        self._moved.set_move_files(True)
        arguments = {"access_type": package.AccessType.read_only()} if is_read_only else {}
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._db = package.Rdict(str(directory), self._options, **arguments)
        self._db.set_write_options(self._unlogged)
        self.cache = EntryCache(cache_size)
        self.read_written: Callable[[bytes], bytes | None] = self._db.get  # what the database itself has at a place
        self._is_closed = False

    def get(self, place: bytes) -> bytes | None:
        """Return the bytes at a place; None: nothing."""
        found: bytes | None = self.cache.get(place, _UNKNOWN)
        if found is _UNKNOWN:
            found = self.read_written(place)
            if found is not None:
                self.cache.keep(place, found)
                if self.cache.is_full():
                    self.make_room()
        return found

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put bytes, or delete them (None)."""
        change, is_full = self.cache.change, self.cache.is_full
        for place, data in entries:
            change(place, data)
            if is_full():
                self.make_room()

    def make_room(self) -> None:
        """Let the cache forget what was not asked for lately. After an error it has all it had."""
        self.flush()
        self.cache.next_generation()

    def flush(self) -> None:
        """Put what was written into the database. After an error it is still to be put there."""
        if self.cache.change_count > _FEW_CHANGES:
            self._ingest()
        elif self.cache.change_count:
            batch = self._package.WriteBatch(raw_mode=True)
            for place, data in self.cache.changes():
                if data is None:
                    batch.delete(place)
                else:
                    batch.put(place, data)
            self._db.write(batch, self._unlogged)
        self.cache.settle()

    def _ingest(self) -> None:
        """Have the database take the changes as a file in their order."""
        path = self._directory / "changes.new"  # no name of a database's own file
        file = self._package.SstFileWriter(self._options)
        try:
            file.open(str(path))
            for place, data in self.cache.changes():
                if data is None:
                    del file[place]
                else:
                    file[place] = data
            file.finish()
            self._db.ingest_external_file([str(path)], self._moved)
        finally:
            path.unlink(missing_ok=True)

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from `begin` to before `end`, in order; raises where they cannot be read."""
        self.flush()
        yield from self.scan_written(begin, end)

    def scan_written(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield those that are in the database: what was written lately may still be in memory only."""
        last = begin
        for place, data in self._db.items(from_key=begin):
            if place >= end:
                return
            last = place
            yield place, data
        self._check_end(last, end)

    def _check_end(self, last: bytes, end: bytes) -> None:
        """Raise unless `last` is the last one before `end`: an iterator that fails ends without a word."""
        entries = self._db.iter()
        entries.seek(last)
        if entries.valid() and entries.key() == last:
            entries.next()
        entries.status()
        if entries.valid() and entries.key() < end:
            raise OSError(errno.EIO, "entries of the state in this database could not be read", str(self._directory))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Delete the entries from `begin` to before `end`."""
        if begin < end:
            self.flush()
            self.cache.clear()
            self._db.delete_range(begin, end, self._unlogged)

    def freeze(self, directory: Path) -> None:
        """Make a store with the present entries in another directory; files that never change are linked."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        self.flush()
        self._db.flush()
        self._package.Checkpoint(self._db).create_checkpoint(str(directory))

    def close(self) -> None:
        """Close the store and leave its files; again: nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._db.close()

    def destroy(self) -> None:
        """Close the store and delete its files."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _options(package: ModuleType) -> Any:
    """Return what a database is opened with, and its files are written with.

    Files are read where the kernel has them, without a call or a copy, in blocks so small that restoring one costs
    little: compressed, three times as much of the state fits into memory, and checkpoints take a third. Files are
    merged late, several at a time (universal compaction): each byte is written, and uploaded, a few times only.
    """
    options = package.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_SIZE)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_compression_type(package.DBCompressionType.lz4())
    options.set_allow_mmap_reads(True)
    options.set_compaction_style(package.DBCompactionStyle.universal())
    options.set_level_zero_file_num_compaction_trigger(RUNS)
    options.set_target_file_size_base(FILE_SIZE)
    options.set_level_zero_slowdown_writes_trigger(_MAX_LEVEL_0)
    options.set_level_zero_stop_writes_trigger(_MAX_LEVEL_0)
    blocks = package.BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    blocks.set_block_size(BLOCK_SIZE)
    blocks.disable_cache()  # the kernel's is enough
    options.set_block_based_table_factory(blocks)
    return options
