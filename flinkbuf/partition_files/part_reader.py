"""What one task of a read does: chosen subpartitions of some files, as batches of columns.

Everything is checked against the manifest: the sizes of the files, the checksum of the index, and of each subpartition
the checksum of its bytes and the number of its records. What does not fit ends the read with a message that names the
file and where in it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf._core.flow.batch_reader import BatchBufferReader
from flinkbuf._core.partition.partition_file import PartitionFile
from flinkbuf.errors import CorruptDataError, PartitionNotFoundError
from flinkbuf.network.compression import BufferDecompressor
from flinkbuf.partition_files.data_set import DATA_SUFFIX, INDEX_SUFFIX
from flinkbuf.partition_files.manifest import DataFile
from flinkbuf.records.arrow_batches import batch_builder, record_type

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_TASK_SIZE = 64 << 20  # bytes of data files for each task that reads
_TASKS_MIN = 8
_TASK_SIZE_MIN = 8 << 20  # bytes
_BATCH_BYTES = 32 << 20  # of one batch of columns


@dataclass(frozen=True)
class Piece:
    """What is to be read of one file.

    Attributes
    ----------
    subpartitions : tuple of (int, int, int)
        Number, records and checksum of each.
    rows : tuple of (int, int), optional
        Of the only subpartition: the first row to read, and the one behind the last. Left out: all of them.
    """

    name: str
    data_size: int
    index_size: int
    index_crc32: int
    subpartition_count: int
    segment_size: int
    compression: str | None
    subpartitions: tuple[tuple[int, int, int], ...]
    rows: tuple[int, int] | None = None

    @classmethod
    def of(cls, file: DataFile, chosen: Sequence[int], rows: tuple[int, int] | None = None) -> Piece:
        """What a manifest says of them."""
        return cls(
            file.name,
            file.data_size,
            file.index_size,
            file.index_crc32,
            len(file.records),
            file.segment_size,
            file.compression,
            tuple((index, file.records[index], file.checksums[index]) for index in chosen),
            rows,
        )


@dataclass(frozen=True)
class Span:
    """Rows of a subpartition in one file; all of them where `rows` is left out."""

    file: DataFile
    index: int
    rows: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes to read it: rows are found by those before them."""
        return self.file.sizes[self.index]


def cut_pieces(
    files: Sequence[DataFile], subpartitions: Sequence[int], task_size: int | None = None
) -> list[tuple[Piece, ...]]:
    """Cut into tasks of about `task_size` bytes: whole subpartitions, neighbours together; a larger one by files.

    All are about as large, so that none of them runs alone at the end. None stands for 64 MiB, and for less where so
    few tasks would leave cores idle: then there are `_TASKS_MIN`, or as many as have `_TASK_SIZE_MIN` bytes.

    Examples
    --------
    >>> one = DataFile("part-0123456789abcdef-00000-01234567", 9, 0, 0, (1, 1, 0), (5, 4, 0), (0, 0, 0), 4096)
    >>> two = DataFile("part-0123456789abcdef-00001-01234567", 30, 0, 0, (0, 0, 3), (0, 0, 30), (0, 0, 0), 4096)
    >>> [[(piece.name[22:27], [index for index, *_ in piece.subpartitions]) for piece in each]
    ...  for each in cut_pieces([one, two], [0, 1, 2], 10)]
    [[('00000', [0, 1])], [('00001', [2])]]
    """
    return cut_spans(
        [[Span(file, index) for file in files if file.records[index]] for index in subpartitions], task_size
    )


def cut_spans(wanted: Sequence[Sequence[Span]], task_size: int | None = None) -> list[tuple[Piece, ...]]:
    """Cut into tasks, as `cut_pieces`, what is wanted of each subpartition."""
    total = sum(span.size for spans in wanted for span in spans)
    count = -(-total // (task_size or DEFAULT_TASK_SIZE))
    share = total / max(1, count, 0 if task_size else min(_TASKS_MIN, total // _TASK_SIZE_MIN))
    cut: dict[int, list[Span]] = {}
    position = 0
    for spans in wanted:
        size = sum(span.size for span in spans)
        for group in [spans] if size <= share else [[span] for span in spans]:
            group_size = sum(span.size for span in group)
            cut.setdefault(int((position + group_size / 2) / share) if group_size else 0, []).extend(group)
            position += group_size
    return [_by_file(spans) for spans in cut.values() if spans]


def _by_file(spans: Sequence[Span]) -> tuple[Piece, ...]:
    whole: dict[str, tuple[DataFile, list[int]]] = {}
    for span in spans:
        if span.rows is None:
            whole.setdefault(span.file.name, (span.file, []))[1].append(span.index)
    pieces = [Piece.of(file, chosen) for file, chosen in whole.values()]
    return (*pieces, *(Piece.of(span.file, [span.index], span.rows) for span in spans if span.rows is not None))


def read_pieces(
    directory: str,
    pieces: Sequence[Piece],
    schema: object,
    max_rows: int,
    columns: Sequence[str] | None = None,
    max_bytes: int = _BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of some subpartitions, one behind the other.

    Parameters
    ----------
    directory : str
        Where the files lie.
    pieces : sequence of Piece
        Files, and which subpartitions of them.
    schema : pyarrow.Schema
        Of the rows.
    max_rows : int
        Rows of the largest batch.
    columns : sequence of str, optional
        Those that the batches have, in this order; all of them if left out.
    max_bytes : int, default 32 MiB
        Of the largest batch.

    Raises
    ------
    CorruptDataError
        If the bytes are not those that were written.
    FileNotFoundError
        If a file is gone, as after an overwrite.
    """
    whole = [piece for piece in pieces if piece.rows is None]
    yield from _read_whole(directory, whole, schema, max_rows, columns, max_bytes)
    for piece in pieces:
        if piece.rows is not None:
            yield from _rows_of(_read_whole(directory, [piece], schema, max_rows, columns, max_bytes), *piece.rows)


def _rows_of(batches: Iterator[pa.RecordBatch], first: int, end: int) -> Iterator[pa.RecordBatch]:
    """Some rows of a subpartition, which is read no further than that."""
    position = 0
    for batch in batches:
        found = batch.slice(max(0, first - position), max(0, end - max(first, position)))
        position += batch.num_rows
        if found.num_rows:
            yield found
        if position >= end:
            return


def _read_whole(
    directory: str,
    pieces: Sequence[Piece],
    schema: object,
    max_rows: int,
    columns: Sequence[str] | None,
    max_bytes: int,
) -> Iterator[pa.RecordBatch]:
    source = _Buffers(directory, pieces)
    found = 0
    codec = record_type(schema).codec
    builder = batch_builder(codec, schema, max_rows, max_bytes, columns)
    try:
        for batch in BatchBufferReader(iter(source), codec, builder):
            found += batch.num_rows
            yield batch
    except CorruptDataError as error:
        if source.is_reporting:
            raise
        raise CorruptDataError(f"{source.path}: at byte {source.offset} or before: {error}") from error
    expected = sum(records for piece in pieces for _, records, _ in piece.subpartitions)
    if found != expected:
        names = ", ".join(piece.name for piece in pieces)
        raise CorruptDataError(f"{directory}: {found} records in {names}, where the manifest tells of {expected}")


class _Buffers:
    """The buffers of all pieces in turn, and where they lie."""

    def __init__(self, directory: str, pieces: Sequence[Piece]) -> None:
        self._directory = directory
        self._pieces = pieces
        self.path = directory
        self.offset = 0
        self.is_reporting = False  # an error of this one's own names its place itself

    def __iter__(self) -> Iterator[object]:
        try:
            for piece in self._pieces:
                yield from self._of_piece(piece)
        except CorruptDataError:
            self.is_reporting = True
            raise

    def _of_piece(self, piece: Piece) -> Iterator[object]:
        base_path = os.path.join(self._directory, piece.name)
        self.path, self.offset = base_path + DATA_SUFFIX, 0
        codec = BufferDecompressor(piece.compression, piece.segment_size) if piece.compression else None
        try:
            file = opened_file(base_path, piece.subpartition_count, piece.data_size, piece.index_crc32)
            for index, _, checksum in piece.subpartitions:
                yield from self._of_subpartition(file, index, checksum, codec)
        except (FileNotFoundError, PartitionNotFoundError):
            text = "this file of the data set is gone: it was replaced by an overwrite or a compaction, or removed"
            path = next(filter(_is_gone, (self.path, base_path + INDEX_SUFFIX)), self.path)
            raise FileNotFoundError(errno.ENOENT, f"{text}; load the data set again", path) from None

    def _of_subpartition(
        self, file: PartitionFile, index: int, checksum: int, codec: BufferDecompressor | None
    ) -> Iterator[object]:
        blocks = file.data(index)
        for self.offset, is_compressed, data in blocks:
            yield restored(data, is_compressed, codec, f"{self.path}: at byte {self.offset}")
        if blocks.sum[1] != checksum:
            raise CorruptDataError(
                f"{self.path}: at byte {self.offset} or before: the checksum of subpartition {index} is not the "
                "manifest's: bytes were changed or damaged"
            )


def opened_file(base_path: str, subpartition_count: int, data_size: int, index_crc32: int) -> PartitionFile:
    """Open a file that a manifest tells of.

    Raises
    ------
    FileNotFoundError
        If one of the two is not there.
    CorruptDataError
        If they are not what was written; the message names file and offset.
    """
    file = PartitionFile(base_path, subpartition_count)
    if file.data_size != data_size:
        raise CorruptDataError(
            f"{base_path}{DATA_SUFFIX}: at byte {min(file.data_size, data_size)}: the file has {file.data_size} bytes, "
            f"it was written with {data_size}"
        )
    if file.index_crc32 != index_crc32:
        raise CorruptDataError(
            f"{base_path}{INDEX_SUFFIX}: at byte 0: the checksum is not the manifest's: it was changed or damaged"
        )
    return file


def restored(data: memoryview, is_compressed: bool, codec: BufferDecompressor | None, place: str) -> memoryview | bytes:
    """Give a buffer as it was before it was compressed, if it was; CorruptDataError names its place."""
    if not is_compressed:
        return data
    if codec is None:
        raise CorruptDataError(f"{place}: a compressed buffer in a file without")
    try:
        return codec.decompress(data)
    except CorruptDataError as error:
        raise CorruptDataError(f"{place}: {error}") from error


def _is_gone(path: str) -> bool:
    return not os.path.exists(path)
