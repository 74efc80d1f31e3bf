"""Lines of a file, by byte range: a line belongs to the range in which its first byte lies.

A line ends with LF, CR LF, CR, or the file, as for Java's BufferedReader. Both neighbours of a range compute the
boundary between them in the same way, so each line is read exactly once, whatever the ranges are.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Iterator
from io import BufferedReader, BytesIO, RawIOBase, TextIOWrapper
from typing import Any, BinaryIO

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.file_place import open_to_read, source_for_libraries

BLOCK = 256 * 1024  # bytes that are read at once
LF = 10

# In these a byte that looks like LF or CR is one, so that a reader may begin in the middle of a file.
_SPLITTABLE = ("ascii", "utf-8", "iso8859-", "latin-1", "cp125", "koi8-")


def is_splittable_charset(charset: str) -> bool:
    """Return whether lines can be found without reading from the beginning."""
    return codecs.lookup(charset).name.startswith(_SPLITTABLE)


def open_file(path: str) -> BinaryIO:
    """Open a file to be read; one with the suffix of a compression is decompressed on the way.

    What cannot be decompressed is a CorruptDataError with the path.
    """
    if path.endswith((".gz", ".gzip")):
        return BufferedReader(_Decompressed(gzip.open(source_for_libraries(path), "rb"), path), BLOCK)
    if path.endswith(".bz2"):
        return BufferedReader(_Decompressed(bz2.open(source_for_libraries(path), "rb"), path), BLOCK)
    if path.endswith(".xz"):
        return BufferedReader(_Decompressed(lzma.open(source_for_libraries(path), "rb"), path), BLOCK)
    if path.endswith(".deflate"):
        with open_to_read(path) as file:
            try:
                return BytesIO(zlib.decompress(file.read()))
            except zlib.error as error:
                raise _not_decompressed(path, error) from error
    return open_to_read(path)


def _not_decompressed(path: str, error: Exception) -> CorruptDataError:
    return CorruptDataError(f"{path} cannot be decompressed: {error}")


class _Decompressed(RawIOBase):
    """A compressed file whose errors say which file it is."""

    def __init__(self, file: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile, path: str) -> None:
        self._file = file
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            read: int = self._file.readinto(buffer)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise _not_decompressed(self._path, error) from error
        return read

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


def first_line_at(file: BinaryIO, offset: int, size: int) -> int:
    """Return where the first line begins at `offset` or behind it; `size` if none does."""
    if offset <= 0:
        return 0
    if offset >= size:
        return size
    position = offset - 1  # what ends there, or goes on there, decides
    file.seek(position)
    while block := file.read(BLOCK):
        found = _first_line_end(block)
        if found is not None:
            end = position + found + 1
            if block[found] == LF:
                return end
            following = block[found + 1 : found + 2] or file.read(1)  # CR may be the last byte of the block
            return end + (following == b"\n")
        position += len(block)
    return size


def _first_line_end(block: bytes) -> int | None:
    found = [index for index in (block.find(b"\n"), block.find(b"\r")) if index >= 0]
    return min(found, default=None)


def read_lines(file: BinaryIO, start: int, end: int | None, charset: str) -> Iterator[str]:
    """Yield the lines of a range that begins and ends where lines do; `end` None: up to the end of the file.

    What is not valid in the charset becomes U+FFFD, as in Java.
    """
    if not is_splittable_charset(charset):
        yield from _whole_lines(file, charset)
        return
    if start:
        file.seek(start)
    left = None if end is None else end - start
    pieces: list[bytes] = []  # of a line whose end was not read yet
    while block := file.read(BLOCK if left is None else min(BLOCK, left)):
        if left is not None:
            left -= len(block)
        if pieces and pieces[-1].endswith(b"\r"):
            block, pieces[-1] = b"\r" + block, pieces[-1][:-1]
        cut = _last_line_end(block)
        if cut == 0:
            pieces.append(block)
            continue
        pieces.append(block[:cut])
        yield from _decoded(b"".join(pieces), charset)
        pieces = [block[cut:]]
    rest = b"".join(pieces)
    if rest:
        yield from _decoded(rest, charset)


def _last_line_end(block: bytes) -> int:
    """Behind the last line end of a block; a CR at its very end is not yet one, since LF may follow."""
    before = len(block) - block.endswith(b"\r")
    return max(block.rfind(b"\n", 0, before), block.rfind(b"\r", 0, before)) + 1


def _decoded(lines: bytes, charset: str) -> list[str]:
    if b"\r" in lines:
        return [line.decode(charset, "replace") for line in lines.splitlines()]
    texts = lines.decode(charset, "replace").split("\n")
    if lines.endswith(b"\n"):
        texts.pop()
    return texts


def _whole_lines(file: BinaryIO, charset: str) -> Iterator[str]:
    text = TextIOWrapper(file, charset, "replace", newline=None)
    try:
        for line in text:
            yield line.removesuffix("\n")
    finally:
        text.detach()


def line_number(path: str, start: int, index: int) -> int:
    """Return the number, from 1, of the line `index` (from 0) of a range; reads all that is before it."""
    with open_file(path) as file:
        return sum(1 for _ in read_lines(file, 0, start, "latin-1")) + index + 1 if start else index + 1
