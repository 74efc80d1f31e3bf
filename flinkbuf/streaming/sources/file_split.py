"""Which files a source reads, and which range of which file a reader reads at a time.

Flink: FileSourceSplit, NonSplittingRecursiveEnumerator, BlockSplittingRecursiveEnumerator, DefaultFileFilter.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local file that may be written as a URI.

    It is absolute as of now, in the program: a task may work in another directory.

    Examples
    --------
    >>> local_path("file:///data/a%20b"), local_path("/data/x")
    ('/data/a b', '/data/x')
    """
    text = os.fspath(path)
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return os.path.abspath(unquote(urlsplit(text).path))
    if len(scheme) > 1:
        raise ValueError(f"only local files can be read and written, got {text!r}")
    return os.path.abspath(text)


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
        if not os.path.isdir(path):
            yield path, os.stat(path).st_size  # says the path if there is nothing
            continue
        yield from _files_below(path, ())


def _files_below(folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, int]]:
    try:
        status = os.stat(folder)
        with os.scandir(folder) as listed:
            entries = sorted((each for each in listed if not _is_hidden(each.name)), key=lambda each: each.name)
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


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


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
