"""Buffers compressed one by one, as a Flink producer of a blocking partition sends them.

Every compressed buffer is one block: 4 bytes little-endian length of what follows the header, 4 bytes little-endian
length of the original, then an LZ4 block or a ZSTD frame. Producer and consumer agree on the codec beforehand; nothing
in the bytes names it. LZ4 is flinkbuf's own; ZSTD is the package zstandard, of the extra ``compression``.
"""

from __future__ import annotations

import struct
from importlib import import_module

from flinkbuf._core.memory.buffer_codec import BlockDecompressor, BufferCodec
from flinkbuf.errors import CorruptDataError

CODECS = ("LZ4", "ZSTD")
_HEADER = struct.Struct("<ii")  # bytes of the block behind this header, bytes of the original
_MAX_SEGMENT_SIZE = 2**30


def buffer_codec(name: str) -> BufferCodec:
    """The codec of a name, for buffers of one partition or gate; a ValueError or an ImportError says what to do."""
    if name == "LZ4":
        return BufferCodec("LZ4")
    if name == "ZSTD":
        return BufferCodec("ZSTD", _package("zstandard", "ZSTD"))
    if name == "LZO":
        raise ValueError(
            "flinkbuf does not read or write LZO: set the producer's taskmanager.network.compression.codec to LZ4 "
            "or ZSTD, and NetworkConfig.compression_codec to the same"
        )
    if name == "NONE":
        raise ValueError(
            "NONE is no codec for a buffer that is compressed: set NetworkConfig.compression_codec to the producer's "
            "taskmanager.network.compression.codec"
        )
    raise ValueError(f"codec must be one of {', '.join(CODECS)}, got {name!r}")


def _package(name: str, codec: str) -> object:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"buffers compressed with {codec} need the package {name}: pip install flinkbuf[compression]"
        ) from error


def _check_segment_size(size: int) -> int:
    if not 0 < size <= _MAX_SEGMENT_SIZE:
        raise ValueError(f"segment_size must be from 1 to {_MAX_SEGMENT_SIZE} bytes, got {size}")
    return size


class BufferCompressor:
    """Compress single buffers to what a Flink consumer reads.

    Parameters
    ----------
    codec : {"LZ4", "ZSTD"}
        Flink's ``taskmanager.network.compression.codec``; the consumer's must be the same.
    segment_size : int, default 32768
        Bytes of the largest buffer: the consumer's segments must hold the original.

    Raises
    ------
    ValueError
        For an unknown codec, and for LZO.
    ImportError
        For ZSTD without its package; the message says how to install it.

    Notes
    -----
    Any thread may use it. LZ4 is done without the GIL.

    References
    ----------
    Flink ``BufferCompressor``; bytes in ``tests/golden/compression``.

    Examples
    --------
    >>> block = BufferCompressor("LZ4").compress(bytes(1000))
    >>> len(block), BufferDecompressor("LZ4").decompress(block) == bytes(1000)
    (22, True)
    """

    def __init__(self, codec: str, segment_size: int = 32 * 1024) -> None:
        self._codec = buffer_codec(codec)
        self.codec = codec
        self.segment_size = _check_segment_size(segment_size)

    def compress(self, data: bytes | bytearray | memoryview) -> bytes | None:
        """Compress one buffer.

        Parameters
        ----------
        data : bytes-like
            Contiguous, 1 to ``segment_size`` bytes.

        Returns
        -------
        bytes or None
            Header and block; None where they would not be smaller than `data`, which is then sent as it is.

        Raises
        ------
        ValueError
            If `data` is empty or larger than a segment.
        """
        with memoryview(data).cast("B") as view:
            size = len(view)
            if not 0 < size <= self.segment_size:
                raise ValueError(f"a buffer of {size} bytes: it must have from 1 to segment_size = {self.segment_size}")
            return self._codec.compress(view)


class BufferDecompressor(BlockDecompressor):
    """Restore single buffers that a Flink producer compressed.

    Parameters
    ----------
    codec : {"LZ4", "ZSTD"}
        The producer's ``taskmanager.network.compression.codec``.
    segment_size : int, default 32768
        Bytes of the largest original that is accepted.

    Raises
    ------
    ValueError
        For an unknown codec, and for LZO.
    ImportError
        For ZSTD without its package; the message says how to install it.

    Notes
    -----
    Nothing in a block is believed: its lengths are checked against what is there and against ``segment_size`` before
    memory is taken for the original. Any thread may use it. LZ4 is done without the GIL.

    References
    ----------
    Flink ``BufferDecompressor``; bytes in ``tests/golden/compression``.
    """

    def __init__(self, codec: str, segment_size: int = 32 * 1024) -> None:
        super().__init__(buffer_codec(codec), _check_segment_size(segment_size))
        self.codec = codec

    def decompress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Give the original of one compressed buffer.

        Parameters
        ----------
        data : bytes-like
            Contiguous: header and block, and nothing behind them.

        Raises
        ------
        CorruptDataError
            If the bytes are no block of the codec, are cut off, or stand for more than ``segment_size`` bytes.
        """
        with memoryview(data).cast("B") as view:
            size = self._check_header(view)
            try:
                return self.buffer_codec.decompress(view, size)
            except (MemoryError, KeyboardInterrupt):
                raise
            except Exception as error:  # of whatever class the codec's package raises
                what = (
                    f"it is no block of that codec for the {size} bytes that its header states ({error}); does the "
                    "producer use another?"
                )
                raise self._corrupt(view, what) from error

    def _check_header(self, view: memoryview) -> int:
        """The length of the original, which is now known to be sensible."""
        if len(view) <= _HEADER.size:
            raise self._corrupt(view, f"its header alone has {_HEADER.size}")
        block_size, size = _HEADER.unpack_from(view)
        if block_size != len(view) - _HEADER.size:
            raise self._corrupt(view, f"its header states a block of {block_size} bytes behind itself")
        if size <= 0:
            raise self._corrupt(view, f"its header states an original of {size} bytes")
        if size > self.segment_size:
            limit = f"more than a segment of {self.segment_size}; is segment_size the producer's?"
            raise self._corrupt(view, f"its original has {size} bytes, {limit}")
        return size

    def _corrupt(self, view: memoryview, what: str) -> CorruptDataError:
        return CorruptDataError(f"a buffer of {len(view)} bytes compressed with {self.codec}: {what}")
