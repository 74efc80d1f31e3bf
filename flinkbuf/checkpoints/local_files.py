"""Files of checkpoints on this machine, or mounted: what was finished is there after a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Sequence

from flinkbuf.checkpoints.files import FileEntry, Files, StateInput, StateOutput
from flinkbuf.checkpoints.locations import is_checkpoint_name
from flinkbuf.private_files import DIRECTORY_MODE, private_opener

_BUFFER = 256 * 1024  # bytes gathered before a system call; larger pieces go to it as they are
_ATTEMPTS = 20  # of what others may undo while it is done
_READ_MAX = 1 << 30  # bytes of one system call
_AHEAD = 1 << 22  # bytes that are written before the disk begins with them
_IOV_MAX = 1024  # pieces of one system call


class LocalFiles(Files):
    """The file system of this machine."""

    def create(self, path: str) -> StateOutput:
        """Make a new file, and the directories it lies in."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return _LocalOutput(path)
            self.make_directory(os.path.dirname(path))  # the directory may be deleted again with an aborted checkpoint
        return _LocalOutput(path)

    def open(self, path: str) -> StateInput:
        """Open a file; FileNotFoundError if it does not exist."""
        return _LocalInput(path)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file at once, under another name first."""
        directory, name = os.path.split(path)
        self.make_directory(directory)
        if os.path.lexists(path):
            raise FileExistsError(f"{path} is there already: it is never written again")
        temporary = os.path.join(directory, f".{name}-{uuid.uuid4().hex}")
        output = _LocalOutput(temporary)
        with output:
            output.write(data)
            output.finish()
        try:
            os.rename(temporary, path)
        except BaseException:
            self.delete(temporary)
            raise
        sync_directory(directory)

    def delete(self, path: str) -> None:
        """Delete a file; if it does not exist: nothing."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def delete_tree(self, location: str) -> None:
        """Delete a directory and all that is in it; if it does not exist: nothing."""
        for attempt in range(_ATTEMPTS):
            try:
                shutil.rmtree(location)
                return
            except (FileNotFoundError, NotADirectoryError):
                if not os.path.isdir(location):
                    return
            except OSError as error:  # a task that does not know yet that the checkpoint was aborted writes into it
                if error.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                    raise

    def make_directory(self, location: str) -> None:
        """Make a directory, and those it lies in; each is known to the one above it for good."""
        above = os.path.dirname(location)
        for _ in range(_ATTEMPTS):
            if _is_directory(location):
                return
            if above not in (location, ""):
                self.make_directory(above)
            try:
                os.mkdir(location, DIRECTORY_MODE)
            except (FileExistsError, FileNotFoundError):  # others make it, too, or take it away again
                continue
            sync_directory(above or os.curdir)
            return
        raise FileNotFoundError(errno.ENOENT, "others take this directory away as often as it is made", location)

    def entries(self, location: str) -> Sequence[FileEntry]:
        """Return the entries of a directory, by name; an entry that vanishes meanwhile is left out."""
        found = []
        with os.scandir(location) as scan:
            for each in scan:
                with contextlib.suppress(FileNotFoundError):
                    status = each.stat()
                    found.append(FileEntry(each.path, each.is_dir(), status.st_size, status.st_mtime_ns // 1_000_000))
        return sorted(found, key=lambda each: each.location)


def _is_directory(location: str) -> bool:
    """Return whether a directory exists; what is no directory is an error."""
    try:
        if stat.S_ISDIR(os.stat(location).st_mode):
            return True
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.islink(location):
            return False
    raise NotADirectoryError(f"{location} is no directory: checkpoints cannot lie in it")


def sync_directory(directory: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _LocalOutput(StateOutput):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._file = open(path, "xb", buffering=_BUFFER, opener=private_opener)  # noqa: SIM115 (closed by finish or abort)

        self._written = 0
        self._begun = 0  # of the bytes that were written, those that are on their way to the disk

    def _write(self, data: memoryview) -> None:
        self._file.write(data)
        self._begin(len(data))

    def _begin(self, more: int) -> None:
        """Have the disk begin with what has been written, so that `_finish` finds little left to wait for."""
        self._written += more
        size = self._written - self._begun
        if size >= _AHEAD:
            # What is not on the disk yet is written, and not dropped: nothing is read again from there. An advice that
            # is not taken costs time at the end, and an error of the disk is told by fsync.
            with contextlib.suppress(OSError, AttributeError):
                os.posix_fadvise(self._file.fileno(), self._begun, size, os.POSIX_FADV_DONTNEED)
            self._begun = self._written

    def _write_all(self, pieces: Sequence[memoryview]) -> None:
        if len(pieces) == 1:
            self._write(pieces[0])
            return
        self._file.flush()
        rest = [piece for piece in pieces if len(piece)]
        while rest:
            written = os.writev(self._file.fileno(), rest[:_IOV_MAX])
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if written:
                rest[0] = rest[0][written:]
        self._begin(sum(map(len, pieces)))

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_directory(os.path.dirname(self.path))

    def _remove(self) -> None:
        with contextlib.suppress(OSError):  # closing writes what is left, which a full disk refuses
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        directory = os.path.dirname(self.path)
        if is_checkpoint_name(directory):
            with contextlib.suppress(OSError):  # other files are in it; an empty directory would stay for ever
                os.rmdir(directory)


class _LocalInput(StateInput):
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        super().__init__(path, os.fstat(self._descriptor).st_size)

    def _read(self, offset: int, size: int) -> bytes:
        if size <= _READ_MAX:
            return os.pread(self._descriptor, size, offset)
        pieces = []
        for begin in range(0, size, _READ_MAX):
            pieces.append(os.pread(self._descriptor, min(_READ_MAX, size - begin), offset + begin))
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file; again: nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()
