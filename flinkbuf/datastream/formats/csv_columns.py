"""CSV files, and messages, as batches of columns: pyarrow reads blocks of whole rows, and no object is made for a row.

What pyarrow and Python's csv may read differently is read by the latter, as for records: a block in which quotes stand
elsewhere than around fields, or that pyarrow refuses. So rows and errors are those of the reading by records, whatever
is in a file; only the speed differs.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.arrow_batches import batch_builder
from flinkbuf.streaming.sources.file_format import ColumnFormat
from flinkbuf.streaming.sources.file_lines import first_line_at, open_file
from flinkbuf.streaming.sources.file_split import COMPRESSED, FileSplit
from flinkbuf.streaming.sources.split_reader import rows_behind
from flinkbuf.streaming.sources.wanted_columns import MessageColumns, MessageRows, batch_in, is_text
from flinkbuf.types.type_information import RowTypeInfo

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from _typeshed import WriteableBuffer

BLOCK = 1 << 20  # bytes that are read at once
_LF = 10
_CR = 13


@dataclass(frozen=True)
class CsvText:
    """How rows are written.

    Attributes
    ----------
    separator, quote : str
        Single characters of ASCII; no quote: None.
    null_value : str, optional
        The text that is null in any column; an empty one is null in all but texts.
    is_splittable : bool
        Each line is a row.
    """

    separator: str
    quote: str | None
    null_value: str | None
    is_splittable: bool


@dataclass(frozen=True)
class RowReader:
    """Reads rows one by one, as for records.

    Attributes
    ----------
    read_head : callable, optional
        Takes the lines with which a file begins, of which it uses up those before the data; returns where each column
        stands, and how many there are. None: there is no head, and columns stand as they are declared.
    read : callable
        Takes lines, the path, the offset of the first, and where columns stand (None: as declared); yields rows.
    """

    read_head: Callable[[Iterator[str]], tuple[list[int], int] | None] | None
    read: Callable[[Iterable[str], str, int, list[int] | None], Iterator[object]]


@dataclass(frozen=True)
class CsvColumns(ColumnFormat):
    """Reads the rows of a file, or of a range of one, in blocks.

    Parameters
    ----------
    schema : pyarrow.Schema
        What is wanted.
    row_type : RowTypeInfo
        Of the rows.
    found : pyarrow.Schema
        The same in Arrow.
    text : CsvText
    rows : RowReader
    max_rows, max_bytes : int
        Of a batch.
    """

    schema: pa.Schema
    row_type: RowTypeInfo
    found: pa.Schema
    text: CsvText
    rows: RowReader
    max_rows: int
    max_bytes: int

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows behind those that were skipped, which are read again up to there."""
        for batch in rows_behind(self._read(split), split.skipped, split.path):
            for start in range(0, batch.num_rows, self.max_rows):
                yield batch.slice(start, self.max_rows)

    def _read(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        with open_file(split.path) as file:
            start, left = 0, None
            if self.text.is_splittable and not split.path.endswith(COMPRESSED):
                size = file.seek(0, 2)
                start = first_line_at(file, split.start, size)
                left = first_line_at(file, split.end, size) - start
                file.seek(start)
            blocks = _Blocks(file, start, left, self._block_size, self.text.quote)
            yield from _Reading(self, split.path).batches(blocks)

    @property
    def _block_size(self) -> int:
        return max(1, min(BLOCK, self.max_bytes))


@dataclass(frozen=True)
class CsvMessages(MessageColumns):
    """Reads messages that are rows.

    Parameters
    ----------
    columns : CsvColumns
        Which would read a file of such rows, a line each.
    rows : MessageRows
        How they are read one by one.
    """

    columns: CsvColumns
    rows: MessageRows

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of all batches."""
        return self.columns.schema

    def read(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, list[int] | None]:
        """Return the rows of messages, and which have one; None: each has."""
        batch = self._by_arrow(messages)
        return self.rows.read(messages, self.schema) if batch is None else (batch, None)

    def _by_arrow(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the rows; None: they cannot be read so."""
        texts = [message.removesuffix(b"\n").removesuffix(b"\r") for message in messages]
        data = b"\n".join(texts) + b"\n"
        is_a_line_each = all(texts) and data.count(b"\n") == len(texts) and b"\r" not in data
        if not is_a_line_each or codecs.BOM_UTF8 in data or not is_text(data):
            return None
        reading = _Reading(self.columns, self.rows.place)
        if not reading.is_plain(data) or reading.has_hex(data):
            return None
        batch = reading.by_arrow(data)
        return batch if batch is not None and batch.num_rows == len(texts) else None


PLACE: Final = "a CSV message"


class _Reading:
    """The reading of one range: where its columns stand, and how each block is read."""

    def __init__(self, columns: CsvColumns, path: str) -> None:
        self._columns = columns
        self._path = path
        self._order: list[int] | None = None  # where each column stands; None: as declared
        self._width = len(columns.found)  # how many fields a row has

    def batches(self, blocks: _Blocks) -> Iterator[pa.RecordBatch]:
        """Yield what each block brings."""
        for offset, data in self._behind_head(iter(blocks)):
            if not self.is_plain(data):
                yield from self._by_rows(blocks.text_from(offset, data), offset)
                return  # with the rest: where rows begin is known by reading all
            if self.has_hex(data):
                yield from self._by_rows(_lines_of(data), offset)
                continue
            batch = self.by_arrow(data)
            if batch is None:
                yield from self._by_rows(_lines_of(data), offset)
            else:
                yield batch

    def _behind_head(self, blocks: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Read what stands before the first row of a file; yield what follows, with the offset of each block."""
        for offset, data in blocks:
            if offset:
                yield offset, data
                break
            lines = _CountedLines(data, blocks)
            if self._columns.rows.read_head is not None:
                try:
                    head = self._columns.rows.read_head(iter(lines))
                except (ValueError, csv.Error) as error:
                    raise CorruptDataError(f"{self._path}, line {max(lines.count, 1)}: {error}") from error
                if head is not None:
                    self._order, self._width = head
            if lines.rest:
                yield lines.offset, lines.rest
            break
        yield from blocks

    def is_plain(self, data: bytes) -> bool:
        """Return whether quotes stand around fields only, so that everybody reads them in the same way."""
        quote = self._columns.text.quote
        if quote is None or quote.encode() not in data:
            return True
        import numpy as np

        block = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(block == ord(quote))
        if len(quotes) % 2:
            return False
        # Of two that follow each other within a field, the first counts as its end, and the second begins it anew.
        begins, ends = quotes[::2], quotes[1::2]
        is_double = ends[:-1] + 1 == begins[1:]
        is_begin = (begins == 0) | self._is_border(block[begins - 1])
        is_end = (ends == len(block) - 1) | self._is_border(block[np.minimum(ends + 1, len(block) - 1)])
        is_begin[1:] |= is_double
        is_end[:-1] |= is_double
        if not (is_begin.all() and is_end.all()):
            return False
        if not self._columns.text.is_splittable:
            return True
        line_ends = np.flatnonzero((block == _CR) | (block == _LF))
        return not (
            np.searchsorted(quotes, line_ends) % 2
        ).any()  # a line end within quotes is told by the rows' reader

    def _is_border(self, bytes_: np.ndarray) -> np.ndarray:
        return (bytes_ == ord(self._columns.text.separator)) | (bytes_ == _CR) | (bytes_ == _LF)

    def has_hex(self, data: bytes) -> bool:
        """Return whether pyarrow might take for a number what is none to Python."""
        import pyarrow.types as types

        if not any(types.is_integer(field.type) for field in self._columns.found):
            return False
        # To look for one byte first costs little.
        return (b"x" in data and b"0x" in data) or (b"X" in data and b"0X" in data)

    def by_arrow(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows of a block; None: they cannot be read so."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        columns, text = self._columns, self._columns.text
        order = range(self._width) if self._order is None else self._order
        places = {name: str(order[index]) for index, name in enumerate(columns.found.names)}
        wanted = [places[name] for name in columns.schema.names]
        # A number is rounded once to double and then to float, as Python does it.
        types = {
            places[field.name]: pa.float64() if pa.types.is_floating(field.type) else field.type
            for field in columns.found
        }
        nulls = [""] if text.null_value is None else ["", text.null_value]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=list(map(str, range(self._width)))
                ),
                arrow_csv.ParseOptions(
                    delimiter=text.separator, quote_char=text.quote or False, newlines_in_values=text.quote is not None
                ),
                arrow_csv.ConvertOptions(
                    column_types={place: types[place] for place in wanted},
                    include_columns=list(dict.fromkeys(wanted)),
                    null_values=nulls,
                    true_values=["true", "True", "TRUE"],
                    false_values=["false", "False", "FALSE"],
                ),
            )
        except pa.ArrowInvalid:
            return None
        made = [
            self._as_found(table.column(places[name]).combine_chunks(), name, data) for name in columns.schema.names
        ]
        if any(column is None for column in made):
            return None
        return batch_in(self._path, made, columns.schema)

    def _as_found(self, column: pa.Array, name: str, data: bytes) -> pa.Array | None:
        """Return a column of the type that the rows have; None: it may hold what is no value to Python."""
        import pyarrow as pa
        import pyarrow.compute as pc

        type_ = self._columns.found.field(name).type
        if pa.types.is_floating(type_):
            if b"(" in data and pc.any(pc.is_nan(column)).as_py():  # such as nan(1)
                return None
            return column.cast(type_, safe=False)
        if pa.types.is_string(type_) and self._columns.text.null_value is not None:
            is_null = pc.equal(column, self._columns.text.null_value)
            return pc.if_else(is_null, pa.scalar(None, type_), column)
        return column

    def _by_rows(self, lines: Iterable[str], offset: int) -> Iterator[pa.RecordBatch]:
        """Yield rows as they are read for records."""
        columns = self._columns
        codec = columns.row_type.codec
        gathered = RecordsToBatch(codec, batch_builder(codec, columns.found, columns.max_rows, columns.max_bytes))
        for row in columns.rows.read(lines, self._path, offset, self._order):
            try:
                is_full = gathered.add_record(row)
            except (TypeError, ValueError, OverflowError) as error:
                raise CorruptDataError(f"{self._path}: {error}, in {row!r:.200}") from error
            if is_full:
                yield self._wanted(gathered.finish())
        if gathered.count:
            yield self._wanted(gathered.finish())

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        schema = self._columns.schema
        return batch_in(self._path, [batch.column(name) for name in schema.names], schema)


class _Blocks:
    """Cuts a file, or a range of one, into blocks that end where rows do: at line ends outside of quotes.

    Parameters
    ----------
    file : binary file
        At the place where the first row begins.
    offset : int
        Where that is.
    left : int, optional
        How many bytes are read; None: up to the end.
    size : int
        Bytes of a block; one with a longer row has more.
    quote : str, optional
    """

    def __init__(self, file: IO[bytes], offset: int, left: int | None, size: int, quote: str | None) -> None:
        self._file = file
        self._offset = offset
        self._left = left
        self._size = size
        self._quote = None if quote is None else quote.encode()
        self._rest = b""  # what was read of the next block

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while True:
            piece = self.read(max(self._size, len(self._rest)))
            data = self._rest + piece
            end = self._end_of_rows(data) if piece else len(data)
            self._rest = data[end:]
            if end:
                offset = self._offset
                self._offset += end
                yield offset, data[:end]
            if not piece:
                return

    def read(self, size: int) -> bytes:
        """Return the next bytes of the range; none at its end."""
        data = self._file.read(size if self._left is None else min(size, self._left))
        if self._left is not None:
            self._left -= len(data)
        return data

    def _end_of_rows(self, data: bytes) -> int:
        """Return where the last whole row ends. A CR at the very end may be followed by LF."""
        end = len(data) - data.endswith(b"\r")
        quote = self._quote
        count = 0 if quote is None else data.count(quote, 0, end)  # before the end
        while (line_end := max(data.rfind(b"\n", 0, end), data.rfind(b"\r", 0, end))) >= 0:
            count -= data.count(quote, line_end, end) if count and quote is not None else 0
            if not count % 2:
                return line_end + 1
            end = line_end
        return 0

    def text_from(self, offset: int, data: bytes) -> Iterator[str]:
        """Yield the lines of a block and of all that follows it."""
        behind, self._rest = data + self._rest, b""
        self._offset = offset
        with io.TextIOWrapper(io.BufferedReader(_Rest(behind, self)), "utf-8", "replace", newline="") as lines:
            yield from lines


class _Rest(io.RawIOBase):
    """Bytes that were read already, and those that follow."""

    def __init__(self, begin: bytes, blocks: _Blocks) -> None:
        self._begin = memoryview(begin)
        self._blocks = blocks

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer).cast("B")
        data = self._begin[: len(room)]
        self._begin = self._begin[len(data) :]
        if not data:
            data = memoryview(self._blocks.read(len(room)))
        room[: len(data)] = data
        return len(data)


class _CountedLines:
    """Lines of a block, and of those that follow, which say where those begin that were not taken.

    Attributes
    ----------
    count : int
        Of the lines that were taken.
    offset : int
        Where the first block begins without its lines that were taken. A mark of the encoding is no line of its own.
    rest : bytes
        Of the block in which the last line was.
    """

    def __init__(self, data: bytes, blocks: Iterator[tuple[int, bytes]]) -> None:
        self.rest = data.removeprefix(codecs.BOM_UTF8)
        self._mark_size = len(data) - len(self.rest)
        self.offset = 0
        self.count = 0
        self._blocks = blocks

    def __iter__(self) -> Iterator[str]:
        while self.rest:
            data, taken = self.rest, 0
            for line in data.splitlines(keepends=True):
                self.offset += len(line) + (0 if self.count else self._mark_size)
                self.count += 1
                taken += len(line)
                self.rest = data[taken:]
                yield line.decode("utf-8", "replace")
            self.rest = next(self._blocks, (0, b""))[1]


def _lines_of(data: bytes) -> Iterator[str]:
    return iter(io.StringIO(data.decode("utf-8", "replace"), newline=""))
