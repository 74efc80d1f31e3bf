"""Which files a source reads, and which range of which file a reader reads at a time.

Flink: FileSourceSplit, NonSplittingRecursiveEnumerator, BlockSplittingRecursiveEnumerator, DefaultFileFilter.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flinkbuf.streaming.file_place import is_hidden, is_remote, local_path, remote_files

__all__ = ["COMPRESSED", "DEFAULT_SPLIT_SIZE", "FileSplit", "find_files", "local_path", "split_file"]

DEFAULT_SPLIT_SIZE = 32 * 1024 * 1024  # bytes; the block size of Flink's local file system
COMPRESSED = (".gz", ".gzip", ".bz2", ".xz", ".deflate")  # read whole: no reader can begin in the middle


@dataclass(frozen=True)
class FileSplit:
    """The bytes from `start` up to `end` of a file, and of these all records but the first `skipped`."""

    path: str
    start: int
    end: int
    skipped: int = 0

    @property
    def split_id(self) -> str:
        """Return a name that is unique among the splits of the source."""
        return f"{self.path}:{self.start}+{self.end - self.start}"


def find_files(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Return all files below `paths` with their sizes: those of a directory by name, then its directories by name.

    Directories are walked to their depth, links followed but for those back to a directory above; names that begin with
    ``.`` or ``_`` are left out there.

    Raises
    ------
    FileNotFoundError
        If one of `paths` does not exist.
    OSError
        If a directory cannot be read. One that was removed just now is left out.
    """
    for path in paths:
        if is_remote(path):
            yield from _remote_files(path)
            continue
        if not os.path.isdir(path):
            yield path, os.stat(path).st_size  # says the path if there is nothing
            continue
        yield from _files_below(path, ())


def _files_below(folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, int]]:
    try:
        status = os.stat(folder)
        with os.scandir(folder) as listed:
            entries = sorted((each for each in listed if not is_hidden(each.name)), key=lambda each: each.name)
    except FileNotFoundError:
        if not above:
            raise
        return
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        return
    folders = []
    for entry in entries:
        if entry.is_dir():
            folders.append(entry.path)
            continue
        with contextlib.suppress(FileNotFoundError):  # the file was removed just now
            yield str(Path(entry.path)), entry.stat().st_size
    for path in folders:
        yield from _files_below(path, (*above, identity))


def _remote_files(path: str) -> Iterator[tuple[str, int]]:
    found = remote_files(path).entry(path)
    if found.is_directory:
        yield from _remote_files_below(path)
    else:
        yield path, found.size


def _remote_files_below(folder: str) -> Iterator[tuple[str, int]]:
    entries = [each for each in remote_files(folder).entries(folder) if not is_hidden(each.location)]
    for each in entries:
        if not each.is_directory:
            yield each.location, each.size
    for each in entries:
        if each.is_directory:
            with contextlib.suppress(FileNotFoundError):  # the directory was removed just now
                yield from _remote_files_below(each.location)


def split_file(path: str, size: int, split_size: int | None) -> list[FileSplit]:
    """Cut a file into ranges; None: one for all of it. A last range of less than a tenth goes to the one before it.

    Examples
    --------
    >>> [(split.start, split.end) for split in split_file("a", 205, 100)]
    [(0, 100), (100, 205)]
    """
    if split_size is None or path.endswith(COMPRESSED):
        return [FileSplit(path, 0, size)]
    starts = list(range(0, size, split_size)) or [0]
    if len(starts) > 1 and (size - starts[-1]) * 10 < split_size:
        starts.pop()
    return [FileSplit(path, start, end) for start, end in zip(starts, [*starts[1:], size], strict=True)]
