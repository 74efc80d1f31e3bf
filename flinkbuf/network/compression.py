"""Buffers compressed one by one, as a Flink producer of a blocking partition sends them.

Every compressed buffer is one block: 4 bytes little-endian length of what follows the header, 4 bytes little-endian
length of the original, then an LZ4 block or a ZSTD frame. Producer and consumer agree on the codec beforehand; nothing
in the bytes names it. The codecs themselves are the packages lz4 and zstandard, the extra ``compression``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from flinkbuf.errors import CorruptDataError

_HEADER = struct.Struct("<ii")  # bytes of the block behind this header, bytes of the original
_MAX_SEGMENT_SIZE = 2**30


class _Codec(NamedTuple):
    """Both directions of one codec, on blocks without header."""

    compress: Callable[[memoryview], bytes]
    decompress: Callable[[memoryview, int], bytes]  # told how large the original is
    error: type[Exception]  # what the package raises for bytes that it cannot read


def _lz4() -> _Codec:
    block = _package("lz4.block", "LZ4")

    def compress(data: memoryview) -> bytes:
        return block.compress(data, store_size=False)

    def decompress(data: memoryview, size: int) -> bytes:
        return block.decompress(data, uncompressed_size=size)

    return _Codec(compress, decompress, block.LZ4BlockError)


def _zstd() -> _Codec:
    package = _package("zstandard", "ZSTD")
    # Level and checksum as Flink's compressor has them.
    compressor = package.ZstdCompressor(level=3, write_checksum=True)
    decompressor = package.ZstdDecompressor()

    def decompress(data: memoryview, size: int) -> bytes:
        # A frame may state its own size, and that much is allocated before anything is decoded.
        stated = package.frame_content_size(data)
        if stated not in (-1, size):
            raise package.ZstdError(f"its frame states an original of {stated} bytes")
        return decompressor.decompress(data, max_output_size=size, allow_extra_data=False)

    return _Codec(compressor.compress, decompress, package.ZstdError)


_CODECS: dict[str, Callable[[], _Codec]] = {"LZ4": _lz4, "ZSTD": _zstd}


def _package(name: str, codec: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"buffers compressed with {codec} need the package {name.partition('.')[0]}: "
            "pip install flinkbuf[compression]"
        ) from error


def _codec_of(name: str) -> _Codec:
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
    if name not in _CODECS:
        raise ValueError(f"codec must be one of {', '.join(_CODECS)}, got {name!r}")
    return _CODECS[name]()


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
        Without the codec's package; the message says how to install it.

    Notes
    -----
    Used by one thread.

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
        self._codec = _codec_of(codec)
        self.codec = codec
        self.segment_size = _check_segment_size(segment_size)

    def compress(self, data: Any) -> bytes | None:
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
            block = self._codec.compress(view)
        if len(block) + _HEADER.size >= size:
            return None
        return _HEADER.pack(len(block), size) + block


class BufferDecompressor:
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
        Without the codec's package; the message says how to install it.

    Notes
    -----
    Nothing in a block is believed: its lengths are checked against what is there and against ``segment_size`` before
    memory is taken for the original. Used by one thread.

    References
    ----------
    Flink ``BufferDecompressor``; bytes in ``tests/golden/compression``.
    """

    def __init__(self, codec: str, segment_size: int = 32 * 1024) -> None:
        self._codec = _codec_of(codec)
        self.codec = codec
        self.segment_size = _check_segment_size(segment_size)

    def decompress(self, data: Any) -> bytes:
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
            with view[_HEADER.size :] as block:
                try:
                    original = self._codec.decompress(block, size)
                except self._codec.error as error:
                    what = f"it is no block of that codec ({error}); does the producer use another?"
                    raise self._corrupt(view, what) from error
            if len(original) != size:
                raise self._corrupt(view, f"it holds {len(original)} bytes where its header states {size}")
        return original

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
