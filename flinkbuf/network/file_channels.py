"""Readers and writers of temporary files: block by block, many blocks at once, or buffer by buffer.

Each hands what it is given to a thread and goes on; what is done comes back through a return queue, in order. Made
without a thread, by ``is_synchronous=True``, it is done at once. The first error stays: every later call raises it.
Callbacks are called by whoever calls `take` or `close`, never on the thread of the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from flinkbuf._core.io.file_channel import FileChannel
from flinkbuf._core.io.io_channel import IOChannel, IOOperation
from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf._core.partition.buffer_header import HEADER_SIZE, read_header, write_header
from flinkbuf.errors import CorruptDataError
from flinkbuf.network.buffer import Buffer

if TYPE_CHECKING:
    from typing_extensions import Self

Callback = Callable[[Any, BaseException | None], None]


class _FileChannel:
    """What all of them have: a file, what is under way, an end that waits for it."""

    def __init__(
        self, name: str | os.PathLike[str], mode: str, executor: IOExecutor | None, callback: Callback | None = None
    ) -> None:
        self._channel = IOChannel(name, mode, executor)
        self._callback = callback
        self.name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def outstanding_count(self) -> int:
        """What is under way."""
        return self._channel.outstanding_count

    def _settle(self, operation: IOOperation | None) -> IOOperation | None:
        """Tell the callback, or raise what went wrong."""
        if operation is None:
            return None
        error: BaseException | None = None
        if not operation.is_done:
            try:
                self._channel.raise_failure()
            except Exception as failure:
                error = failure
        if self._callback is not None:
            self._callback(operation.item, error)
        elif error is not None:
            raise error
        return operation

    def take(self, timeout_ms: int = -1) -> Any:
        """Take the block that is done next from the return queue.

        Parameters
        ----------
        timeout_ms : int, default -1
            Milliseconds to wait; negative: as long as something is under way.

        Returns
        -------
        object or None
            What was given; None: nothing is done in time, or nothing is under way.

        Raises
        ------
        OSError, CorruptDataError
            If it failed, unless there is a callback, which gets the error instead.
        """
        operation = self._settle(self._channel.take(timeout_ms))
        return None if operation is None else operation.item

    def close(self) -> None:
        """Wait for what is under way, close the file, raise the first error; closing again does nothing."""
        self._close(deletes=False)

    def close_and_delete(self) -> None:
        """Do the same, and remove the file."""
        self._close(deletes=True)

    def _close(self, deletes: bool) -> None:
        try:
            self._channel.close(deletes)
        finally:
            if self._callback is not None:
                while self._settle(self._channel.take(0)) is not None:
                    pass


class BlockChannelWriter(_FileChannel):
    """Writes a new file block by block; a context manager.

    Parameters
    ----------
    name : path-like
        Must not exist.
    executor : IOExecutor, optional
        Whose thread writes; without one each call does.
    callback : callable, optional
        Called with each block and None, or the error that kept it from being written.

    References
    ----------
    Flink ``BlockChannelWriter``, ``BlockChannelWriterWithCallback``.
    """

    def __init__(
        self, name: str | os.PathLike[str], executor: IOExecutor | None = None, callback: Callback | None = None
    ) -> None:
        super().__init__(name, "create", executor, callback)

    def write_block(self, block: object) -> None:
        """Have a bytes-like object written; it is not to be changed before it came back through `take`."""
        self._channel.write(block, item=block)


class BlockChannelReader(_FileChannel):
    """Reads a file block by block; a context manager.

    Parameters
    ----------
    name : path-like
    block_size : int
        Bytes in a block that `read_block` makes itself.
    executor : IOExecutor, optional
        Whose thread reads; without one each call does.
    callback : callable, optional
        Called with each block that was read and None, or what was to be filled and the error.

    References
    ----------
    Flink ``BlockChannelReader``.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        block_size: int,
        executor: IOExecutor | None = None,
        callback: Callback | None = None,
    ) -> None:
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1 byte, got {block_size}")
        super().__init__(name, "read", executor, callback)
        self._block_size = block_size

    def read_block(self, target: object = None) -> None:
        """Have the next block read into `target` (writable; its length counts), or into a new one."""
        if target is None:
            target = bytearray(self._block_size)
        self._channel.read(target, item=target)

    def seek(self, offset: int, target: object = None) -> None:
        """Have the block at byte `offset` read; `read_block` goes on behind it."""
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        if target is None:
            target = bytearray(self._block_size)
        self._channel.read(target, item=target, offset=offset)


class BulkBlockChannelReader(_FileChannel):
    """Reads the first blocks of a file at once, into segments that it is given; a context manager.

    Parameters
    ----------
    name : path-like
    segments : list of writable objects
        As many as there are blocks, or more; each is filled by one block.
    block_count : int
    executor : IOExecutor, optional

    References
    ----------
    Flink ``BulkBlockChannelReader``.
    """

    def __init__(
        self, name: str | os.PathLike[str], segments: list[object], block_count: int, executor: IOExecutor | None = None
    ) -> None:
        if not 0 <= block_count <= len(segments):
            raise ValueError(
                f"block_count must be from 0 to {len(segments)}, the number of segments, got {block_count}"
            )
        super().__init__(name, "read", executor)
        for segment in segments[:block_count]:
            self._channel.read(segment, item=segment)

    def full_segments(self) -> list[object]:
        """Wait until all are read; return them in the order of the file."""
        return list(iter(self.take, None))


class FileSegment(NamedTuple):
    """Where a buffer lies in a file. Flink: ``FileSegment``."""

    path: str
    offset: int
    size: int
    data_type: int
    is_compressed: bool


class BufferFileWriter(_FileChannel):
    """Writes a new file buffer by buffer, each behind eight bytes that say what it is; a context manager.

    The bytes are those of a hash-style blocking partition. A buffer is released when it was written.

    Parameters
    ----------
    name : path-like
        Must not exist.
    executor : IOExecutor, optional

    References
    ----------
    Flink ``BufferFileWriter``.
    """

    def __init__(self, name: str | os.PathLike[str], executor: IOExecutor | None = None) -> None:
        super().__init__(name, "create", executor)

    def write_block(self, buffer: Buffer) -> None:
        """Have a buffer written, which passes to the writer."""
        header = write_header(int(buffer.data_type), buffer.is_compressed, buffer.size)
        self._channel.write(header, buffer, item=buffer)
        self.recycle()

    def recycle(self, timeout_ms: int = 0) -> None:
        """Release the buffers that were written."""
        while (buffer := self.take(timeout_ms)) is not None:
            buffer.release()

    def close(self) -> None:
        """Wait until all is written, close the file, raise the first error."""
        try:
            super().close()
        finally:
            self._release_rest()

    def close_and_delete(self) -> None:
        """Do the same, and remove the file."""
        try:
            super().close_and_delete()
        finally:
            self._release_rest()

    def _release_rest(self) -> None:
        while (operation := self._channel.take(0)) is not None:
            operation.item.release()


class BufferFileReader(_FileChannel):
    """Reads what a `BufferFileWriter` wrote; a context manager, and an iterator over the buffers.

    Parameters
    ----------
    name : path-like
    executor : IOExecutor, optional
        Whose thread reads; without one each call does.
    max_size : int, default 32768
        Bytes in the largest buffer there is; a longer one is an error before any memory is taken for it.

    Raises
    ------
    CorruptDataError
        With path and ``offset``: the file is damaged or cut off.

    References
    ----------
    Flink ``BufferFileReader``.
    """

    def __init__(self, name: str | os.PathLike[str], executor: IOExecutor | None = None, max_size: int = 32768) -> None:
        super().__init__(name, "read", executor)
        self._max_size = max_size
        self._offset = 0

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self.read_block, None)

    def _read(self, size: int, exactly: bool) -> bytes | bytearray:
        target = bytearray(size)
        self._channel.read(target, item=target, exactly=exactly)
        operation = self._settle(self._channel.take())
        assert operation is not None
        return target if operation.size == size else target[: operation.size]

    def read_block(self) -> Buffer | None:
        """Read the next buffer; None at the end of the file."""
        header = self._read(HEADER_SIZE, exactly=False)
        if not header:
            return None
        data_type, is_compressed, size = checked_header(self._channel.path, self._offset, header, self._max_size)
        data = self._read(size, exactly=True) if size else b""
        self._offset += HEADER_SIZE + size
        return Buffer.copy_of(data, data_type, is_compressed)


class BufferFileSegmentReader:
    """Says where in a file its buffers lie, for those who send them without reading them; a context manager.

    Parameters
    ----------
    name : path-like

    References
    ----------
    Flink ``BufferFileSegmentReader``.
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self._file = FileChannel(name)
        self._offset = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[FileSegment]:
        return iter(self.read, None)

    def read(self) -> FileSegment | None:
        """Return the place of the next buffer; None at the end of the file."""
        left = self._file.size - self._offset
        if left == 0:
            return None
        header = self._file.read(self._offset, min(HEADER_SIZE, left))
        data_type, is_compressed, size = checked_header(self._file.path, self._offset, header, left - HEADER_SIZE)
        segment = FileSegment(self._file.path, self._offset + HEADER_SIZE, size, data_type, is_compressed)
        self._offset += HEADER_SIZE + size
        return segment

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._file.close()


def checked_header(path: str, offset: int, header: bytes | bytearray, max_size: int) -> tuple[int, bool, int]:
    """Read a header, or say what is wrong with it and where."""
    cause = "the file ends inside a header"
    if len(header) == HEADER_SIZE:
        try:
            data_type, is_compressed, size = read_header(header)
        except CorruptDataError as error:
            cause = str(error)
        else:
            if size <= max_size:
                return data_type, is_compressed, size
            cause = f"a buffer of {size} bytes, where {max_size} is the most"
    damaged = CorruptDataError(f"cannot read {path} at byte {offset}: {cause}; the file is damaged, or of another kind")
    damaged.path, damaged.offset = path, offset  # type: ignore[attr-defined]
    raise damaged
