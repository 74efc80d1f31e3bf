"""The steps of `ha_protocol`, done on a directory of HDFS, whose NameNode does one after the other for all."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.ha_directory import PAUSE_S, HaDirectory
from flinkbuf.checkpoints.hdfs_files import SCHEMES, HdfsFiles, is_there
from flinkbuf.checkpoints.local_files import LocalFiles
from flinkbuf.checkpoints.locations import child, name_of, scheme_of


class HdfsHaDirectory(HaDirectory):
    """A directory of one job on HDFS. Its clock is the NameNode's.

    A file gets its bytes under another name and is renamed, which the NameNode does at once: never onto another file
    (`Create`), or in place of it (`Write`). A call that has failed here may still be waiting there. So that it is not
    done later, the file of the other name is deleted before anything else is asked.
    """

    def __init__(self, path: str, pause: Callable[[str], None] = lambda why: time.sleep(PAUSE_S)) -> None:
        super().__init__(path, pause)
        self._files = HdfsFiles(path)
        self._doubtful: set[str] = set()  # what a rename that failed would still find

    def exists(self) -> bool:
        """Return whether there is such a directory."""
        with contextlib.suppress(FileNotFoundError):
            return self._files.entry(self.path).is_directory
        return False

    def make(self) -> None:
        """Make the directory, if it does not exist."""
        self._files.make_directory(self.path)

    def do(self, step: protocol.Step) -> Any:
        """Do one step; return its answer."""
        if not isinstance(step, protocol.Pause):
            for path in list(self._doubtful):
                self._files.delete(path)
                self._doubtful.discard(path)
        return super().do(step)

    def age_ms(self, name: str) -> int | None:
        """Return how long ago a file was touched, by the NameNode's clock; None: it is gone."""
        touched_ms = self._modified_ms(child(self.path, name))
        return None if touched_ms is None else max(0, self._now_ms() - touched_ms)

    def _place_of(self, name: str) -> str:
        return child(self.path, name)

    def _names(self) -> list[str]:
        try:
            names = [name_of(each.location) for each in self._files.entries(self.path)]
        except FileNotFoundError:
            return []
        return [name for name in names if not name.startswith(".")]

    def _read(self, path: str) -> bytes | None:
        try:
            with self._files.open(path) as file:
                return file.read_at(0, file.size)
        except FileNotFoundError:
            return None

    def _create(self, path: str, data: bytes) -> bool:
        try:
            self._write(path, data, overwrites=False)
        except FileExistsError:
            return False
        return True

    def _replace(self, path: str, data: bytes) -> None:
        self._write(path, data, overwrites=True)

    def _write(self, path: str, data: bytes, overwrites: bool) -> None:
        temporary = child(self.path, f".{name_of(path)}-{uuid.uuid4().hex}")
        with self._files.create(temporary) as output:
            output.write(data)
            output.finish()
        self._doubtful.add(temporary)
        self._files.rename(temporary, path, overwrites)
        self._doubtful.discard(temporary)

    def _touch(self, path: str) -> bool:
        try:
            self._files.touch(path, self._now_ms())
        except FileNotFoundError:
            return False
        return True

    def _delete(self, path: str) -> None:
        self._files.delete(path)

    def _now_ms(self) -> int:
        """Return what the NameNode's clock says: when it has made a file."""
        path = child(self.path, f".clock-{uuid.uuid4().hex}")
        with self._files.create(path) as clock:
            clock.finish()
            now_ms = self._modified_ms(path)
            clock.discard()
        if now_ms is None:
            raise FileNotFoundError(f"{path} is gone: another one has removed hidden files")
        return now_ms

    def _modified_ms(self, path: str) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            return self._files.entry(path).modified_ms
        return None


def ha_directory_at(path: str, pause: Callable[[str], None] = lambda why: time.sleep(PAUSE_S)) -> HaDirectory:
    """Return the directory of a job, local or on HDFS; nothing is made yet."""
    return HdfsHaDirectory(path, pause) if scheme_of(path) else HaDirectory(path, pause)


def check_kind(directory: str) -> None:
    """Refuse, with a ValueError, a directory where no process can be the only one to make a file."""
    scheme = scheme_of(directory)
    if scheme in SCHEMES and not is_there():
        raise ValueError(
            f"high-availability.storageDir {directory!r} needs hdfs-native: pip install 'flinkbuf[hdfs]', in the "
            "program's Python and in that of whoever may take its jobs over"
        )
    if scheme and scheme not in SCHEMES:
        raise ValueError(
            f"high-availability.storageDir must be a directory on this machine, mounted, or on HDFS, got "
            f"{directory!r}: "
            "object stores have no files that only one process can make"
        )


def names_of_directories(location: str) -> list[str]:
    """Return the names of the directories in a directory, sorted; FileNotFoundError if it does not exist."""
    files = HdfsFiles(location) if scheme_of(location) else LocalFiles()
    return [name_of(each.location) for each in files.entries(location) if each.is_directory]
