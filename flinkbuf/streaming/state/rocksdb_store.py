"""An ordered store of bytes in a directory of its own, by RocksDB through the package ``rocksdict``."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

WRITE_BUFFER_SIZE = 8 << 20  # bytes that are not in a file yet: they are written while the task waits for a snapshot


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

    Parameters
    ----------
    directory : Path
        With the files of an earlier store, or not there yet.
    is_read_only : bool, default False
        The files are another's: they stay as they are.

    Examples
    --------
    >>> import tempfile
    >>> store = RocksDbStore(Path(tempfile.mkdtemp()) / "store")
    >>> store.write([(b"a", b"1"), (b"b", b"2"), (b"a", None)])
    >>> store.get(b"a"), list(store.scan(b"", b"c"))
    (None, [(b'b', b'2')])
    >>> store.destroy()
    """

    def __init__(self, directory: Path, is_read_only: bool = False) -> None:
        self._directory = directory
        self._package = package = rocksdict()
        options = package.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(WRITE_BUFFER_SIZE)
        options.set_max_background_jobs(2)
        options.set_keep_log_file_num(1)
        blocks = package.BlockBasedOptions()
        blocks.set_bloom_filter(10, False)
        options.set_block_based_table_factory(blocks)
        # State that is in no checkpoint is not needed after a failure, so nothing is logged.
        self._unlogged = package.WriteOptions()
        self._unlogged.disable_wal = True
        arguments = {"access_type": package.AccessType.read_only()} if is_read_only else {}
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._db = package.Rdict(str(directory), options, **arguments)
        self._db.set_write_options(self._unlogged)
        self._is_closed = False

    def get(self, place: bytes) -> bytes | None:
        """Return the bytes at a place; None: nothing."""
        found: bytes | None = self._db.get(place)
        return found

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put bytes, or delete them (None), all at once."""
        batch = self._package.WriteBatch(raw_mode=True)
        for place, data in entries:
            if data is None:
                batch.delete(place)
            else:
                batch.put(place, data)
        self._db.write(batch, self._unlogged)

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from `begin` to before `end`, in order; raises where they cannot be read."""
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
            self._db.delete_range(begin, end, self._unlogged)

    def freeze(self, directory: Path) -> None:
        """Make a store with the present entries in another directory; files that never change are linked."""
        directory.parent.mkdir(parents=True, exist_ok=True)
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
